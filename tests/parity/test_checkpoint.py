"""Checkpoints against the reference: tensor names and shapes, files it wrote, files it has to load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import CodecConfig, Config, Kind
from kazeia.checkpoint.layout import codec_layout, main_layout
from kazeia.checkpoint.presets import Size, codec_config, model_config
from kazeia.checkpoint.random_weights import token_ids, write_random_checkpoint
from kazeia.checkpoint.tiny_tokenizer import tokenizer_files
from kazeia.tokenizer import build_tokenizer
from tests.parity.reference import ReferenceCheckpoints, load_reference, reference
from tests.support.official import CODEC_CONFIG, DATA, official_configs

KINDS: list[Kind] = ["base", "custom_voice", "voice_design"]
SIZES: list[Size] = ["tiny", "tiny-1.7b"]
FRAMES = 30


def shapes(model: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def main_model(config: dict[str, Any]) -> Any:
    models = reference("qwen_tts.core.models")
    with torch.device("meta"):
        return models.Qwen3TTSForConditionalGeneration(models.Qwen3TTSConfig(**config))


def codec_model(config: dict[str, Any]) -> Any:
    codecs = reference("qwen_tts.core")
    with torch.device("meta"):
        return codecs.Qwen3TTSTokenizerV2Model(codecs.Qwen3TTSTokenizerV2Config(**config))


@pytest.mark.parametrize("name", official_configs())
def test_official_configurations_have_the_references_tensors(name: str) -> None:
    text = official_configs()[name]
    assert main_layout(msgspec.json.decode(text, type=Config)) == shapes(main_model(json.loads(text)))


def test_the_official_speech_tokenizer_has_the_references_tensors() -> None:
    text = (DATA / CODEC_CONFIG).read_text()
    assert codec_layout(msgspec.json.decode(text, type=CodecConfig)) == shapes(codec_model(json.loads(text)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_tiny_configurations_have_the_references_tensors(size: Size, kind: Kind) -> None:
    config = model_config(size, kind, *token_ids(tokenizer_files()))
    assert main_layout(msgspec.convert(config, Config)) == shapes(main_model(config))
    codec = codec_config(size)
    assert codec_layout(msgspec.convert(codec, CodecConfig)) == shapes(codec_model(codec))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_residual_layers": 2, "upsampling_ratios": [8, 6, 5, 4]},
        {"vector_quantization_hidden_dimension": 32, "codebook_dim": 32},
        {"compress": 4, "num_filters": 8},
        {"num_semantic_quantizers": 1, "num_quantizers": 20, "num_key_value_heads": 2},
    ],
)
def test_other_speech_encoders_have_the_references_tensors(changes: dict[str, Any]) -> None:
    codec = codec_config("tiny")
    codec["encoder_config"] |= changes
    assert codec_layout(msgspec.convert(codec, CodecConfig)) == shapes(codec_model(codec))


@pytest.mark.parametrize(("size", "kind"), [("tiny", "base"), ("tiny-1.7b", "custom_voice"), ("tiny-1.7b", "voice_design")])
def test_what_the_reference_wrote_is_read(size: Size, kind: Kind, reference_checkpoints: ReferenceCheckpoints) -> None:
    checkpoint = Checkpoint.open(reference_checkpoints.folder(size, kind))
    model = reference_checkpoints.model(size, kind).model
    assert checkpoint.dtype == "fp32"
    assert checkpoint.config.tts_model_type == kind
    for name, value in model.state_dict().items():
        assert torch.equal(checkpoint.tensor(name), value), name
    for name, value in model.speech_tokenizer.model.state_dict().items():
        assert torch.equal(checkpoint.codec_tensor(name), value), name
    _same_values(checkpoint.config.talker_config, model.config.talker_config)
    _same_values(checkpoint.codec_config.decoder_config, model.speech_tokenizer.config.decoder_config)
    _same_values(checkpoint.codec_config.encoder_config, model.speech_tokenizer.config.encoder_config)


def _same_values(ours: msgspec.Struct, theirs: Any) -> None:
    """Every value we read is what the reference reads, defaults included."""
    for key, value in msgspec.structs.asdict(ours).items():
        if isinstance(value, msgspec.Struct):
            continue
        expected = getattr(theirs, key)
        assert value == (tuple(expected) if isinstance(expected, list) else expected), key


@pytest.mark.parametrize(("size", "kind"), [("tiny", "base"), ("tiny-1.7b", "custom_voice")])
def test_the_reference_loads_and_speaks_a_random_checkpoint(tmp_path: Path, size: Size, kind: Kind) -> None:
    """Its codes vary, and the sound is there, is not constant and is not clipped."""
    reference()
    write_random_checkpoint(tmp_path / "a", size=size, kind=kind, seed=1)
    model = load_reference(tmp_path / "a")
    checkpoint = Checkpoint.open(tmp_path / "a")
    for name, value in model.model.state_dict().items():
        assert torch.equal(checkpoint.tensor(name), value), name
    codes, sound = _speak(model, kind)
    assert len(codes) > 3
    assert len(set(codes[:, 0].tolist())) > len(codes) / 4
    assert len(set(codes[:, 15].tolist())) > len(codes) / 4
    assert 0.05 < sound.std() < 0.4
    assert (sound.abs() == 1).float().mean() < 0.001


def _speak(model: Any, kind: Kind) -> tuple[torch.Tensor, torch.Tensor]:
    kept: list[torch.Tensor] = []
    generate = model.model.generate

    def listening(**options: Any) -> Any:
        result = generate(**options)
        kept.append(result[0][0])
        return result

    model.model.generate = listening
    torch.manual_seed(1)
    if kind == "base":
        width = model.model.config.talker_config.hidden_size
        voice = {
            "ref_code": [None],
            "ref_spk_embedding": [torch.ones(width)],
            "x_vector_only_mode": [True],
            "icl_mode": [False],
        }
        sound, _ = model.generate_voice_clone(text="Hello.", language="English", voice_clone_prompt=voice, max_new_tokens=FRAMES)
    else:
        sound, _ = model.generate_custom_voice(text="Hello.", language="auto", speaker="dylan", max_new_tokens=FRAMES)
    return kept[0], torch.from_numpy(sound[0])


def test_the_reference_embeds_and_encodes_with_a_random_checkpoint(tmp_path: Path) -> None:
    reference()
    write_random_checkpoint(tmp_path / "a", size="tiny", kind="base", seed=1)
    model = load_reference(tmp_path / "a").model
    noise = (0.1 * torch.randn(48000, generator=torch.Generator().manual_seed(1))).numpy()
    embedding = model.extract_speaker_embedding(noise, 24000)
    assert 0.2 < embedding.std() < 5
    codes = model.speech_tokenizer.encode([noise], sr=24000).audio_codes[0]
    assert codes.shape == (25, 16)
    assert all(len(set(codes[:, group].tolist())) > 5 for group in range(16))


def test_the_reference_reads_the_small_tokenizer_the_same_way(reference_checkpoints: ReferenceCheckpoints) -> None:
    processor = reference_checkpoints.model().processor
    ours = build_tokenizer(reference_checkpoints.folder())
    for text in ("Hello, world!", "## \n\n été 你好", "<|im_start|>assistant\nhi<|im_end|>\n<think>x</think>"):
        assert ours.encode(text).ids == processor(text=text)["input_ids"][0]
