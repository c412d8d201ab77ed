"""`kz serve`: a warm service over HTTP."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import say
from kazeia.errors import UsageError
from kazeia.serve.limits import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_QUEUE

if TYPE_CHECKING:
    from kazeia.serve.speech_queue import SpeechQueue

NEEDED = ("starlette", "uvicorn", "prometheus_client")


@click.command("serve")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on; beyond this machine needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 takes any free one.")
@click.option("--token", envvar="KZ_TOKEN", help="What clients must send as Authorization: Bearer. [default: $KZ_TOKEN, or none]")
@click.option("--queue", type=click.IntRange(1, 1024), default=DEFAULT_QUEUE, show_default=True, help="Requests that wait.")
@click.option("--bundle", help="Bundle folder. [default: $KZ_BUNDLE, the last one exported, or the built-in one]")
@click.option("--device", help="local, adb, adb:SERIAL or ssh:USER@HOST[:PORT]. [default: $KZ_DEVICE, last deploy, or local]")
@click.option("--decode-on", type=click.Choice(["pc", "device"]), default="pc", show_default=True, help="What decodes the codes.")
@click.option("--threads", type=click.IntRange(1, 256), help="CPU threads of each runner. [default: the performance cores]")
def command(host: str, port: int, token: str | None, queue: int, **options: Any) -> None:
    """Keep the models loaded and answer OpenAI's POST /v1/audio/speech, with a page at /.

    \b
    curl http://127.0.0.1:8125/v1/audio/speech -H 'Content-Type: application/json' \\
      -d '{"model": "kazeia", "voice": "claire", "input": "Bonjour."}' -o bonjour.wav
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UsageError(f"kz serve needs {', '.join(missing)}; install them: pip install 'kazeia[serve]'")
    from kazeia.serve.server import address, bind, check_token, serve
    from kazeia.synthesis import Synthesizer

    def open_synthesizer() -> Synthesizer:
        return Synthesizer(options["bundle"], options["device"], options["threads"], options["decode_on"])

    def ready(started: SpeechQueue) -> None:
        if notice := started.bundle.manifest.builtin:
            say(notice)
        click.echo(address(listener))

    with bind(host, port) as listener:
        check_token(token, listener)
        serve(listener, open_synthesizer, queue, token, ready)
