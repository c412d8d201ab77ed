"""Small speech decoders of made-up weights."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import torch

from kazeia.checkpoint.config import TOKENIZER_TYPE, CodecConfig, CodecDecoderConfig
from kazeia.checkpoint.layout import codec_layout
from kazeia.checkpoint.random_weights import draw
from kazeia.export.speech_decoder import SpeechDecoder
from kazeia.export.streaming_layers import state_shapes

SEED = 7


def decoder_config(**changes: Any) -> dict[str, Any]:
    """A `decoder_config` with every kind of layer, fewer of each."""
    config = {
        "codebook_size": 64,
        "codebook_dim": 16,
        "latent_dim": 24,
        "decoder_dim": 32,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "upsample_rates": [3, 2],
        "upsampling_ratios": [2],
    }
    return {**config, **changes}


def decoder_weights(config: dict[str, Any], seed: int = SEED) -> dict[str, torch.Tensor]:
    """Weights by their names below `decoder.`; the last convolution is quiet enough that no sample is clamped."""
    codec = CodecConfig(model_type=TOKENIZER_TYPE, decoder_config=msgspec.convert(config, CodecDecoderConfig))
    weights = {
        name.removeprefix("decoder."): torch.from_numpy(np.concatenate(list(draw(name, shape, seed))).reshape(shape))
        for name, shape in codec_layout(codec).items()
        if name.startswith("decoder.")
    }
    weights[f"decoder.{len(config['upsample_rates']) + 2}.conv.weight"] *= 0.1
    return weights


def make_decoder(config: dict[str, Any], max_frames: int) -> SpeechDecoder:
    weights = decoder_weights(config)
    return SpeechDecoder(lambda name: weights[name].clone(), msgspec.convert(config, CodecDecoderConfig), max_frames).eval()


def random_codes(config: dict[str, Any], frames: int) -> torch.Tensor:
    """[1, 16, frames]"""
    return torch.randint(config["codebook_size"], (1, 16, frames), generator=torch.Generator().manual_seed(frames))


def empty_states(decoder: SpeechDecoder) -> list[torch.Tensor]:
    return [torch.zeros(shape) for shape in state_shapes(decoder)]


@torch.no_grad()
def decode(decoder: SpeechDecoder, codes: torch.Tensor, chunk: int) -> torch.Tensor:
    """All samples [1, n], decoded `chunk` frames at a time."""
    states, samples = empty_states(decoder), []
    for begin in range(0, codes.shape[2], chunk):
        part, states = decoder(codes[:, :, begin : begin + chunk], states)
        samples.append(part)
    return torch.cat(samples, 1)
