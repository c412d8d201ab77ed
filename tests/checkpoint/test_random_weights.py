"""Made-up checkpoints: the same bytes for the same seed, every file of a real one, nothing half-written."""

from __future__ import annotations

import errno
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia.checkpoint import Checkpoint, random_weights
from kazeia.checkpoint.config import Kind
from kazeia.checkpoint.presets import SIZES, Size
from kazeia.checkpoint.random_weights import draw, write_random_checkpoint
from kazeia.checkpoint.tiny_tokenizer import tokenizer_files
from kazeia.errors import CheckpointError, UsageError

FILES = {
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/configuration.json",
    "speech_tokenizer/model.safetensors",
    "speech_tokenizer/preprocessor_config.json",
}


def make(folder: Path, **options: Any) -> Checkpoint:
    write_random_checkpoint(folder, **{"size": "tiny", "kind": "base", "seed": 1, **options})
    return Checkpoint.open(folder)


def hashes(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["base", "custom_voice", "voice_design"])
@pytest.mark.parametrize("size", ["tiny", "tiny-1.7b"])
def test_tiny_checkpoints_keep_every_feature(tmp_path: Path, size: Size, kind: Kind) -> None:
    checkpoint = make(tmp_path / "a", size=size, kind=kind)
    assert set(hashes(tmp_path / "a")) == FILES
    assert sum(file.stat().st_size for file in (tmp_path / "a").rglob("*")) < 5e6
    config, talker = checkpoint.config, checkpoint.config.talker_config
    assert config.kz_random_seed == 1
    assert (talker.num_code_groups, talker.vocab_size) == (16, 1152)
    assert talker.num_attention_heads > talker.num_key_value_heads
    assert talker.text_hidden_size != talker.hidden_size
    assert talker.rope_scaling is not None
    assert 2 * sum(talker.rope_scaling.mrope_section) == talker.head_dim
    assert (talker.code_predictor_config.hidden_size == talker.hidden_size) == (size == "tiny")
    assert bool(talker.spk_id) == (kind == "custom_voice")
    assert (config.speaker_encoder_config is not None) == (kind == "base")
    assert config.tts_model_size == SIZES[size].label


def test_the_same_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    assert hashes(tmp_path / "a")["model.safetensors"] == "201a8ea123b1bb0a70bdea9063a4c0f0db6baa5225cafe18a1b96cf07bd40a79"
    assert (
        hashes(tmp_path / "a")["speech_tokenizer/model.safetensors"]
        == "4ea030c88dd82f312b03c797c03ee159224c104c2cbe7ea1da400e0981bfb27f"
    )


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", seed=2**64 - 1)
    changed = {name for name, digest in hashes(tmp_path / "a").items() if hashes(tmp_path / "b")[name] != digest}
    assert changed == {"config.json", "model.safetensors", "speech_tokenizer/model.safetensors"}


def test_weights_have_the_deviation_asked_for() -> None:
    head = np.concatenate(list(draw("talker.codec_head.weight", (3000, 1024), 5)))
    assert head.std() == pytest.approx(3 / 32, rel=0.01)
    assert abs(head.mean()) < 1e-3
    upsampling = np.concatenate(list(draw("decoder.decoder.1.block.1.conv.weight", (96, 48, 16), 5)))
    assert upsampling.std() == pytest.approx((2 * 96) ** -0.5, rel=0.02)


def test_blocks_do_not_change_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(draw("talker.codec_head.weight", (100, 30), 5)))
    monkeypatch.setattr(random_weights, "BLOCK_WEIGHTS", 64)
    np.testing.assert_array_equal(np.concatenate(list(draw("talker.codec_head.weight", (100, 30), 5))), whole)


def test_a_tokenizer_can_be_brought_along(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", seed=2, tokenizer=tmp_path / "a")
    assert hashes(tmp_path / "a")["vocab.json"] == hashes(tmp_path / "b")["vocab.json"]
    with pytest.raises(CheckpointError, match=r"cannot read .*vocab.json"):
        make(tmp_path / "c", tokenizer=tmp_path)
    (tmp_path / "a" / "tokenizer_config.json").write_text('{"added_tokens_decoder": {}}')
    with pytest.raises(CheckpointError, match=r"the tokenizer lacks <\|im_start\|>, "):
        make(tmp_path / "d", tokenizer=tmp_path / "a")
    (tmp_path / "a" / "vocab.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"vocab.json is not as expected \(.*\); take that of a Qwen3-TTS checkpoint"):
        make(tmp_path / "e", tokenizer=tmp_path / "a")


def test_the_small_tokenizer_is_always_the_same() -> None:
    digest = sha256(b"".join(tokenizer_files().values())).hexdigest()
    assert digest == "66dfd47a2dcb5fe70b2d54aff1026b6e57dcd0730afb2dffb15585a78abd67dc"


def test_an_empty_folder_is_filled_and_another_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o777 & ~_umask()
    with pytest.raises(UsageError, match="empty exists already; give a new or empty folder"):
        make(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file exists already"):
        make(tmp_path / "file")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(tmp_path: Path, seed: int) -> None:
    with pytest.raises(UsageError, match="give a whole number from 0 to"):
        make(tmp_path / "a", seed=seed)


def test_an_unwritable_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        make(tmp_path / "file" / "a")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(random_weights, "write_tensors", full)
    with pytest.raises(UsageError, match="No space left on device; free space or choose another place"):
        make(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
