"""The talker as a program: prefill of N tokens and decode of one, with codebook 0's logits."""

from __future__ import annotations

from torch import Tensor, nn

from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import SPECIAL_CODES, TalkerConfig
from kazeia.export.layers import MASK_VALUE, DecoderShape, DecoderStack, Weights, load_linear, step_method
from kazeia.export.program import ProgramSpec


class Talker(nn.Module):
    """Reference `Qwen3TTSTalkerModel` without its embeddings, and `codec_head`."""

    def __init__(self, config: TalkerConfig, weights: Weights, positions: int) -> None:
        super().__init__()
        self.stack = DecoderStack(DecoderShape.of(config), weights, "talker.model", positions)
        self.codec_head = load_linear(weights("talker.codec_head.weight"))

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Inputs as `DecoderStack.forward`; the last token's logits `[1, vocab]` and hidden state `[1, D]`, new keys, values."""
        hidden, new_k, new_v = self.stack(embeds, positions, mask, past_k, past_v)
        return self.codec_head(hidden), hidden, new_k, new_v


def talker_program(checkpoint: Checkpoint, context_length: int, prefill_tokens: int) -> ProgramSpec:
    """`talker.pte` of a checkpoint; weights `talker.model.layers.*`, `talker.model.norm`, `talker.codec_head`."""
    config = checkpoint.config.talker_config
    shape = DecoderShape.of(config)
    module = Talker(config, checkpoint.tensor, context_length)
    methods = {
        "prefill": step_method(module, shape, config.hidden_size, prefill_tokens, context_length - 1),
        "decode": step_method(module, shape, config.hidden_size, 1, context_length - 1),
    }
    constants = {**talker_constants(config, context_length, prefill_tokens), "past_dynamic": 1, "mask_value": MASK_VALUE}
    return ProgramSpec("talker", methods, constants, frozenset({"codec_head"}))


def talker_constants(config: TalkerConfig, context_length: int, prefill_tokens: int) -> dict[str, int | float]:
    """Constants of `talker.pte` that do not depend on the backend."""
    shape = DecoderShape.of(config)
    return {
        "contract_version": CONTRACT_VERSION,
        "context_length": context_length,
        "prefill_tokens": prefill_tokens,
        "layers": shape.layers,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "code_groups": config.num_code_groups,
        "codebook_size": config.code_predictor_config.vocab_size,
        "codec_eos_id": config.codec_eos_token_id,
        "suppress_from": config.vocab_size - SPECIAL_CODES,
    }
