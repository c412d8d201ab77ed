"""Which stages of the speech decoder go to the NPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export import decoder_stages
from kazeia.export.calibration import Codes
from kazeia.export.decoder_stages import StageTrial, best_run, described, reason, try_stages
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.speech_decoder import STAGES, Segment, Stage

TARGET = QnnTarget("SM8750", for_emulator=False)


def trials(*passed: float | None) -> list[StageTrial]:
    """A stage takes as long as its place says: 1, 2, 4, 8 and 16 ms."""
    return [
        StageTrial(stage, db, None if db is not None else "refused", 2.0**place, 0.5)
        for place, (stage, db) in enumerate(zip(STAGES, passed, strict=True))
    ]


@pytest.mark.parametrize(
    ("passed", "on_npu"),
    [
        ((50, 50, 50, 50, 50), STAGES),
        ((50, 50, 50, 50, 20), STAGES[:4]),
        ((50, 50, 50, None, 50), STAGES[4:]),
        ((50, 50, 50, 20, 20), STAGES[:3]),
        ((20, None, 20, 20, 20), ()),
    ],
)
def test_the_run_that_takes_the_most_time_goes_to_the_npu(passed: tuple[float | None, ...], on_npu: Sequence[Stage]) -> None:
    assert best_run(trials(*passed), gate_db=30.0) == tuple(on_npu)


def test_the_report_tells_place_time_and_reason() -> None:
    passing, poor, refused = trials(50, 20, None, 50, 50)[:3]
    assert (described(passing, True).backend, described(passing, True).ms_per_frame) == ("qnn", 0.5)
    assert (described(poor, False).backend, described(poor, False).ms_per_frame) == ("xnnpack", 2.0)
    assert reason(poor) == "The speech decoder's stage pre_conv stays on the CPU; alone on the NPU it reaches 20.0 dB."
    assert reason(refused) == "The speech decoder's stage transformer stays on the CPU: refused"


def stages_of(spec: QnnSpec) -> set[str]:
    (method,) = spec.methods.values()
    assert isinstance(method.module, Segment)
    return set(method.module.stages)


class FakeBuild:
    """An emulator whose every output is off by a hundredth in upsample, exact elsewhere."""

    def __init__(self, spec: QnnSpec) -> None:
        (method,) = spec.methods.values()
        self._module, self._error = method.module, 0.01 * ("upsample" in stages_of(spec))

    def emulated(self, method: str, inputs: Inputs) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(leaf * (1 + self._error) for leaf in tree_leaves(self._module(*inputs)))


def fake_build(spec: QnnSpec, *rest: Any) -> FakeBuild:
    if "transformer" not in stages_of(spec):
        return FakeBuild(spec)
    raise ExportError("method decode_1 leaves aten.foo.default to the CPU")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=1)
    return Checkpoint.open(folder)


def phrases(frames: int) -> Callable[[], Iterable[Codes]]:
    codes = np.random.default_rng(0).integers(0, 64, (frames, 16)).astype(np.int16)
    return lambda: [codes]


def test_each_stage_is_tried_alone(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_stages, "build", fake_build)
    tried = {trial.stage: trial for trial in try_stages(checkpoint, TARGET, Recipe("fp16"), phrases(0), phrases(8))}
    assert tuple(tried) == STAGES
    assert tried["upsample"].emulated_db == pytest.approx(40.0, abs=0.1)
    assert tried["transformer"].fault == "method decode_1 leaves aten.foo.default to the CPU"
    assert all((tried[stage].emulated_db or 0) > 100 for stage in ("quantizer", "pre_conv", "decoder"))
    assert all(trial.cpu_ms_per_frame > 0 for trial in tried.values())


def test_phrases_that_fill_no_chunk_are_an_error(checkpoint: Checkpoint) -> None:
    with pytest.raises(ExportError, match="no held-out phrase has 4 frames; run kz calibrate with a larger --max-frames"):
        try_stages(checkpoint, TARGET, Recipe("fp16"), phrases(0), phrases(3))
