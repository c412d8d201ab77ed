"""Recognising and verifying the official checkpoints."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from kazeia.checkpoint import Checkpoint, official
from kazeia.checkpoint.config import CodecConfig, Config
from kazeia.checkpoint.layout import Layout, codec_layout, main_layout, parameters
from kazeia.checkpoint.official import OFFICIAL, Official, recognise, verify
from kazeia.checkpoint.safetensors_file import ITEM_BYTES, write_tensors
from kazeia.errors import CheckpointError
from tests.support.official import CODEC_CONFIG, DATA, official_configs


def stand_in(folder: Path, checkpoint: Official, weights_bytes: int | None = None) -> Path:
    """The configuration of an official checkpoint and a sparse file of its weights' size."""
    folder.mkdir()
    (folder / "config.json").write_text(official_configs()[checkpoint.name])
    with (folder / "model.safetensors").open("wb") as file:
        os.truncate(file.fileno(), weights_bytes or checkpoint.weights_bytes)
    return folder


@pytest.mark.parametrize("checkpoint", OFFICIAL, ids=lambda checkpoint: checkpoint.name)
def test_the_five_are_recognised_by_config_and_size(tmp_path: Path, checkpoint: Official) -> None:
    assert recognise(stand_in(tmp_path / "a", checkpoint)) == checkpoint


@pytest.mark.parametrize("checkpoint", OFFICIAL, ids=lambda checkpoint: checkpoint.name)
def test_names_shapes_and_dtypes_give_the_official_size(tmp_path: Path, checkpoint: Official) -> None:
    layout = main_layout(msgspec.json.decode(official_configs()[checkpoint.name], type=Config))
    # The official Base files come without metadata.
    surplus_bytes = 32 if checkpoint.name.endswith("Base") else 0
    assert _size(tmp_path / "weights", layout, "BF16") == checkpoint.weights_bytes + surplus_bytes


def test_the_codecs_names_shapes_and_dtypes_give_the_official_size(tmp_path: Path) -> None:
    layout = codec_layout(msgspec.json.decode((DATA / CODEC_CONFIG).read_bytes(), type=CodecConfig))
    assert _size(tmp_path / "weights", layout, "F32") == 682293092 + 32


def _size(path: Path, layout: Layout, dtype: str) -> int:
    """How large a weights file becomes, from its header alone."""
    with path.open("wb") as file:
        write_tensors(file, dict(sorted(layout.items())), dtype, lambda name: [])
    return path.stat().st_size + parameters(layout) * ITEM_BYTES[dtype]


def test_others_are_not_recognised(tmp_path: Path, pristine: Path) -> None:
    assert recognise(pristine) is None
    assert recognise(tmp_path) is None
    assert recognise(stand_in(tmp_path / "a", OFFICIAL[0], weights_bytes=OFFICIAL[1].weights_bytes)) is None


def test_verifying_hashes_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "vocab.json").write_bytes(b"vocabulary")
    checkpoint = Official("Tiny", "", 7, sha256(b"weights").hexdigest())
    monkeypatch.setattr(official, "SHARED_FILES", {"vocab.json": sha256(b"vocabulary").hexdigest()})
    assert list(verify(tmp_path, checkpoint)) == ["model.safetensors", "vocab.json"]
    (tmp_path / "vocab.json").write_bytes(b"vocabularY")
    with pytest.raises(CheckpointError, match=r"vocab.json is not that of Tiny \(SHA-256 .*\); download it again"):
        list(verify(tmp_path, checkpoint))
    (tmp_path / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r"cannot read .*vocab.json.*; download Tiny again"):
        list(verify(tmp_path, checkpoint))


def test_an_official_checkpoint_keeps_its_name_in_any_folder(pristine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = pristine / "model.safetensors"
    known = Official("Known", sha256((pristine / "config.json").read_bytes()).hexdigest(), weights.stat().st_size, "")
    monkeypatch.setattr(official, "OFFICIAL", (known,))
    assert Checkpoint.open(pristine).name == Checkpoint.open(pristine).official == "Known"
