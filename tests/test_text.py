"""What is dropped from a text, and when nothing is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kazeia.errors import NothingToSay
from kazeia.text import effective_text


@pytest.mark.parametrize("text", ["", " ", "\n\t", "...", "?!", "。", "😄", "👩‍👩‍👧‍👦", "\u200b\ufeff", "—", "¿?"])
def test_text_without_a_letter_or_digit_says_nothing(text: str) -> None:
    with pytest.raises(NothingToSay, match="nothing to say"):
        effective_text(text)


@pytest.mark.parametrize("text", ["😄 hello", "1", "é", "한", "٣", "ⅷ", "你好。"])
def test_one_letter_or_digit_is_enough(text: str) -> None:
    assert effective_text(text) == text


@pytest.mark.parametrize(
    ("text", "spoken"), [("co\u00adoperate", "cooperate"), ("he\u200bllo", "hello"), ("\ufeffhi", "hi"), ("a\u2060b", "ab")]
)
def test_invisible_characters_are_dropped(text: str, spoken: str) -> None:
    assert effective_text(text) == spoken


def test_joiners_stay_since_they_shape_letters() -> None:
    assert effective_text("می\u200cخواهم") == "می\u200cخواهم"


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    try:
        once = effective_text(text)
    except NothingToSay:
        return
    assert effective_text(once) == once
