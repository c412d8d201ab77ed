"""A program quantised, lowered and measured in one go, on samples its scales were not fitted to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kazeia.bundle import read_manifest
from kazeia.export.calibration import Calibration
from kazeia.export.program import Method
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quality import Trial, build_tested
from kazeia.export.qnn_quantize import Recipe
from kazeia.export.quality_log import QualityLog
from kazeia.export.quiet import quiet
from kazeia.quality import Gates, Quality
from tests.export.quality_modules import LOGITS, Small, overwritten, samples

TARGET = QnnTarget("SM8750", for_emulator=True)
TRIAL = Trial("forward", LOGITS, lambda: overwritten(samples(24, 2)))


@pytest.fixture
def spec() -> QnnSpec:
    return QnnSpec(
        name="small",
        methods={"forward": Method(Small().eval(), samples(1, 1)[0])},
        constants={},
        samples={"forward": lambda: overwritten(samples(40, 1))},
    )


def finished(log: QualityLog, bundle: Path) -> Quality:
    quality, _ = log.finish(bundle, read_manifest(bundle))
    return quality


def test_auto_finds_a_recipe_and_tells_it(spec: QnnSpec, fake_bundle: Path) -> None:
    log = QualityLog(None, Gates(quantized_db=22.0))
    with quiet():
        build = build_tested(spec, TARGET, Recipe("16a4w"), [TRIAL], log, auto=True)
    assert 1 <= len(build.recipe.overrides) < 3
    quality = finished(log, fake_bundle)
    assert quality.recipes == {"small": {"*": "16a4w", **dict(build.recipe.overrides)}}
    assert (quality.auto[0].widened, quality.auto[-1].failures) == ([], [])
    (method,) = quality.methods
    assert (method.calls, method.emulated_calls, method.outputs[0].quantized_db) == (24, 4, quality.auto[-1].quantized_db)
    assert method.outputs[0].lowered_db is not None
    assert method.outputs[0].lowered_db > 50
    assert quality.emulated
    assert quality.passed, quality.failures
    assert msgspec.json.decode((fake_bundle / "quality.json").read_bytes(), type=Quality) == quality


def test_fp16_is_compared_with_float(spec: QnnSpec, fake_bundle: Path) -> None:
    log = QualityLog(None)
    with quiet():
        build_tested(spec, TARGET, Recipe("fp16"), [TRIAL], log, auto=True)
    quality = finished(log, fake_bundle)
    (output,) = quality.methods[0].outputs
    assert output.quantized_db is None
    assert output.emulated_db == output.lowered_db
    assert output.lowered_db is not None
    assert output.lowered_db > 45
    assert quality.recipes == {"small": {"*": "fp16"}}
    assert quality.passed, quality.failures


def test_programs_for_devices_are_measured_by_their_twins(spec: QnnSpec, fake_bundle: Path, tmp_path: Path) -> None:
    log = QualityLog(Calibration(tmp_path, ()), speech_frames=5)
    with quiet():
        build_tested(spec, QnnTarget("SM8750", for_emulator=False), Recipe("16a8w"), [TRIAL], log)
    quality = finished(log, fake_bundle)
    (method,) = quality.methods
    assert method.outputs[0].quantized_db is not None
    assert (quality.emulated, method.emulated_calls) == (True, 4)
    assert method.outputs[0].lowered_db is not None
    assert method.outputs[0].lowered_db > 50
