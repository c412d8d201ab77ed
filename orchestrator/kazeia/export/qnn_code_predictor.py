"""The code predictor for the NPU: a whole frame as one call, and step by step for settings that the frame has not got.

The frame unrolls the 15 steps of the reference's `generate`: keys and values never leave it, and each code is drawn, looked up
and fed back inside. Drawing is Gumbel-max with noise from outside, so the runner's seed decides; zero noise is greedy. Noise
belongs to a code, not to its rank: two close logits may swap ranks in float16 without changing the draw.

A step computes a frame's whole sequence anew, without a cache: reading the weights takes the NPU's time, not the 16 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import TalkerConfig
from kazeia.export.calibration import PredictorSample
from kazeia.export.layers import DecoderShape, Weights, load_linear
from kazeia.export.program import Method
from kazeia.export.qnn_layers import MASK_VALUE, StaticStack
from kazeia.export.qnn_predictor_samples import PredictorFeeder
from kazeia.export.qnn_predictor_scales import annotate_frame, keep_cache_symmetric
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quantize import Recipe

DROPPED = -4.0
"""Score of a code outside the top k. The best code's score is its noise alone, which is never below -3.14."""

FP16_MIN_TEMPERATURE = 1e-3
QUANTISED_MIN_TEMPERATURE = 0.4
"""Least temperature whose inverse the frame represents; what is lower is drawn step by step."""

PREFIX = "talker.code_predictor"

Cache = list[tuple[Tensor, Tensor]]
"""Keys `[1, kv_heads, head_dim, P]` and values `[1, kv_heads, P, head_dim]` of each layer."""


class Projection(nn.Module):
    """A linear layer whose bias is added apart: it is used at every step of a frame, and ExecuTorch would store a bias that
    belongs to the product once, quantised for the first step's scale."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.product = load_linear(weight)
        self.bias = nn.Parameter(bias, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.product(x)
        return y + self.bias


class PredictorStack(nn.Module):
    """Reference `Qwen3TTSTalkerCodePredictorModel` without embeddings, behind `small_to_mtp_projection` where widths differ."""

    causal: Tensor

    def __init__(self, config: TalkerConfig, weights: Weights) -> None:
        super().__init__()
        predictor, groups = config.code_predictor_config, config.num_code_groups
        self.small_to_mtp_projection: nn.Module = nn.Identity()
        if predictor.hidden_size != config.hidden_size:
            projection = f"{PREFIX}.small_to_mtp_projection"
            self.small_to_mtp_projection = Projection(weights(f"{projection}.weight"), weights(f"{projection}.bias"))
        self.stack = StaticStack(DecoderShape.of(predictor), weights, f"{PREFIX}.model", groups)
        self.register_buffer("causal", torch.full((groups, groups), MASK_VALUE).triu(1))

    def forward(self, embeds: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Hidden states `[1, T, Q]` of `embeds` `[1, T, D]`, which come behind what `cache` holds, and the cache with them."""
        stack, tokens = self.stack, embeds.shape[1]
        done = cache[0][1].shape[2] if cache else 0
        x: Tensor = self.small_to_mtp_projection(embeds)
        rope = stack.rope.rows(done, tokens)
        mask = self.causal[:tokens, :tokens].repeat(stack.groups, 1)[None, None] if tokens > 1 else None
        grown: Cache = []
        for index, layer in enumerate(stack.layers):
            past_k, past_v = cache[index] if cache else (None, None)
            x, keys, values = layer(x, mask, rope, past_k, past_v)
            grown.append((keys, values))
        return x, grown


