"""Names and codes a person may type for a language."""

from __future__ import annotations

import pytest

from kazeia.errors import UsageError
from kazeia.languages import resolve_language

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
