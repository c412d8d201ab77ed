"""The command `kz`: finds the verb's module, and turns every failure into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from kazeia import __version__
from kazeia.errors import KazeiaError

COMMANDS = {
    "speak": "Speak a text into a WAV file.",
    "batch": "Speak a list of phrases into a folder of WAV files.",
    "serve": "Keep the models loaded and answer over HTTP.",
    "voice": "Add, import, list and remove voices.",
    "decode": "Turn codebook IDs into a WAV file.",
    "bundle": "Show and verify what was exported.",
    "devices": "List adb and ssh devices and what is deployed on them.",
    "deploy": "Bring a bundle and the runner to a device.",
    "doctor": "Check this machine and a device.",
    "build": "Build the runner for a device.",
    "bench": "Time the runner on this machine.",
    "export": "Export a checkpoint into a bundle.",
    "calibrate": "Record what the models see, for static quantisation.",
    "checkpoint": "Look at a checkpoint, or make a random one.",
}
"""Verb to its line in `kz --help`; `kazeia.commands.<verb>` is imported only when it is used."""

INTERRUPTED = 130
INTERNAL_ERROR = 70


class LazyGroup(click.Group):
    """A group that imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kazeia.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kz")
def kz() -> None:
    """Qwen3-TTS on a Snapdragon tablet's NPU: export, deploy, speak."""


def main() -> NoReturn:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result = kz.main(arguments, prog_name="kz", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KazeiaError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; nothing was left half-written")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; leave without Python's own complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("KZ_TRACEBACK"):
            raise
        _say(f"internal error: {type(error).__name__}: {error}; set KZ_TRACEBACK=1 to see where, and report it")
        return INTERNAL_ERROR


def _say(message: str) -> None:
    click.echo(f"kz: {' '.join(message.split())}", err=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM as Ctrl-C, so that runners and temporary files go."""
    raise KeyboardInterrupt
