"""The reference's own modules with random weights, small, as oracles for the exported ones."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from kazeia.checkpoint.config import TalkerConfig
from kazeia.export.layers import MASK_VALUE
from tests.parity.reference import reference

CONTEXT = 96


def talker_config(**changes: Any) -> dict[str, Any]:
    """A small `talker_config` with grouped heads, M-RoPE and a code predictor of its own size."""
    predictor = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_code_groups": 16,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-6,
    }
    config = {
        "code_predictor_config": predictor,
        "vocab_size": 1152,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_code_groups": 16,
        "rope_theta": 1000000,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {"interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default", "type": "default"},
        "text_hidden_size": 64,
        "text_vocab_size": 300,
        "codec_eos_token_id": 130,
        "pad_token_id": None,
    }
    return {**config, **changes}


class Oracle:
    """A reference talker and the same weights and configuration as ours sees them."""

    def __init__(self, **changes: Any) -> None:
        models, values = reference("qwen_tts.core.models.modeling_qwen3_tts"), talker_config(**changes)
        config = models.Qwen3TTSTalkerConfig(**values)
        config._attn_implementation = config.code_predictor_config._attn_implementation = "eager"
        torch.manual_seed(5)
        self.talker = models.Qwen3TTSTalkerForConditionalGeneration(config).eval()
        with torch.no_grad():
            for parameter in self.talker.parameters():
                scale = 0.15 if parameter.dim() > 1 else 0.1
                parameter.mul_(float(parameter.dim() == 1)).add_(torch.randn_like(parameter) * scale)
        self.weights = {f"talker.{name}": value.clone() for name, value in self.talker.state_dict().items()}
        self.config = msgspec.convert(talker_config(**changes), TalkerConfig)

    def tensor(self, name: str) -> torch.Tensor:
        return self.weights[name]


def causal_mask(past: int, tokens: int, padding: int = 0) -> torch.Tensor:
    """`[1, T, P + T]` as the runner makes it: the last `tokens - padding` rows see the past and each other causally, the
    padding rows only themselves; `past` 0 becomes one masked slot."""
    slots = max(past, 1)
    keep = torch.zeros(1, tokens, slots + tokens, dtype=torch.bool)
    for row in range(tokens):
        keep[0, row, slots + row] = True
        if row >= padding:
            keep[0, row, :past] = True
            keep[0, row, slots + padding : slots + row + 1] = True
    return torch.where(keep, 0.0, MASK_VALUE)


def empty_past(layers: int, kv_heads: int, head_dim: int) -> list[torch.Tensor]:
    """The one slot an empty cache has; its contents must not matter."""
    return [torch.full((1, kv_heads, head_dim), 7.0) for _ in range(layers)]
