"""Only plain sentences are read aloud."""

from __future__ import annotations

import pytest

from training.corpus import is_readable, sentences, tidy


@pytest.mark.parametrize(
    "sentence", ["The cat sleeps on the sofa.", "Don't forget: it is at 10 o'clock!", "Is it (really) late?"]
)
def test_prose_is_readable(sentence: str) -> None:
    assert is_readable(sentence, "en")


@pytest.mark.parametrize(
    "sentence",
    [
        "Too short.",
        "no capital at the beginning of this.",
        "The file FOO_BAR is missing.",
        "Visit http://example.org for more.",
        "It has no end",
        "One two,",
        "L'été est là, enfin là, enfin.",
        "Very long " * 12 + "sentence.",
    ],
)
def test_what_no_one_would_read_is_left_out(sentence: str) -> None:
    assert not is_readable(sentence, "en")


def test_english_left_in_french_guides_is_left_out() -> None:
    assert is_readable("L'été est là, enfin là.", "fr")
    assert not is_readable("Click on the button with care.", "fr")


def test_paragraphs_are_cut_at_sentence_ends_and_each_sentence_taken_once() -> None:
    text = "Le chat  dort bien ici .\nOù est-il donc allé ? Le chat dort bien ici."
    assert sentences([text], "fr") == ["Le chat dort bien ici.", "Où est-il donc allé?"]
    assert tidy("Il dit « bonjour »") == "Il dit bonjour"
