"""The code predictor of a tiny checkpoint for the NPU: lowering takes a minute, so that all tests share one."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kazeia.checkpoint import Checkpoint
from kazeia.export.qnn_code_predictor import frame_spec, steps_spec
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnBuild, build
from kazeia.export.qnn_quantize import Recipe
from tests.support.learnt import write_learnt_checkpoint

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
    """Of the checkpoint that has learnt an utterance by heart."""
    target = QnnTarget("SM8750", for_emulator=True)
    folder = tempfile.TemporaryDirectory(prefix="kz-npu-predictor-")
    path = Path(folder.name, "tiny")
    write_learnt_checkpoint(path)
    checkpoint = Checkpoint.open(path)
    frame, steps = (build(spec(checkpoint, FP16), target, FP16) for spec in (frame_spec, steps_spec))
    return NpuPredictor(folder, checkpoint, frame, steps)
