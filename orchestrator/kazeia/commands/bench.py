"""`kz bench`: the runner alone, on a made-up prompt, without the end-of-speech code."""

from __future__ import annotations

import click

from kazeia import defaults
from kazeia.commands.output import print_json, status_line


@click.command("bench")
@click.option("--bundle", help="Bundle folder. [default: as kz speak]")
@click.option("--device", help="Where the runner runs, as for kz speak. [default: as kz speak]")
@click.option("--frames", type=click.IntRange(1), default=defaults.BENCH_FRAMES, show_default=True, help="Frames a run.")
@click.option("--runs", type=click.IntRange(1), default=defaults.BENCH_RUNS, show_default=True, help="Runs, after one warm-up.")
@click.option("--threads", type=click.IntRange(1, 256), help="CPU threads of each runner. [default: the performance cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the medians as JSON.")
def command(bundle: str | None, device: str | None, frames: int, runs: int, threads: int | None, as_json: bool) -> None:
    """Time prefill, talker, code predictor and speech decoder; prints medians over the runs."""
    from kazeia.benchmark import benchmark

    with status_line() as line:
        result = benchmark(bundle, device, frames, runs, threads, line.show)
    if as_json:
        print_json(result)
        return
    for key, value in result.items():
        click.echo(f"{key:24} {value:.2f}" if isinstance(value, float) else f"{key:24} {value}")
