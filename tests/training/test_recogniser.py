"""Word errors are counted as everyone counts them."""

from __future__ import annotations

import pytest

from training.recogniser import spoken_words, word_error_rate, word_errors


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a x c", 1), ("a b c", "a c", 1), ("a b c", "a b b c", 1), ("a b", "", 2), ("", "a", 1)],
)
def test_errors_are_substitutions_insertions_and_deletions(reference: str, hypothesis: str, errors: int) -> None:
    assert word_errors(reference.split(), hypothesis.split()) == errors


def test_case_and_punctuation_are_no_errors() -> None:
    assert spoken_words("Don't stop, it's OK!") == ["don't", "stop", "it's", "ok"]
    assert word_error_rate([("Hello, world.", "hello world"), ("Good night.", "good light")]) == pytest.approx(0.25)
