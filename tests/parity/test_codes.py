"""Codes and sound against the reference's own greedy generation, through the exported programs and the C++ runner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kazeia.bundle import Bundle
from kazeia.prompt import Request, build_prompt
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.synthesis import Speech, Synthesizer
from tests.parity.bundles import ReferenceBundles
from tests.parity.prompt_cases import CASES, TEXT, Case

FRAMES = 200
SAMPLE_TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def synthesizers() -> Iterator[dict[str, Synthesizer]]:
    """Warm runners by bundle folder, so that 15 cases start three."""
    open_ones: dict[str, Synthesizer] = {}
    yield open_ones
    for synthesizer in open_ones.values():
        synthesizer.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_200_greedy_frames_and_their_sound_are_the_references(
    case: Case, reference_bundles: ReferenceBundles, synthesizers: dict[str, Synthesizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = reference_bundles.bundle(case.size, case.kind)
    codes, samples = reference_speech(reference_bundles.checkpoints.model(case.size, case.kind), case, bundle, monkeypatch)
    folder = str(bundle.folder)
    if folder not in synthesizers:
        synthesizers[folder] = Synthesizer(folder)
    speech = our_speech(synthesizers[folder], case)
    differing = np.flatnonzero((speech.codes != codes).any(axis=1))
    assert differing.size == 0, f"frame {differing[0]} is the first to differ"
    np.testing.assert_allclose(speech.samples, samples, atol=SAMPLE_TOLERANCE)


def reference_speech(model: Any, case: Case, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """The reference's codes `[200, 16]` and samples, with the end of speech forbidden so that there are 200 frames."""
    generate, decode = model.model.talker.generate, model.model.speech_tokenizer.decode
    decoded: list[np.ndarray] = []

    def keep_codes(items: list[dict[str, Any]]) -> Any:
        decoded.append(items[0]["audio_codes"].numpy())
        return decode(items)

    # One token more than frames: the reference samples a token after the last frame and drops it.
    monkeypatch.setattr(model.model.talker, "generate", lambda **inputs: generate(**{**inputs, "min_new_tokens": FRAMES + 1}))
    monkeypatch.setattr(model.model.speech_tokenizer, "decode", keep_codes)
    wavs, _ = case.call(model, bundle.manifest.model, max_new_tokens=FRAMES + 1)
    codes = decoded[0][case.reference_frames :]
    assert codes.shape == (FRAMES, bundle.manifest.model.code_groups)
    return codes, wavs[0]


def our_speech(synthesizer: Synthesizer, case: Case) -> Speech:
    """The same through the runner."""
    bundle = synthesizer.bundle
    options = case.options(bundle.manifest.model)
    request = Request(TEXT, options.voice, options.speaker, options.instruct, options.language, options.text_mode)
    sampling = replace(resolve_sampling(bundle.manifest.sampling, Overrides(greedy=True)), min_frames=FRAMES)
    stream = synthesizer.run(build_prompt(bundle, request), sampling, seed=0, max_frames=FRAMES)
    return stream.result(np.concatenate(list(stream)))
