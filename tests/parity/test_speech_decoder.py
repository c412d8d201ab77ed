"""The speech decoder against the reference's, over more frames than its window holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.export.codec_oracle import decode, decoder_config, decoder_weights, make_decoder, random_codes
from tests.parity.reference import reference

FRAMES = 160
TOLERANCE = 1e-5

CONFIGS = {
    "published rates": {"upsample_rates": [8, 5, 4, 3], "upsampling_ratios": [2, 2], "num_hidden_layers": 2, "decoder_dim": 64},
    "shared heads": {"num_key_value_heads": 1},
    "short window": {"sliding_window": 5, "rope_theta": 100.0},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_samples_are_the_references(changes: dict[str, Any]) -> None:
    config = decoder_config(**changes)
    codes = random_codes(config, FRAMES)
    want = reference_samples(config, codes)
    assert 0.01 < want.std() < want.abs().max() < 1
    decoder = make_decoder(config, FRAMES)
    for chunk in (FRAMES, 25, 7, 1):
        torch.testing.assert_close(decode(decoder, codes, chunk), want, atol=TOLERANCE, rtol=0)


@torch.no_grad()
def reference_samples(config: dict[str, Any], codes: torch.Tensor) -> torch.Tensor:
    """The reference's samples of all frames at once, [1, n]."""
    modeling = reference("qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2")
    settings = modeling.Qwen3TTSTokenizerV2DecoderConfig(**config)
    settings._attn_implementation = "eager"
    decoder = modeling.Qwen3TTSTokenizerV2Decoder(settings).eval()
    decoder.load_state_dict(decoder_weights(config))
    samples: torch.Tensor = decoder(codes)[0]
    return samples
