"""Names and codes a person may type for a language."""

from __future__ import annotations

import pytest

from kazeia.errors import UsageError
from kazeia.languages import language_of, resolve_language

KNOWN = ["chinese", "english", "french", "beijing_dialect"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("auto", "auto"),
        ("AUTO", "auto"),
        ("French", "french"),
        ("FRENCH", "french"),
        (" fr ", "french"),
        ("fr-CA", "french"),
        ("zh_CN", "chinese"),
        ("en-US", "english"),
    ],
)
def test_names_and_codes_are_known_in_any_case(given: str, name: str) -> None:
    assert resolve_language(given, KNOWN) == name


@pytest.mark.parametrize("given", ["", "sp", "None", "german", "de", "klingon", "beijing_dialect", "-"])
def test_an_unknown_language_lists_those_there_are(given: str) -> None:
    with pytest.raises(UsageError, match=r"auto, chinese, english, french \(or cmn, en, fr, zh\)"):
        resolve_language(given, KNOWN)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Good morning to all of you", "english"),
        ("Il fait très beau ce matin", "french"),
        ("Bonjour.", "french"),
        ("Hello.", "english"),
        ("今天天气很好。", "chinese"),
    ],
)
def test_the_language_of_a_text_is_one_that_the_model_has(text: str, name: str) -> None:
    assert language_of(text, KNOWN) == name


def test_of_two_languages_one_is_found_whatever_the_text() -> None:
    assert {language_of(text, ["english", "french"]) for text in ("Gute Nacht", "12", "OK", "😀", "", "今天")} <= {
        "english",
        "french",
    }
