"""Batches in tests: short lists on the built-in bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Kz

LINES = ["Bonjour.", "Hello there, you.", "Un, deux, trois.", "Good night."]


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    return write(tmp_path / "list.txt", *LINES)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def write_objects(path: Path, *objects: dict[str, Any]) -> Path:
    return write(path, *(json.dumps(each) for each in objects))


def index_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


def sounds(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.wav"))}


def batch(kz: Kz, phrases: Path, out: Path, *options: object, status: int = 0) -> dict[str, Any]:
    outcome = kz("batch", phrases, "-o", out, "--json", *options)
    assert outcome.status == status, outcome
    result: dict[str, Any] = outcome.json
    return result


def spoken(kz: Kz, folder: Path, text: str, seed: int, *options: object) -> bytes:
    assert kz("speak", text, "-o", folder / "alone.wav", "--seed", seed, *options).status == 0
    return (folder / "alone.wav").read_bytes()
