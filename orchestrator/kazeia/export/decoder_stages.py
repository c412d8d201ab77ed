"""Where each stage of the speech decoder belongs: on the NPU if it can be lowered and comes out well in the emulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from kazeia import quality
from kazeia.checkpoint import Checkpoint
from kazeia.errors import ExportError
from kazeia.export.calibration import Codes
from kazeia.export.progress import Progress, silent
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnBuild, build
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.qnn_speech_decoder import PlacedDecoder, place_decoder
from kazeia.export.quality_measures import sqnr_db
from kazeia.export.speech_decoder import STAGES, Stage

TRIED_CHUNKS = 2
"""Chunks a stage is tried on: the second has a past."""


@dataclass(frozen=True)
class StageTrial:
    """One stage, alone on the NPU."""

    stage: Stage
    emulated_db: float | None
    """Float to emulated, of its worst output; None if the compiler or the emulator refused it."""
    fault: str | None
    """Why it was refused."""
    cpu_ms_per_frame: float
    """On this machine, in PyTorch."""
    emulated_ms_per_frame: float | None


def try_stages(
    checkpoint: Checkpoint,
    target: QnnTarget,
    recipe: Recipe,
    fitting: Callable[[], Iterable[Codes]],
    held_out: Callable[[], Iterable[Codes]],
    progress: Progress = silent,
) -> list[StageTrial]:
    """Lower and emulate every stage by itself.

    Args:
        fitting: phrases `[F, G]` that a quantised recipe is calibrated on.
        held_out: phrases it is judged by.
    """
    emulator = QnnTarget(target.soc, for_emulator=True)
    trials = []
    for stage in STAGES:
        placed = place_decoder(checkpoint, (stage,))
        with progress(f"speech_decoder: try {stage} on the NPU"):
            chunks = list(islice(placed.inputs(placed.npu, held_out()), TRIED_CHUNKS))
            trials.append(_try_stage(stage, placed, chunks, partial(build, placed.npu_spec(fitting), emulator, recipe)))
    return trials


def best_run(trials: Sequence[StageTrial], gate_db: float) -> tuple[Stage, ...]:
    """The neighbouring stages that pass and take the most time together; the NPU gets these. Empty if none passes."""
    best: tuple[float, tuple[Stage, ...]] = (0.0, ())
    for first in range(len(trials)):
        for last in range(first, len(trials)):
            run = trials[first : last + 1]
            if all(trial.emulated_db is not None and trial.emulated_db >= gate_db for trial in run):
                best = max(best, (sum(trial.cpu_ms_per_frame for trial in run), tuple(trial.stage for trial in run)))
    return best[1]


def described(trial: StageTrial, on_npu: bool) -> quality.Stage:
    """The stage as the report shows it."""
    ms = trial.emulated_ms_per_frame if on_npu else trial.cpu_ms_per_frame
    return quality.Stage(name=f"speech decoder: {trial.stage}", backend="qnn" if on_npu else "xnnpack", ms_per_frame=ms)


def reason(trial: StageTrial) -> str:
    """Why a stage is not on the NPU, for the report's notes."""
    if trial.emulated_db is None:
        return f"The speech decoder's stage {trial.stage} stays on the CPU: {trial.fault}"
    return f"The speech decoder's stage {trial.stage} stays on the CPU; alone on the NPU it reaches {trial.emulated_db:.1f} dB."


@torch.no_grad()
def _try_stage(stage: Stage, placed: PlacedDecoder, chunks: Sequence[Inputs], lower: Callable[[], QnnBuild]) -> StageTrial:
    frames = placed.frames * len(chunks)
    if not frames:
        raise ExportError(f"no held-out phrase has {placed.frames} frames; run kz calibrate with a larger --max-frames")
    started = time.perf_counter()
    wanted = [tree_leaves(placed.segments[placed.npu](*inputs)) for inputs in chunks]
    cpu_ms = 1000 * (time.perf_counter() - started) / frames
    try:
        built = lower()
        started = time.perf_counter()
        emulated = [built.emulated(f"decode_{placed.npu}", inputs) for inputs in chunks]
    except ExportError as error:
        return StageTrial(stage, None, str(error), cpu_ms, None)
    emulated_ms = 1000 * (time.perf_counter() - started) / frames
    return StageTrial(stage, _worst_db(emulated, wanted), None, cpu_ms, emulated_ms)


def _worst_db(got: Sequence[Sequence[Tensor]], wanted: Sequence[Sequence[Tensor]]) -> float:
    """Of all outputs, states included; what is zero throughout says nothing."""
    ratios = []
    for outputs, wishes in zip(zip(*got, strict=True), zip(*wanted, strict=True), strict=True):
        wish = torch.cat([one.flatten() for one in wishes])
        if wish.any():
            ratios.append(sqnr_db(torch.cat([one.flatten() for one in outputs]).numpy(), wish.numpy()))
    return min(ratios)
