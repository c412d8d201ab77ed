"""Opening checkpoints: what is read, and one line for everything that can be wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kazeia.checkpoint import Checkpoint
from kazeia.errors import CheckpointError
from tests.support.official import CODEC_CONFIG, DATA

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def edit(path: Path, **changes: Any) -> None:
    """Replace keys of a JSON file; a key may be a dotted path; None of `...` removes it."""
    config = json.loads(path.read_text())
    for dotted, value in changes.items():
        *parents, key = dotted.split("__")
        section = config
        for parent in parents:
            section = section[parent]
        if value is ...:
            del section[key]
        else:
            section[key] = value
    path.write_text(json.dumps(config))


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        Checkpoint.open(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_checkpoint_is_described(pristine: Path) -> None:
    checkpoint = Checkpoint.open(pristine)
    assert checkpoint.name == "tiny"
    assert checkpoint.official is None
    assert (checkpoint.dtype, checkpoint.codec_dtype) == ("bf16", "fp32")
    assert (checkpoint.parameters, checkpoint.codec_parameters) == (727464, 509135)
    assert checkpoint.config.talker_config.code_predictor_config.num_code_groups == 16
    assert checkpoint.config.speaker_encoder_config is not None
    assert checkpoint.config.speaker_encoder_config.mel_dim == 128
    assert checkpoint.generation.max_new_tokens == 8192
    assert checkpoint.codec_config.decoder_config.sliding_window == 72


def test_tensors_are_read_as_float32(pristine: Path) -> None:
    checkpoint = Checkpoint.open(pristine)
    stored = safetensors.torch.load_file(pristine / WEIGHTS)
    for name in ("talker.model.norm.weight", "talker.codec_head.weight", "speaker_encoder.fc.weight"):
        assert torch.equal(checkpoint.tensor(name), stored[name].float())
        np.testing.assert_array_equal(checkpoint.array(name), stored[name].float().numpy())
    codec = safetensors.torch.load_file(pristine / "speech_tokenizer" / WEIGHTS)
    for name in ("decoder.pre_conv.conv.weight", "encoder.downsample.conv.weight"):
        assert torch.equal(checkpoint.codec_tensor(name), codec[name])


@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "fp16"), (torch.float32, "fp32")])
def test_other_dtypes_are_read(breakable: Callable[[], Path], dtype: torch.dtype, name: str) -> None:
    folder = breakable()
    stored = safetensors.torch.load_file(folder / WEIGHTS)
    safetensors.torch.save_file({key: value.to(dtype) for key, value in stored.items()}, folder / WEIGHTS)
    checkpoint = Checkpoint.open(folder)
    assert checkpoint.dtype == name
    assert torch.equal(checkpoint.tensor("talker.model.norm.weight"), stored["talker.model.norm.weight"].to(dtype).float())


def test_shards_are_read_and_dtypes_may_mix(breakable: Callable[[], Path], pristine: Path) -> None:
    folder = breakable()
    _shard(folder)
    sharded, whole = Checkpoint.open(folder), Checkpoint.open(pristine)
    assert sharded.dtype == "mixed"
    assert sharded.parameters == whole.parameters
    for name in ("talker.codec_head.weight", "talker.text_projection.linear_fc1.bias", "speaker_encoder.mfa.conv.weight"):
        assert torch.equal(sharded.tensor(name), whole.tensor(name))


def _shard(folder: Path) -> None:
    stored = safetensors.torch.load_file(folder / WEIGHTS)
    names = sorted(stored)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in shards.items():
        dtype = torch.float32 if file.startswith("model-00001") else torch.bfloat16
        safetensors.torch.save_file({name: stored[name].to(dtype) for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    (folder / WEIGHTS).unlink()


def test_only_base_models_have_a_speaker_encoder(breakable: Callable[[], Path]) -> None:
    folder = breakable()
    stored = safetensors.torch.load_file(folder / WEIGHTS)
    kept = {name: value for name, value in stored.items() if not name.startswith("speaker_encoder")}
    safetensors.torch.save_file(kept, folder / WEIGHTS)
    edit(folder / "config.json", tts_model_type="voice_design")
    assert Checkpoint.open(folder).config.speaker_encoder_config is None


def test_keys_left_out_have_the_references_defaults(breakable: Callable[[], Path]) -> None:
    folder = breakable()
    edit(folder / "generation_config.json", max_new_tokens=..., top_k=...)
    edit(folder / CODEC_CONFIG, decoder_config__sliding_window=..., decoder_config__rms_norm_eps=..., sampled="ignored")
    checkpoint = Checkpoint.open(folder)
    assert (checkpoint.generation.max_new_tokens, checkpoint.generation.top_k) == (2048, 50)
    assert checkpoint.codec_config.decoder_config.sliding_window == 72


def test_opening_imports_no_torch(pristine: Path) -> None:
    code = (
        "import sys; from kazeia.checkpoint import Checkpoint; from kazeia.checkpoint.description import describe;"
        f"describe(Checkpoint.open({str(pristine)!r})); assert not {{'torch', 'transformers'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_folder(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'} is not a folder; give the folder of a Qwen3-TTS 12Hz checkpoint"
    )


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        WEIGHTS,
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
        CODEC_CONFIG,
        f"speech_tokenizer/{WEIGHTS}",
    ],
)
def test_a_missing_file_is_named(breakable: Callable[[], Path], name: str) -> None:
    folder = breakable()
    (folder / name).unlink()
    parent, file = (folder / name).parent, Path(name).name
    assert refusal(folder) == f"{parent} has no {file}; download the whole Qwen3-TTS 12Hz checkpoint again"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is not valid JSON"), ("{", "is not valid JSON"), ("[]", "is not a Qwen3-TTS 12Hz configuration"), ("{}", "missing")],
)
def test_a_broken_config_is_refused(breakable: Callable[[], Path], text: str, message: str) -> None:
    folder = breakable()
    (folder / "config.json").write_text(text)
    assert message in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "qwen3"}, "model_type is 'qwen3' instead of 'qwen3_tts'"),
        ({"tokenizer_type": "qwen3_tts_tokenizer_25hz"}, "tokenizer_type is 'qwen3_tts_tokenizer_25hz'"),
        ({"tts_model_type": "singing"}, "Invalid enum value 'singing' - at `$.tts_model_type`"),
        ({"talker_config": "x"}, "at `$.talker_config`"),
        ({"talker_config__num_hidden_layers": 1_000_000_000}, "talker_config.num_hidden_layers is 1000000000"),
        ({"talker_config__hidden_size": 0}, "talker_config.hidden_size is 0"),
        ({"talker_config__num_key_value_heads": 0}, "talker_config.num_key_value_heads is 0"),
        ({"talker_config__num_attention_heads": -4}, "talker_config.num_attention_heads is -4"),
        ({"talker_config__num_key_value_heads": 3}, "4 heads for 3 key-value heads"),
        ({"talker_config__head_dim": 31}, "talker_config.head_dim is 31, an odd number"),
        ({"talker_config__hidden_act": "gelu"}, "talker_config.hidden_act is 'gelu', kz supports 'silu'"),
        ({"talker_config__attention_bias": True}, "talker_config.attention_bias is True, kz supports False"),
        ({"talker_config__use_sliding_window": True}, "talker_config.use_sliding_window is True"),
        ({"talker_config__rope_scaling__rope_type": "yarn"}, "rope_type is 'yarn', kz supports 'default'"),
        ({"talker_config__num_code_groups": 8}, "its code groups differ (8, 16, 16)"),
        ({"talker_config__vocab_size": 1160}, "its codebook sizes differ (136, 128, 128)"),
        ({"talker_config__codec_eos_token_id": 1152}, "the id of codec_eos_token_id is 1152, the vocabulary has 1152"),
        ({"talker_config__codec_language_id__english": -1}, "the id of language 'english' is -1"),
        ({"talker_config__spk_is_dialect": {"x": "klingon"}}, "speaker 'x' has the unknown dialect 'klingon'"),
        ({"tts_pad_token_id": 151671}, "the id of tts_pad_token_id is 151671, the vocabulary has 640"),
        ({"speaker_encoder_config__enc_dim": 32}, "its widths of a voice differ (32, 64)"),
        ({"speaker_encoder_config__enc_dilations": [1, 2]}, "its numbers of speaker encoder blocks differ (5, 5, 2)"),
        ({"speaker_encoder_config__enc_channels": []}, "speaker_encoder_config.enc_channels has 0 values"),
    ],
)
def test_what_kz_cannot_use_is_named(breakable: Callable[[], Path], changes: dict[str, Any], message: str) -> None:
    folder = breakable()
    edit(folder / "config.json", **changes)
    assert message in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mimi"}, "the model_type of its speech_tokenizer is 'mimi'"),
        ({"decode_upsample_rate": 1000}, "its samples per frame differ (1000, 1920)"),
        ({"encode_downsample_rate": 1000}, "its samples per encoded frame differ (1000, 1920)"),
        ({"encoder_config__use_causal_conv": False}, "encoder_config.use_causal_conv is False, kz supports True"),
        ({"encoder_config__hidden_act": "silu"}, "encoder_config.hidden_act is 'silu', kz supports 'gelu'"),
        ({"decoder_config__num_attention_heads": 0}, "decoder_config.num_attention_heads is 0"),
        ({"decoder_config__codebook_dim": ...}, "missing required field `codebook_dim`"),
    ],
)
def test_a_codec_kz_cannot_use_is_named(breakable: Callable[[], Path], changes: dict[str, Any], message: str) -> None:
    folder = breakable()
    edit(folder / CODEC_CONFIG, **changes)
    assert message in refusal(folder)


def test_weights_of_another_size_are_refused(breakable: Callable[[], Path]) -> None:
    folder = breakable()
    shutil.copy(DATA / "config.json", folder / "config.json")
    shutil.copy(DATA / CODEC_CONFIG, folder / CODEC_CONFIG)
    message = refusal(folder)
    assert f"{folder / WEIGHTS} does not fit its config.json: of 478 tensors" in message
    assert "misshaped" in message


def test_a_cut_download_is_refused(breakable: Callable[[], Path]) -> None:
    folder = breakable()
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: len(data) // 2])
    assert "is cut off" in refusal(folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [("{", "is not a shard index"), ('{"weight_map": {"x": "../x"}}', "names files outside its folder")],
)
def test_a_broken_shard_index_is_refused(breakable: Callable[[], Path], index: str, message: str) -> None:
    folder = breakable()
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(index)
    assert message in refusal(folder)


def test_a_missing_shard_is_named(breakable: Callable[[], Path]) -> None:
    folder = breakable()
    _shard(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "has no model-00002-of-00002.safetensors" in refusal(folder)


def test_a_speech_tokenizer_cannot_stand_in_for_the_model(pristine: Path) -> None:
    assert "is not a Qwen3-TTS 12Hz configuration" in refusal(pristine / "speech_tokenizer")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", CODEC_CONFIG])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused_in_one_line(editable: Path, name: str, data: st.DataObject) -> None:
    original = (editable / name).read_text()
    config = json.loads(original)
    section, key = data.draw(st.sampled_from(list(_keys(config))))
    section[key] = data.draw(VALUES)
    (editable / name).write_text(json.dumps(config))
    try:
        Checkpoint.open(editable)
        message = ""
    except CheckpointError as error:
        message = str(error)
    finally:
        (editable / name).write_text(original)
    assert "\n" not in message


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, -1, 2, 3, 1000, 10_000_000])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.lists(st.integers(-2, 5), max_size=6)
    | st.dictionaries(st.text(max_size=3), st.integers(-5, 2000) | st.booleans() | st.text(max_size=3), max_size=2)
)


def _keys(section: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every key of a configuration, with the section it is in."""
    for key, value in section.items():
        yield section, key
        if isinstance(value, dict):
            yield from _keys(value)


@pytest.fixture(scope="module")
def editable(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(pristine, tmp_path_factory.mktemp("editable") / "tiny"))
