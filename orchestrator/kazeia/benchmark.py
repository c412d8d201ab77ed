"""Timing the pipeline from the prompt's embeddings on: no text, no EOS, a fixed number of frames."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from kazeia.bundle import Model
from kazeia.defaults import BENCH_PROMPT_TOKENS
from kazeia.errors import UsageError
from kazeia.prompt import Prompt
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.synthesis import Synthesizer

SEED = 1


def benchmark(
    bundle: str | None, device: str | None, frames: int, runs: int, threads: int | None, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Run `runs` timed generations of `frames` frames, after one to warm up.

    Returns:
        The keys of `synthesis.Statistics`, medians where they are times, plus `runs`.

    Raises:
        UsageError: the context is too short for so many frames.
    """
    with Synthesizer(bundle, device, threads) as synthesizer:
        model = synthesizer.bundle.manifest.model
        room = model.context_length - BENCH_PROMPT_TOKENS
        if frames > room:
            raise UsageError(f"--frames must be at most {room} for this bundle's context of {model.context_length}, not {frames}")
        prompt = random_prompt(model)
        sampling = dataclasses.replace(resolve_sampling(synthesizer.bundle.manifest.sampling, Overrides()), min_frames=frames)
        results = []
        for run in range(runs + 1):
            stream = synthesizer.run(prompt, sampling, SEED, frames)
            for _ in stream:
                progress(f"bench: run {run} of {runs}, {len(stream.codes())} of {frames} frames")
            results.append(dataclasses.asdict(stream.statistics()))
    return {"runs": runs, **_medians(results[1:])}


def random_prompt(model: Model) -> Prompt:
    """An x-vector prompt's shape with random content."""
    random = np.random.default_rng(SEED)
    rows = random.standard_normal((BENCH_PROMPT_TOKENS + 1, model.hidden_size), np.float32) * np.float32(0.05)
    nothing = np.zeros((0, model.hidden_size), np.float32)
    return Prompt("", rows[:-1], nothing, rows[-1], np.zeros((0, model.code_groups), np.int16))


def _medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Key by key: the median of floats, the first of everything else."""
    first = results[0]
    return {key: statistics.median(row[key] for row in results) if isinstance(first[key], float) else first[key] for key in first}
