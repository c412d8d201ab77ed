"""`kz deploy`: a bundle and the runner go to a device."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kazeia.commands.output import print_json, say, status_line

if TYPE_CHECKING:
    from kazeia.deployment import Deployment

LOG_LEVELS = ("error", "warning", "info", "debug")


@click.command("deploy")
@click.argument("bundle", required=False)
@click.option("--device", help="adb, adb:SERIAL or ssh:USER@HOST[:PORT]. [default: $KZ_DEVICE, the last one, or adb]")
@click.option(
    "--folder", help="Kazeia's folder on the device. [default: as last time, or /data/local/tmp/kazeia or ~/.kazeia-device]"
)
@click.option("--runner", type=click.Path(path_type=Path), help="The kz_runner to send. [default: the installed one, if it fits]")
@click.option("--voices", multiple=True, metavar="NAME", help="Also copy this voice of yours. Speaking needs none on the device.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True, help="Of the runner there.")
@click.option("--prune", is_flag=True, help="Then remove older deployments.")
@click.option("--dry-run", is_flag=True, help="Check everything, list what would be sent, and change nothing.")
@click.option("--accept-quality", is_flag=True, help="Deploy even a bundle whose quality is below the gates or unknown.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    bundle: str | None,
    device: str | None,
    folder: str | None,
    runner: Path | None,
    voices: tuple[str, ...],
    log_level: str,
    prune: bool,
    dry_run: bool,
    accept_quality: bool,
    as_json: bool,
) -> None:
    """Bring BUNDLE [default: the one kz speak would use] and the runner to a device, which becomes the default of later commands.

    Only files that differ are sent. An interrupted deploy continues where it stopped.
    """
    from kazeia.bundle_choice import open_bundle
    from kazeia.deployment import Options, deploy
    from kazeia.devices.choice import choose_remote

    opened = open_bundle(bundle)
    options = Options(
        runner=runner, voices=voices, log_level=log_level, dry_run=dry_run, prune=prune, accept_quality=accept_quality
    )
    with _progress() as progress:
        result = deploy(opened, choose_remote(device, folder), options, progress)
    for note in result.notes:
        say(note)
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        click.echo(_summary(result))


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    with status_line() as line:
        started = time.monotonic()

        def show(path: str, sent_bytes: int, total_bytes: int) -> None:
            rate = sent_bytes / max(time.monotonic() - started, 1e-3)
            left_s = (total_bytes - sent_bytes) / max(rate, 1)
            size = f"{sent_bytes / 1e6:,.1f} of {total_bytes / 1e6:,.1f} MB"
            line.show(f"sending {path}: {size}, {rate / 1e6:.1f} MB/s, {left_s:.0f} s left")

        yield show


def _summary(result: Deployment) -> str:
    where = f"{result.device}: {result.bundle} in {result.folder}"
    if result.dry_run:
        lines = [f"{where}: {len(result.sent)} of {result.files} files to send, {result.sent_bytes / 1e6:,.1f} MB"]
        return "\n".join(lines + [f"  {path}" for path in result.sent])
    pruned = f"; {result.pruned} older deployments removed" if result.pruned else ""
    if not result.sent:
        return f"{where}: nothing to send, all {result.files} files are there and whole ({result.total_s:.1f} s){pruned}"
    rate = result.sent_bytes / max(result.send_s, 1e-3) / 1e6
    sent = f"{len(result.sent)} of {result.files} files sent, {result.sent_bytes / 1e6:,.1f} MB at {rate:,.1f} MB/s"
    return f"{where}: {sent} ({result.total_s:.1f} s){pruned}"