class Frame(nn.Module):
    """All codes of a frame behind codebook 0 (reference `Qwen3TTSTalkerCodePredictorModelForConditionalGeneration.generate`).

    Args:
        config: `talker_config`.
        weights: the checkpoint's tensors.
        top_k: codes that a draw chooses from, ties with the last of them included; 0 for all.
    """

    def __init__(self, config: TalkerConfig, weights: Weights, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.predictor = PredictorStack(config, weights)
        self.heads = _heads(config, weights)
        tables = (weights(f"{PREFIX}.model.codec_embedding.{step}.weight") for step in range(config.num_code_groups - 1))
        self.tables = nn.ParameterList(nn.Parameter(table, requires_grad=False) for table in tables)

    def forward(
        self, hidden: Tensor, code0_embedding: Tensor, noise: Tensor, inverse_temperature: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw one frame.

        Args:
            hidden: the talker's hidden state `[1, 1, D]`.
            code0_embedding: embedding of codebook 0's code `[1, 1, D]`.
            noise: Gumbel noise of every code of codebooks 1, 2, ... `[steps, codebook]`; zeros for greedy.
            inverse_temperature: `[1]`.

        Returns:
            Codes int32 `[1, steps]`, and the sum of the embeddings of all the frame's codes, codebook 0's too, `[1, 1, D]`.
        """
        x, total = torch.cat([hidden, code0_embedding], 1), code0_embedding
        cache: Cache = []
        codes = []
        for step, (head, table) in enumerate(zip(self.heads, self.tables, strict=True)):
            states, cache = self.predictor(x, cache)
            logits = head(self.predictor.stack.norm(states[:, -1:]))[0]
            code = self._draw(logits, noise[step : step + 1], inverse_temperature)
            codes.append(code.to(torch.int32))
            x = embedding(code, table)
            total = total + x
        return torch.cat(codes, 1), total

    def _draw(self, logits: Tensor, noise: Tensor, inverse_temperature: Tensor) -> Tensor:
        """A code `[1, 1]` from logits and noise `[1, codebook]`.

        Scores are taken relative to the best logit: what can win is then near 0, where float16 and 16 bits are finest.
        """
        limited = 0 < self.top_k < logits.shape[1]
        best = torch.topk(logits, self.top_k if limited else 1).values
        scores = (logits - best[:, :1]) * inverse_temperature + noise
        if limited:
            scores = torch.where(logits >= best[:, -1:], scores, DROPPED)
        return torch.argmax(scores, -1, keepdim=True)


class Score(nn.Module):
    """Logits of all codebooks but the first, each from the codes before it."""

    def __init__(self, config: TalkerConfig, weights: Weights) -> None:
        super().__init__()
        self.predictor = PredictorStack(config, weights)
        self.heads = _heads(config, weights)

    def forward(self, embeds: Tensor) -> Tensor:
        """`[steps, codebook]` from the talker's hidden state and the embeddings of all codes but the last, `[1, groups, D]`.

        Row i depends on the rows up to i + 1 of `embeds`; the others may hold anything.
        """
        states, _ = self.predictor(embeds, [])
        states = self.predictor.stack.norm(states)
        return torch.cat([head(states[:, step + 1 : step + 2])[0] for step, head in enumerate(self.heads)], 0)


def frame_spec(checkpoint: Checkpoint, recipe: Recipe, samples: Callable[[], Iterable[PredictorSample]] = tuple) -> QnnSpec:
    """`code_predictor.pte` for the NPU: method `frame`, which draws from the top k of `generation_config.json`.

    Args:
        samples: recorded frames; not used for fp16.
    """
    config, sampling = checkpoint.config.talker_config, checkpoint.generation
    codebook = config.code_predictor_config.vocab_size
    top_k = sampling.subtalker_top_k if sampling.subtalker_top_k < codebook else 0
    feeder = PredictorFeeder(checkpoint)
    least = FP16_MIN_TEMPERATURE if recipe.precision == "fp16" else QUANTISED_MIN_TEMPERATURE
    return QnnSpec(
        name="code_predictor",
        methods={"frame": Method(Frame(config, checkpoint.tensor, top_k).eval(), feeder.frame_example())},
        constants={**_constants(config), "top_k": top_k, "min_temperature": least},
        samples={"frame": lambda: feeder.frames(samples(), sampling.subtalker_temperature, least)},
        annotate=annotate_frame,
    )


def steps_spec(checkpoint: Checkpoint, recipe: Recipe, samples: Callable[[], Iterable[PredictorSample]] = tuple) -> QnnSpec:
    """`code_predictor_steps.pte` for the NPU: method `score`, for draws that `frame` has not got.

    Args:
        samples: recorded frames; not used for fp16.
    """
    config = checkpoint.config.talker_config
    feeder = PredictorFeeder(checkpoint)
    return QnnSpec(
        name="code_predictor_steps",
        methods={"score": Method(Score(config, checkpoint.tensor).eval(), feeder.score_example())},
        constants=_constants(config),
        samples={"score": lambda: feeder.sequences(samples())},
        annotate=keep_cache_symmetric,
    )


def _heads(config: TalkerConfig, weights: Weights) -> nn.ModuleList:
    """Reference `lm_head.i` predicts codebook i + 1."""
    steps = range(config.num_code_groups - 1)
    return nn.ModuleList(load_linear(weights(f"{PREFIX}.lm_head.{step}.weight")) for step in steps)


def _constants(config: TalkerConfig) -> dict[str, int | float]:
    return {
        "contract_version": CONTRACT_VERSION,
        "hidden_size": config.hidden_size,
        "code_groups": config.num_code_groups,
        "codebook_size": config.code_predictor_config.vocab_size,
    }
