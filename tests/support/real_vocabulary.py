"""The real vocabulary of Qwen3-TTS, rebuilt offline from `qwen.tiktoken` in the `dashscope` wheel.

A tiktoken file lists tokens by rank and knows no merges: a token's merge is the pair that byte-pair encoding with the better
ranked tokens alone leaves of it. The results are checked against the hashes of the official files.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import os
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from kazeia.checkpoint.official import SHARED_FILES
from kazeia.checkpoint.tiny_tokenizer import byte_characters, tokenizer_config

INSTALL = "pip install --no-deps -r tests/requirements-reference.txt"
RESOURCE = "dashscope/resources/qwen.tiktoken"


def write_real_tokenizer(folder: Path) -> Path:
    """Write `vocab.json`, `merges.txt` and `tokenizer_config.json`; skips the test where dashscope is missing, fails in CI."""
    for name, data in _files().items():
        (folder / name).write_bytes(data)
    return folder


@cache
def _files() -> dict[str, bytes]:
    ranks = _ranks()
    characters = byte_characters()
    merges, vocabulary = [], {}
    for token, rank in ranks.items():
        vocabulary[_spell(token, characters)] = rank
        if len(token) > 1:
            left, right = _last_merge(token, ranks, rank)
            merges.append(f"{_spell(left, characters)} {_spell(right, characters)}\n")
    files = {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")).encode(),
        "merges.txt": "".join(merges).encode(),
    }
    for name, data in files.items():
        assert sha256(data).hexdigest() == SHARED_FILES[name], name
    return files | {"tokenizer_config.json": json.dumps(tokenizer_config(len(vocabulary))).encode()}


def _ranks() -> dict[bytes, int]:
    try:
        # Only the file is read: the package itself wants a dozen others.
        resource = Path(str(importlib.metadata.distribution("dashscope").locate_file(RESOURCE)))
        lines = resource.read_bytes().splitlines()
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError):
        reason = f"the real vocabulary cannot be rebuilt, so it is not tested; run: {INSTALL}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    pairs = (line.split() for line in lines if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _spell(token: bytes, characters: list[str]) -> str:
    return "".join(characters[byte] for byte in token)


def _last_merge(token: bytes, ranks: dict[bytes, int], limit: int) -> tuple[bytes, bytes]:
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        merged = [ranks.get(left + right, limit) for left, right in pairwise(parts)]
        best = min(range(len(merged)), key=merged.__getitem__)
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    left, right = parts
    return left, right
