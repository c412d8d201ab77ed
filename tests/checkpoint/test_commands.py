"""`kz checkpoint`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kazeia.checkpoint import official
from kazeia.checkpoint.official import Official
from kazeia.files import sha256
from tests.support.command import Kz


def test_random_then_info(kz: Kz, tmp_path: Path) -> None:
    folder = tmp_path / "noise"
    made = kz("checkpoint", "random", folder, "--size", "tiny-1.7b", "--kind", "custom-voice", "--seed", 3)
    assert made.status == 0
    assert made.out.startswith(f"{folder}: random tiny-1.7b custom-voice checkpoint, seed 3, ")
    assert "writing model.safetensors" in made.err
    shown = kz("checkpoint", "info", folder)
    assert shown.status == 0
    for text in (
        "random weights, seed 3",
        "custom_voice, 1b7",
        "dialects beijing_dialect, sichuan_dialect",
        "uncle_fu",
        "609 ids",
    ):
        assert text in shown.out
    facts = kz("checkpoint", "info", folder, "--json").json
    assert facts["kind"] == "custom_voice"
    assert facts["official"] is None
    assert facts["random_seed"] == 3
    assert facts["codec_parameters"] == 509135
    assert facts["frame_ms"] == 80


def test_an_official_one_is_named_and_verified(kz: Kz, pristine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = pristine / "model.safetensors"
    known = Official("Known", sha256(pristine / "config.json"), weights.stat().st_size, sha256(weights))
    monkeypatch.setattr(official, "OFFICIAL", (known,))
    monkeypatch.setattr(official, "SHARED_FILES", {})
    assert "Known, by config and size" in kz("checkpoint", "info", pristine).out
    verified = kz("checkpoint", "info", pristine, "--verify")
    assert "Known, SHA-256 of every file verified" in verified.out
    assert "hashing model.safetensors" in verified.err


def test_bad_input_is_one_line(kz: Kz, pristine: Path, tmp_path: Path) -> None:
    assert "none of the five official checkpoints" in kz.fails("checkpoint", "info", pristine, "--verify")
    assert "is not a folder" in kz.fails("checkpoint", "info", tmp_path / "nowhere")
    assert "has no config.json" in kz.fails("checkpoint", "info", tmp_path)
    assert "exists already" in kz.fails("checkpoint", "random", pristine)
    assert "'huge' is not one of" in kz.fails("checkpoint", "random", tmp_path / "a", "--size", "huge")
    assert list(tmp_path.iterdir()) == []
