"""Only plain sentences are read aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.corpus import examples, is_readable, sentences, tidy


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


def test_the_examples_of_a_dictionary_become_sentences(tmp_path: Path) -> None:
    (tmp_path / "data.verb").write_text(
        '  1 This file is WordNet\'s "licence text, which is not an example".\n'
        '01 30 v 01 sing 0 001 @ 02 v 0000 | make music with the voice; "she was singing at the window"; "Sing!"\n'
        '02 30 v 01 read 0 001 @ 03 v 0000 | look at text; "What are you reading there?"; "she was singing at the window"\n'
    )
    found = examples(tmp_path, 10)
    assert sorted(found) == ["She was singing at the window.", "What are you reading there?"]
    assert examples(tmp_path, 10) == found
    assert len(examples(tmp_path, 1)) == 1
