"""Text before the tokenizer: what is dropped, and whether anything is left to say."""

from __future__ import annotations

import unicodedata

from kazeia.errors import NothingToSay

INVISIBLE = dict.fromkeys((0x00AD, 0x200B, 0x2060, 0xFEFF))
"""Soft hyphen, zero-width space, word joiner, byte order mark: they split words and are never spoken.
Joiners (U+200C, U+200D) stay: they shape letters."""


def effective_text(text: str) -> str:
    """What will be spoken: `text` without invisible characters.

    Raises:
        NothingToSay: no letter and no digit is left.
    """
    cleaned = text.translate(INVISIBLE)
    if not any(unicodedata.category(character)[0] in "LN" for character in cleaned):
        raise NothingToSay
    return cleaned
