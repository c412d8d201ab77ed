"""A small byte-level BPE tokenizer with the control markers of Qwen3-TTS, for made-up checkpoints.

It encodes every text. The roles `assistant` and `user` are single tokens as in the real vocabulary, because prompts are cut
by counting tokens; merges that begin with `#` and a double newline keep the real vocabulary's two traps.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any

MERGES = 320

MARKERS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
]
"""In order of their ids, which follow the vocabulary's."""
FIRST_PLAIN_MARKER, LAST_PLAIN_MARKER = "<tool_call>", "</think>"
"""Between these two, markers are not special."""

TEXT = """
The north wind and the sun argued over which of them was the stronger, when a traveller came along wrapped in a warm cloak.
They agreed that the one who first made the traveller take his cloak off should be thought stronger than the other.
Then the north wind blew as hard as he could, but the more he blew the more closely did the traveller fold his cloak around
him; and at last the north wind gave up the attempt. Then the sun shone out warmly, and at once the traveller took off his
cloak. And so the north wind had to admit that the sun was the stronger of the two. Hello world, how are you today? I am
fine, thank you very much. This is a small voice that only sounds like speech. Reading, writing, counting: one, two, three,
four, five, six, seven, eight, nine, ten. What time is it now? It is time for a good cup of tea with milk and sugar.
Der Nordwind und die Sonne stritten sich, wer von ihnen beiden der Stärkere wäre. Le vent du nord et le soleil se disputaient.
El viento norte y el sol discutían sobre cuál de ellos era el más fuerte. 北风和太阳争论谁更强。北風と太陽が言い争っていました。
"""
CERTAIN = {"assistant": 1000, "user": 1000, "\n\n": 900, "##": 800, "####": 700}
"""Words that must become one token, with counts that put them first."""


def byte_characters() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2's table)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def train() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges learnt from `TEXT`: always the same."""
    characters = byte_characters()
    words = Counter(re.findall(r" ?[^\W\d_]+", TEXT))
    words.update(CERTAIN)
    pieces = {word: [characters[byte] for byte in word.encode()] for word in words}
    vocabulary = {character: index for index, character in enumerate(sorted(characters))}
    merges: list[tuple[str, str]] = []
    while len(merges) < MERGES:
        counts: Counter[tuple[str, str]] = Counter()
        for word, parts in pieces.items():
            for pair in pairwise(parts):
                counts[pair] += words[word]
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        vocabulary["".join(best)] = len(vocabulary)
        pieces = {word: _merge(parts, best) for word, parts in pieces.items()}
    return vocabulary, merges


def _merge(parts: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def tokenizer_config(first_id: int) -> dict[str, Any]:
    """`tokenizer_config.json` with the markers from `first_id` on."""
    plain = range(MARKERS.index(FIRST_PLAIN_MARKER), MARKERS.index(LAST_PLAIN_MARKER) + 1)
    added = {
        str(first_id + index): {
            "content": marker,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": index not in plain,
        }
        for index, marker in enumerate(MARKERS)
    }
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def tokenizer_files() -> dict[str, bytes]:
    """The three files of the tokenizer, by name."""
    vocabulary, merges = train()
    return {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")).encode(),
        "merges.txt": "".join(f"{left} {right}\n" for left, right in merges).encode(),
        "tokenizer_config.json": (json.dumps(tokenizer_config(len(vocabulary)), indent=2, ensure_ascii=False) + "\n").encode(),
    }
