"""The built-in bundle against golden files the reference made (`python -m scripts.make_goldens`): no reference needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kazeia.bundle import Bundle
from kazeia.prompt import Request, build_prompt
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.speaker_encoder import embed_recording
from kazeia.synthesis import Speech, Synthesizer
from kazeia.voices import default_voice
from tests.support.bundles import BABBLE

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(Path(__file__).parent / "golden" / "babble.npz"))


@pytest.fixture(scope="module")
def speech(golden: dict[str, np.ndarray]) -> Speech:
    """The golden text through prompt, runner and speech decoder, greedily."""
    frames = len(golden["codes"])
    with Synthesizer(BABBLE) as synthesizer:
        bundle = synthesizer.bundle
        prompt = build_prompt(bundle, Request(str(golden["text"]), voice=default_voice(bundle), language="French"))
        sampling = replace(resolve_sampling(bundle.manifest.sampling, Overrides(greedy=True)), min_frames=frames)
        stream = synthesizer.run(prompt, sampling, seed=0, max_frames=frames)
        return stream.result(np.concatenate(list(stream)))


def test_codes_are_the_references(speech: Speech, golden: dict[str, np.ndarray]) -> None:
    np.testing.assert_array_equal(speech.codes, golden["codes"])


def test_samples_are_the_references(speech: Speech, golden: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(speech.samples, golden["samples"], atol=TOLERANCE)
    assert np.abs(golden["samples"]).max() > 0.05


def test_the_speaker_embedding_is_the_references(golden: dict[str, np.ndarray], tmp_path: Path) -> None:
    soundfile.write(tmp_path / "hum.wav", golden["recording"], 24000, subtype="FLOAT")
    embedding = embed_recording(Bundle.open(BABBLE), tmp_path / "hum.wav")
    np.testing.assert_allclose(embedding, golden["embedding"], atol=TOLERANCE)
