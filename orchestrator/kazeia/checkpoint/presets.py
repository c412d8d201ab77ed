"""Configuration files of made-up checkpoints: the published ones, and tiny ones with every structural feature kept.

Values and key names are those of the published Qwen3-TTS-12Hz configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kazeia.checkpoint.config import MODEL_TYPE, SPECIAL_CODES, TOKENIZER_TYPE, Kind

Size = Literal["tiny", "tiny-1.7b", "0.6b", "1.7b"]

CODE_GROUPS = 16
PUBLISHED_CODEBOOK_SIZE = 2048
PUBLISHED_TEXT_ROWS = 151936
TEXT_ROWS_MULTIPLE = 64
"""The text embedding has a whole number of this many rows, as the published one has."""

LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
SPEAKER_DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
CODEC_IDS = {
    "codec_pad_id": 2148,
    "codec_bos_id": 2149,
    "codec_eos_token_id": 2150,
    "codec_think_id": 2154,
    "codec_nothink_id": 2155,
    "codec_think_bos_id": 2156,
    "codec_think_eos_id": 2157,
}

GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


@dataclass(frozen=True)
class Widths:
    """What one size differs in from another. A decoder is (hidden, intermediate, layers, heads, kv heads, head width)."""

    label: str
    """`tts_model_size`"""
    talker: tuple[int, int, int, int, int, int]
    predictor: tuple[int, int, int, int, int, int]
    text_hidden: int
    codebook_size: int
    mrope: tuple[int, int, int]
    """Sums to half the talker's head width."""
    tiny: bool


_TINY_PREDICTOR = (64, 128, 2, 4, 2, 32)
SIZES: dict[Size, Widths] = {
    "tiny": Widths("0b6", (64, 128, 2, 4, 2, 32), _TINY_PREDICTOR, 96, 128, (6, 5, 5), tiny=True),
    "tiny-1.7b": Widths("1b7", (96, 192, 2, 4, 2, 32), _TINY_PREDICTOR, 128, 128, (6, 5, 5), tiny=True),
    "0.6b": Widths("0b6", (1024, 3072, 28, 16, 8, 128), (1024, 3072, 5, 16, 8, 128), 2048, 2048, (24, 20, 20), tiny=False),
    "1.7b": Widths("1b7", (2048, 6144, 28, 16, 8, 128), (1024, 3072, 5, 16, 8, 128), 2048, 2048, (24, 20, 20), tiny=False),
}

_CODEC_DECODER = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "layer_scale_initial_scale": 0.01,
    "max_position_embeddings": 8000,
    "num_quantizers": CODE_GROUPS,
    "num_semantic_quantizers": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000,
    "semantic_codebook_size": 4096,
    "sliding_window": 72,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
}
_CODEC_ENCODER = {
    "_frame_rate": 12.5,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "audio_channels": 1,
    "compress": 2,
    "dilation_growth_rate": 2,
    "dtype": "float32",
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "kernel_size": 7,
    "last_kernel_size": 3,
    "layer_scale_initial_scale": 0.01,
    "max_position_embeddings": 8000,
    "norm_eps": 1e-05,
    "normalize": False,
    "num_quantizers": 32,
    "num_residual_layers": 1,
    "num_semantic_quantizers": 1,
    "pad_mode": "constant",
    "residual_kernel_size": 3,
    "rope_theta": 10000.0,
    "sampling_rate": 24000,
    "sliding_window": 250,
    "trim_right_ratio": 1.0,
    "upsampling_ratios": [8, 6, 5, 4],
    "use_cache": False,
    "use_causal_conv": True,
    "use_conv_shortcut": False,
    "use_streaming": False,
}


def model_config(size: Size, kind: Kind, token_ids: dict[str, int], text_ids: int) -> dict[str, Any]:
    """`config.json`. `token_ids` are the control ids by config key, `text_ids` how many ids the tokenizer has."""
    widths = SIZES[size]
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        **token_ids,
        "model_type": MODEL_TYPE,
        "tokenizer_type": TOKENIZER_TYPE,
        "tts_model_size": widths.label,
        "tts_model_type": kind,
        "talker_config": _talker_config(widths, kind, text_ids),
        "transformers_version": "4.57.3",
    }
    if kind == "base":
        config["speaker_encoder_config"] = _speaker_encoder_config(widths)
    return config


