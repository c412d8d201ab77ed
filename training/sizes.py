"""The built-in model's configuration: the real architecture, as small as it still speaks.

Its files are made from the tiny made-up checkpoint's, with these widths.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from kazeia.checkpoint.config import CodecConfig, CodecDecoderConfig, Config, TalkerConfig
from kazeia.checkpoint.presets import CODEC_IDS, codec_config, model_config
from kazeia.checkpoint.random_weights import token_ids
from training.codes import CODEBOOKS, ENTRIES, WIDTH
from training.tokenizer import FILES

TINY_CODEBOOK = 128
"""Of the preset whose control ids are shifted to this codebook's size."""
SHIFT = ENTRIES - TINY_CODEBOOK
TALKER = {"hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 6, "head_dim": 64, "text_hidden_size": 256}
MROPE_SECTION = [12, 10, 10]
PREDICTOR = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "head_dim": 64, "vocab_size": ENTRIES}
CODEC_DECODER = {
    "codebook_dim": WIDTH,
    "codebook_size": ENTRIES,
    "num_quantizers": CODEBOOKS,
    "vector_quantization_hidden_dimension": WIDTH,
    "latent_dim": 160,
    "decoder_dim": 256,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "sliding_window": 24,
}
"""The codebooks begin with the first half of the k-means' components."""
LANGUAGE_IDS = ("english", "french")


def main_config(tokenizer: Path) -> dict[str, Any]:
    """`config.json` for the tokenizer in the folder `tokenizer`."""
    ids, text_ids = token_ids({name: (tokenizer / name).read_bytes() for name in FILES})
    config = model_config("tiny", "base", ids, text_ids)
    talker = config["talker_config"]
    languages = {name: talker["codec_language_id"][name] + SHIFT for name in LANGUAGE_IDS}
    control = {key: talker[key] + SHIFT for key in CODEC_IDS}
    talker.update(TALKER, **control, codec_language_id=languages, vocab_size=talker["vocab_size"] + SHIFT)
    talker["rope_scaling"]["mrope_section"] = MROPE_SECTION
    talker["code_predictor_config"].update(PREDICTOR)
    config["speaker_encoder_config"]["enc_dim"] = talker["hidden_size"]
    return config


def speech_config() -> dict[str, Any]:
    """`speech_tokenizer/config.json`."""
    config = codec_config("tiny")
    config["decoder_config"].update(CODEC_DECODER)
    config["encoder_config"]["codebook_size"] = ENTRIES
    return config


def talker(tokenizer: Path) -> TalkerConfig:
    return msgspec.json.decode(json.dumps(main_config(tokenizer)), type=Config).talker_config


def speech_decoder() -> CodecDecoderConfig:
    return msgspec.json.decode(json.dumps(speech_config()), type=CodecConfig).decoder_config
