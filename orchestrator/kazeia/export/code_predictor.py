"""The code predictor as a program: a prefill of two tokens, a decode of one, and one head a codebook as a method of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import TalkerConfig
from kazeia.export.layers import MASK_VALUE, DecoderShape, DecoderStack, Weights, load_linear, step_method
from kazeia.export.program import Method, ProgramSpec

PREFILL_TOKENS = 2
"""The talker's hidden state and the embedding of codebook 0."""


class CodePredictor(nn.Module):
    """Reference `Qwen3TTSTalkerCodePredictorModel` without embeddings, behind `small_to_mtp_projection` where widths differ."""

    def __init__(self, config: TalkerConfig, weights: Weights) -> None:
        super().__init__()
        predictor, prefix = config.code_predictor_config, "talker.code_predictor"
        self.small_to_mtp_projection: nn.Module = nn.Identity()
        if predictor.hidden_size != config.hidden_size:
            projection = f"{prefix}.small_to_mtp_projection"
            self.small_to_mtp_projection = load_linear(weights(f"{projection}.weight"), weights(f"{projection}.bias"))
        self.stack = DecoderStack(DecoderShape.of(predictor), weights, f"{prefix}.model", config.num_code_groups)

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Inputs as `DecoderStack.forward`, embeds as wide as the talker; last hidden state `[1, Q]`, new keys, new values."""
        hidden, new_k, new_v = self.stack(self.small_to_mtp_projection(embeds), positions, mask, past_k, past_v)
        return hidden, new_k, new_v


class Head(nn.Module):
    """Logits of one codebook: reference `lm_head.i` predicts codebook i + 1."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.lm_head = load_linear(weight)

    def forward(self, hidden: Tensor) -> Tensor:
        """`[1, Q]` to `[1, codebook]`."""
        logits: Tensor = self.lm_head(hidden)
        return logits


def code_predictor_program(checkpoint: Checkpoint) -> ProgramSpec:
    """`code_predictor.pte` of a checkpoint; weights `talker.code_predictor.*` but its embeddings."""
    config = checkpoint.config.talker_config
    predictor = config.code_predictor_config
    shape, groups = DecoderShape.of(predictor), config.num_code_groups
    module = CodePredictor(config, checkpoint.tensor)
    methods = {
        "prefill": step_method(module, shape, config.hidden_size, PREFILL_TOKENS, groups),
        "decode": step_method(module, shape, config.hidden_size, 1, groups),
    }
    for index in range(groups - 1):
        head = Head(checkpoint.tensor(f"talker.code_predictor.lm_head.{index}.weight"))
        methods[f"head_{index}"] = Method(head, (torch.zeros(1, predictor.hidden_size),))
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "layers": shape.layers,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_size": config.hidden_size,
        "predictor_hidden_size": predictor.hidden_size,
        "code_groups": groups,
        "codebook_size": predictor.vocab_size,
        "past_dynamic": 1,
        "mask_value": MASK_VALUE,
    }
    return ProgramSpec("code_predictor", methods, constants, frozenset({"lm_head", "small_to_mtp_projection"}))