def codec_config(size: Size) -> dict[str, Any]:
    """`speech_tokenizer/config.json`"""
    tiny = SIZES[size].tiny
    codebook = SIZES[size].codebook_size
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": TOKENIZER_TYPE,
        "encoder_valid_num_quantizers": CODE_GROUPS,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": {
            **_CODEC_DECODER,
            "codebook_size": codebook,
            "latent_dim": 64 if tiny else 1024,
            "codebook_dim": 32 if tiny else 512,
            "decoder_dim": 96 if tiny else 1536,
            "vector_quantization_hidden_dimension": 32 if tiny else 512,
            **_attention_widths(*((32, 64, 2, 4, 4, 16) if tiny else (512, 1024, 8, 16, 16, 64))),
        },
        "encoder_config": {
            **_CODEC_ENCODER,
            "codebook_size": codebook,
            "codebook_dim": 16 if tiny else 256,
            "num_filters": 4 if tiny else 64,
            "upsample_groups": 32 if tiny else 512,
            "vector_quantization_hidden_dimension": 16 if tiny else 256,
            **_attention_widths(*((32, 64, 2, 4, 4, 8) if tiny else (512, 2048, 8, 8, 8, 64))),
        },
        "transformers_version": "4.57.3",
    }


def _attention_widths(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, width: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
    }


def _decoder_config(*widths: int) -> dict[str, Any]:
    """What talker and code predictor have in common."""
    return {
        **_attention_widths(*widths),
        "attention_bias": False,
        "attention_dropout": 0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "num_code_groups": CODE_GROUPS,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_cache": True,
        "use_sliding_window": False,
    }


def _talker_config(widths: Widths, kind: Kind, text_ids: int) -> dict[str, Any]:
    # Control ids keep their distance from the end of the vocabulary when the codebook is smaller.
    shift = widths.codebook_size - PUBLISHED_CODEBOOK_SIZE
    languages = {**LANGUAGES, **(DIALECTS if kind == "custom_voice" else {})}
    speakers = SPEAKERS if kind == "custom_voice" else {}
    text_rows = -(-text_ids // TEXT_ROWS_MULTIPLE) * TEXT_ROWS_MULTIPLE
    return {
        **_decoder_config(*widths.talker),
        "model_type": "qwen3_tts_talker",
        "code_predictor_config": _predictor_config(widths),
        **{key: value + shift for key, value in CODEC_IDS.items()},
        "codec_language_id": {name: value + shift for name, value in languages.items()},
        "spk_id": {name: value + shift for name, value in speakers.items()},
        "spk_is_dialect": {name: SPEAKER_DIALECTS.get(name, False) for name in speakers},
        "max_position_embeddings": 32768,
        "position_id_per_seconds": 13,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": list(widths.mrope),
            "rope_type": "default",
            "type": "default",
        },
        "text_hidden_size": widths.text_hidden,
        "text_vocab_size": text_rows if widths.tiny else max(text_rows, PUBLISHED_TEXT_ROWS),
        "vocab_size": widths.codebook_size + SPECIAL_CODES,
    }


def _predictor_config(widths: Widths) -> dict[str, Any]:
    return {
        **_decoder_config(*widths.predictor),
        "model_type": "qwen3_tts_talker_code_predictor",
        "layer_types": ["full_attention"] * widths.predictor[2],
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "pad_token_id": None,
        "rope_scaling": None,
        "vocab_size": widths.codebook_size,
    }


def _speaker_encoder_config(widths: Widths) -> dict[str, Any]:
    config: dict[str, Any] = {"enc_dim": widths.talker[0], "sample_rate": 24000}
    if widths.tiny:
        config |= {
            "enc_channels": [32, 32, 32, 32, 96],
            "enc_attention_channels": 16,
            "enc_res2net_scale": 4,
            "enc_se_channels": 16,
        }
    return config
