"""What a prompt says of the language, beyond what tests/parity compares with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kazeia.bundle import Bundle
from kazeia.prompt import Request, build_prompt
from kazeia.voices import read_voice
from tests.support.bundles import BABBLE

TEXTS = {"english": "Good morning to all of you", "french": "Il fait très beau ce matin"}


def prompt(bundle: Bundle, text: str, language: str) -> NDArray[np.float32]:
    voice = read_voice(BABBLE / next(iter(bundle.manifest.voices.values())))
    return build_prompt(bundle, Request(text, voice=voice, language=language)).embeddings


@pytest.mark.parametrize("language", TEXTS)
def test_a_model_that_must_be_told_the_language_is_told_the_texts(language: str) -> None:
    bundle, text = Bundle.open(BABBLE), TEXTS[language]
    bundle.manifest.model.auto_language = "text"
    np.testing.assert_array_equal(prompt(bundle, text, "auto"), prompt(bundle, text, language))
    assert prompt(bundle, text, "auto").shape == prompt(bundle, text, "english").shape


def test_other_models_find_the_language_themselves() -> None:
    bundle = Bundle.open(BABBLE)
    assert bundle.manifest.model.auto_language == "model"
    left_to_it, told = (prompt(bundle, TEXTS["french"], language) for language in ("auto", "french"))
    assert len(left_to_it) == len(told) - 1  # without the language's tag


def test_a_language_that_is_named_is_heeded_whatever_the_text() -> None:
    bundle = Bundle.open(BABBLE)
    bundle.manifest.model.auto_language = "text"
    named = prompt(bundle, TEXTS["french"], "english")
    assert not np.array_equal(named, prompt(bundle, TEXTS["french"], "auto"))
