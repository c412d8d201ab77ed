"""`kz calibrate`: what the models see while they speak, recorded for static quantisation."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import print_json, status_line

if TYPE_CHECKING:
    from kazeia.export.calibration_run import Calibrated


@click.command("calibrate")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder to write.")
@click.option(
    "--phrases", type=click.Path(path_type=Path), metavar="FILE", help="A list as kz batch takes. [default: kz's own 50]"
)
@click.option("--voice", "voices", multiple=True, help="Voice or built-in speaker; several take turns. [default: all that fit]")
@click.option("--max-frames", type=int, metavar="N", help="Of a phrase, 12.5 a second. [default: generous, from its length]")
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable result.")
def command(
    checkpoint: Path, folder: Path, phrases: Path | None, voices: tuple[str, ...], max_frames: int | None, as_json: bool
) -> None:
    """Speak phrases with CHECKPOINT in fp32 and record in DIR what each model saw, for kz export --calibration DIR.

    Run it again after an interruption: it goes on where it stopped. Needs `pip install 'kazeia[export]'`.
    """
    from kazeia.export.calibration_run import calibrate
    from kazeia.export.progress import LineProgress

    started = time.monotonic()
    with status_line() as line:

        def told(done: int, total: int, frames: int) -> None:
            line.show(f"phrase {done + 1} of {total}: {frames} frames, {time.monotonic() - started:.0f} s")

        result = calibrate(checkpoint, folder, phrases, voices, max_frames, LineProgress(sys.stderr), told)
    if as_json:
        print_json(_report(result))
    else:
        click.echo(_summary(result))


def _report(result: Calibrated) -> dict[str, Any]:
    index = result.index
    return {
        "folder": str(result.folder),
        "checkpoint": index.checkpoint,
        "checkpoint_sha256": index.checkpoint_sha256,
        "phrases": len(index.recorded),
        "recorded_now": result.recorded_now,
        "frames": sum(one.frames for one in index.recorded),
        "prompt_tokens": sum(one.prompt_tokens for one in index.recorded),
        "languages": dict(Counter(one.language for one in index.recorded)),
        "voices": dict(Counter(one.voice for one in index.recorded)),
        "stop_reasons": dict(Counter(one.stop_reason for one in index.recorded)),
        "elapsed_s": round(result.elapsed_s, 1),
    }


def _summary(result: Calibrated) -> str:
    report = _report(result)
    languages = f"{len(report['languages'])} language{'s' * (len(report['languages']) > 1)}"
    capped = report["stop_reasons"].get("frame_cap", 0)
    cut = f", {capped} of them cut off by the frame cap" if capped else ""
    return (
        f"{result.folder}: {report['phrases']} phrases of {report['checkpoint']} in {languages}{cut}; "
        f"{report['frames']} frames, {report['prompt_tokens']} prompt tokens, {result.elapsed_s:.0f} s"
    )
