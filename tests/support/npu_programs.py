"""The code predictor of a tiny checkpoint for the NPU: lowering takes a minute, so that all tests share one."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.export.qnn_code_predictor import frame_spec, steps_spec
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnBuild, build
from kazeia.export.qnn_quantize import Recipe

SEED = 1
FP16 = Recipe("fp16")


class NpuPredictor(NamedTuple):
    """Both programs in float16, for the emulator."""

    folder: tempfile.TemporaryDirectory[str]
    """Holds the checkpoint, whose weights are read when they are needed."""
    checkpoint: Checkpoint
    frame: QnnBuild
    steps: QnnBuild


@cache
def npu_predictor() -> NpuPredictor:
    """Of the checkpoint that `write_random_checkpoint` makes of size tiny, kind base and seed `SEED`."""
    target = QnnTarget("SM8750", for_emulator=True)
    folder = tempfile.TemporaryDirectory(prefix="kz-npu-predictor-")
    path = Path(folder.name, "tiny")
    write_random_checkpoint(path, size="tiny", kind="base", seed=SEED)
    checkpoint = Checkpoint.open(path)
    frame, steps = (build(spec(checkpoint, FP16), target, FP16) for spec in (frame_spec, steps_spec))
    return NpuPredictor(folder, checkpoint, frame, steps)
