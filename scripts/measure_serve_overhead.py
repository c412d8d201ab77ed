"""What `kz serve` adds to the bare runners: the same request through HTTP and through a synthesizer, in turns. Base models.

python -m scripts.measure_serve_overhead BUNDLE [--runs N] [--max-frames N] [--seed N]
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from kazeia.bundle import read_manifest
from kazeia.synthesis import Options, Synthesizer
from kazeia.voices import Voice, save_voice
from tests.serve.service import Service

VOICE = "measured"
TEXT = "Il fait beau, non ?"


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--runs", default=5)
@click.option("--max-frames", default=25)
@click.option("--seed", default=1)
def main(bundle: Path, runs: int, max_frames: int, seed: int) -> None:
    os.environ["KZ_HOME"] = home = tempfile.mkdtemp()
    width = read_manifest(bundle).model.speaker_embedding_size
    save_voice(Voice(VOICE, np.ones(width, np.float32), source="measurement"))
    options = Options(voice=VOICE, seed=seed, max_frames=max_frames)
    bare_ms, served_ms, around_ms = [], [], []
    with Synthesizer(bundle, "local") as synthesizer, Service(Path(home), "--bundle", bundle, "--device", "local") as service:
        for _ in range(runs):
            started = time.perf_counter()
            frames = synthesizer.speak(TEXT, options).statistics.frames
            bare_ms.append(1000 * (time.perf_counter() - started))
            before_s = service.metric("kazeia_generation_seconds_sum")
            started = time.perf_counter()
            assert service.speak(TEXT, voice=VOICE, seed=seed, max_frames=max_frames).status == 200
            served_ms.append(1000 * (time.perf_counter() - started))
            around_ms.append(served_ms[-1] - 1000 * (service.metric("kazeia_generation_seconds_sum") - before_s))
    bare, served, around = (statistics.median(times) for times in (bare_ms, served_ms, around_ms))
    click.echo(f"{frames} frames, medians: bare {bare:.1f} ms, served {served:.1f} ms ({100 * (served / bare - 1):+.2f} %)")
    click.echo(f"fastest: bare {min(bare_ms):.1f} ms, served {min(served_ms):.1f} ms")
    click.echo(f"served, outside the generation: {around:.1f} ms ({100 * around / served:.2f} %)")


if __name__ == "__main__":
    main()
