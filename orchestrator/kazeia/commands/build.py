"""`kz build`: the runner for another system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kazeia.commands.output import print_json, say

if TYPE_CHECKING:
    from kazeia.building import Target


@click.command("build")
@click.option("--target", type=click.Choice(["android-arm64", "linux-arm64"]), required=True, help="What it will run on.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="A new folder, for kz_runner and its libraries."
)
@click.option(
    "--executorch",
    type=click.Path(path_type=Path),
    help="linux-arm64: the aarch64 wheel. android-arm64: the install prefix of a source build.",
)
@click.option("--ndk", type=click.Path(path_type=Path), help="Android's NDK (android-arm64).")
@click.option("--qnn-sdk", type=click.Path(path_type=Path), help="Qualcomm's QNN SDK, whose libraries go along (android-arm64).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(target: Target, output: Path, executorch: Path | None, ndk: Path | None, qnn_sdk: Path | None, as_json: bool) -> None:
    """Build the runner for a device; kz deploy --runner OUTPUT/kz_runner then brings it there."""
    from kazeia.building import BuildOptions, build_runner

    runner = build_runner(BuildOptions(target, output, executorch, ndk, qnn_sdk), say)
    if as_json:
        print_json({"target": target, "runner": str(runner), "bytes": runner.stat().st_size})
    else:
        click.echo(f"{runner}: for {target}; now kz deploy --runner {runner}")
