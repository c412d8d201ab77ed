"""Language names and codes a person may type, and the names the model knows."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kazeia.errors import UsageError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

AUTO = "auto"

ISO_CODES = {
    "zh": "chinese",
    "cmn": "chinese",
    "en": "english",
    "de": "german",
    "it": "italian",
    "pt": "portuguese",
    "es": "spanish",
    "ja": "japanese",
    "ko": "korean",
    "fr": "french",
    "ru": "russian",
}


def selectable(names: Iterable[str]) -> list[str]:
    """Languages a person may choose: dialects come with a speaker, not by name (`Qwen3TTS...get_supported_languages`)."""
    return sorted(name for name in names if "dialect" not in name)


def resolve_language(value: str, names: Iterable[str]) -> str:
    """Map `French`, `fr`, `fr-CA` or `auto` to the model's name.

    Raises:
        UsageError: the model has no such language; lists those it has.
    """
    known = selectable(names)
    key = value.strip().lower()
    if key == AUTO or key in known:
        return key
    by_code = ISO_CODES.get(key.replace("_", "-").split("-")[0])
    if by_code in known:
        return by_code
    codes = sorted(code for code, name in ISO_CODES.items() if name in known)
    raise UsageError(f"unknown language {value!r}; this bundle has auto, {', '.join(known)} (or {', '.join(codes)})")


def language_of(text: str, names: Iterable[str]) -> str:
    """Which of the model's languages `names` the text is in: the likeliest by its byte n-grams (Lui and Baldwin 2012)."""
    codes = _codes(names)
    code, _ = _identifier(tuple(codes)).classify(text)
    return codes[code]


def load_identifier(names: Iterable[str]) -> None:
    """Load what `language_of` needs, so that the first text does not wait for it."""
    _identifier(tuple(_codes(names)))


def _codes(names: Iterable[str]) -> dict[str, str]:
    known = set(selectable(names))
    return {code: name for code, name in ISO_CODES.items() if name in known and len(code) == 2}


@functools.cache
def _identifier(codes: tuple[str, ...]) -> LanguageIdentifier:
    from py3langid import langid  # a third of a second: only for who needs it

    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    identifier.set_languages(list(codes))
    return identifier
