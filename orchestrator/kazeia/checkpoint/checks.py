"""Whether a configuration is one that kz implements, and whether its parts fit together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kazeia.checkpoint.config import MODEL_TYPE, SPECIAL_CODES, TOKENIZER_TYPE, CodecConfig, Config, RopeScaling, Section
from kazeia.errors import CheckpointError

MAX_SIZE = 10_000_000
MAX_COUNT = 1000
"""Bounds no real model comes near: a broken number must not make kz work for hours on an absurd model."""
COUNTS = ("num_hidden_layers", "num_code_groups", "num_quantizers", "num_residual_layers", "enc_res2net_scale")

Fault = str


def check_config(path: Path, config: Config, codec: CodecConfig) -> None:
    """Refuse what the exporter would get wrong.

    Raises:
        CheckpointError: another model, a feature kz does not implement, or values that contradict each other.
    """
    for faults in (_foreign(config, codec), _absurd(config, codec), _unsupported(config, codec), _contradictions(config, codec)):
        for fault in faults:
            raise CheckpointError(f"{path} is no Qwen3-TTS 12Hz checkpoint kz can use: {fault}; give one of the official kind")


def _foreign(config: Config, codec: CodecConfig) -> Iterator[Fault]:
    for key, value, expected in (
        ("model_type", config.model_type, MODEL_TYPE),
        ("tokenizer_type", config.tokenizer_type, TOKENIZER_TYPE),
        ("the model_type of its speech_tokenizer", codec.model_type, TOKENIZER_TYPE),
    ):
        if value != expected:
            yield f"{key} is {value!r} instead of {expected!r}"


def _sections(config: Config, codec: CodecConfig) -> dict[str, Section]:
    talker = config.talker_config
    sections: dict[str, Section] = {
        "talker_config": talker,
        "code_predictor_config": talker.code_predictor_config,
        "decoder_config": codec.decoder_config,
        "encoder_config": codec.encoder_config,
    }
    if config.speaker_encoder_config is not None:
        sections["speaker_encoder_config"] = config.speaker_encoder_config
    return sections


def _absurd(config: Config, codec: CodecConfig) -> Iterator[Fault]:
    for name, section in _sections(config, codec).items():
        for key, value in msgspec.structs.asdict(section).items():
            sizes = value if isinstance(value, tuple) else (value,) if type(value) is int and not key.endswith("_id") else ()
            most = MAX_COUNT if key in COUNTS else MAX_SIZE
            if isinstance(value, tuple) and not 0 < len(value) <= MAX_COUNT:
                yield f"{name}.{key} has {len(value)} values"
            elif not all(0 < size <= most for size in sizes):
                yield f"{name}.{key} is {value}"


def _unsupported(config: Config, codec: CodecConfig) -> Iterator[Fault]:
    supported = {
        "hidden_act": "silu",
        "attention_bias": False,
        "use_sliding_window": False,
        "audio_channels": 1,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "num_semantic_quantizers": 1,
    }
    for name, section in _sections(config, codec).items():
        values = msgspec.structs.asdict(section)
        scaling = values.get("rope_scaling")
        if isinstance(scaling, RopeScaling) and scaling.rope_type != "default":
            yield f"{name}.rope_scaling.rope_type is {scaling.rope_type!r}, kz supports 'default'"
        for key, expected in supported.items():
            # Mimi alone has another activation.
            wanted: Any = "gelu" if name == "encoder_config" and key == "hidden_act" else expected
            if key in values and values[key] != wanted:
                yield f"{name}.{key} is {values[key]!r}, kz supports {wanted!r}"


def _contradictions(config: Config, codec: CodecConfig) -> Iterator[Fault]:
    talker, decoder, encoder = config.talker_config, codec.decoder_config, codec.encoder_config
    predictor, speaker = talker.code_predictor_config, config.speaker_encoder_config
    yield from _unequal("code groups", talker.num_code_groups, predictor.num_code_groups, decoder.num_quantizers)
    yield from _unequal("codebook sizes", talker.vocab_size - SPECIAL_CODES, predictor.vocab_size, decoder.codebook_size)
    samples = math.prod(decoder.upsample_rates) * math.prod(decoder.upsampling_ratios)
    yield from _unequal("samples per frame", codec.decode_upsample_rate, samples)
    yield from _unequal("samples per encoded frame", codec.encode_downsample_rate, 2 * math.prod(encoder.upsampling_ratios))
    for name, section in (("talker_config", talker), ("code_predictor_config", predictor), ("decoder_config", decoder)):
        if section.num_attention_heads % section.num_key_value_heads:
            yield f"{name} has {section.num_attention_heads} heads for {section.num_key_value_heads} key-value heads"
        if section.head_dim % 2:
            yield f"{name}.head_dim is {section.head_dim}, an odd number"
    if speaker is not None:
        yield from _unequal("widths of a voice", speaker.enc_dim, talker.hidden_size)
        lengths = (len(speaker.enc_channels), len(speaker.enc_kernel_sizes), len(speaker.enc_dilations))
        yield from _unequal("numbers of speaker encoder blocks", *lengths)
    yield from _ids_out_of_range(config)


def _unequal(what: str, *values: int) -> Iterator[Fault]:
    if len(set(values)) > 1:
        yield f"its {what} differ ({', '.join(map(str, values))})"


def _ids_out_of_range(config: Config) -> Iterator[Fault]:
    talker = config.talker_config
    keys = ("eos_token", "think", "nothink", "think_bos", "think_eos", "pad", "bos")
    codes = {f"codec_{key}_id": getattr(talker, f"codec_{key}_id") for key in keys}
    codes |= {f"language {name!r}": token for name, token in talker.codec_language_id.items()}
    codes |= {f"speaker {name!r}": token for name, token in talker.spk_id.items()}
    texts = {
        f"{key}_token_id": getattr(config, f"{key}_token_id") for key in ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")
    }
    for ids, rows in ((codes, talker.vocab_size), (texts, talker.text_vocab_size)):
        for name, token in ids.items():
            if not 0 <= token < rows:
                yield f"the id of {name} is {token}, the vocabulary has {rows}"
    for name, dialect in talker.spk_is_dialect.items():
        if name not in talker.spk_id or (dialect is not False and dialect not in talker.codec_language_id):
            yield f"speaker {name!r} has the unknown dialect {dialect!r}"
