"""The built-in voice on the NPU, in the emulator: a trained model's choices are not near ties, and float16 makes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kazeia.export.options import ExportOptions
from kazeia.export.service import export_bundle
from kazeia.sampling import Overrides
from kazeia.synthesis import Options, Speech, Synthesizer

CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "kazeia-tts-12hz-8m-base"
TEXT = "The weather is very nice this morning."
FEWEST_FRAMES = 25
CONTEXT, PREFILL = 128, 16


def greedy(bundle: Path) -> Speech:
    embedding = CHECKPOINT / "voices" / "claire.npy"
    with Synthesizer(bundle, "local", 1) as synthesizer:
        return synthesizer.speak(TEXT, Options(voice=str(embedding), sampling=Overrides(greedy=True), max_frames=60))


@pytest.fixture(scope="module")
def npu(tmp_path_factory: pytest.TempPathFactory) -> Speech:
    folder = tmp_path_factory.mktemp("npu") / "bundle"
    options = ExportOptions(backend="qnn", quant="fp16", built_for="emulator", context_length=CONTEXT, prefill_tokens=PREFILL)
    export_bundle(CHECKPOINT, folder, options)
    return greedy(folder)


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Speech:
    folder = tmp_path_factory.mktemp("cpu") / "bundle"
    export_bundle(CHECKPOINT, folder, ExportOptions(quant="fp32", context_length=CONTEXT, prefill_tokens=PREFILL))
    return greedy(folder)


def test_a_whole_sentence_is_spoken_with_the_codes_of_the_cpu(npu: Speech, cpu: Speech) -> None:
    assert len(cpu.codes) >= FEWEST_FRAMES
    np.testing.assert_array_equal(npu.codes, cpu.codes)
    assert npu.statistics.npu_calls_per_frame == 2.0
    assert npu.statistics.stop_reason == cpu.statistics.stop_reason == "eos"
