"""The talker for the NPU: prefill of N tokens and decode of one in one program, with one cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import TalkerConfig
from kazeia.export.calibration import TalkerSample
from kazeia.export.layers import DecoderShape, Weights, load_linear
from kazeia.export.program import Method
from kazeia.export.qnn_cache import CacheAnnotation, CacheBits, StaticCache, cache_io, step_inputs
from kazeia.export.qnn_layers import MASK_VALUE, StaticStack
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.talker import talker_constants

RESULTS = 2
"""Logits and hidden state come before the cache's outputs."""


class QnnTalker(nn.Module):
    """Reference `Qwen3TTSTalkerModel` without its embeddings, and `codec_head`."""

    def __init__(self, config: TalkerConfig, weights: Weights, positions: int, cache_dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.stack = StaticStack(DecoderShape.of(config), weights, "talker.model", positions, cache_dtype)
        self.codec_head = load_linear(weights("talker.codec_head.weight"))

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Inputs as `StaticStack.forward`; the last token's logits `[1, vocab]` and hidden state `[1, D]`, new keys, values."""
        hidden, new_k, new_v = self.stack(embeds, positions, mask, past_k, past_v)
        return self.codec_head(hidden)[0], hidden[0], new_k, new_v


def talker_spec(
    checkpoint: Checkpoint,
    context_length: int,
    prefill_tokens: int,
    recipe: Recipe,
    samples: Callable[[], Iterable[TalkerSample]] = tuple,
    cache_bits: CacheBits = 16,
) -> QnnSpec:
    """`talker.pte` of a checkpoint for the NPU.

    Args:
        samples: recorded sentences; not used for fp16, whose cache is float16.
        cache_bits: of a key or a value of a quantised talker.
    """
    config = checkpoint.config.talker_config
    shape, past = DecoderShape.of(config), context_length - 1
    dtype = torch.float16 if recipe.precision == "fp16" else torch.float32
    module = QnnTalker(config, checkpoint.tensor, context_length, dtype).eval()
    tokens = {"prefill": prefill_tokens, "decode": 1}
    width = config.hidden_size
    return QnnSpec(
        name="talker",
        methods={name: Method(module, step_inputs(shape, width, count, past, dtype)) for name, count in tokens.items()},
        constants={
            **talker_constants(config, context_length, prefill_tokens),
            "past_dynamic": 0,
            "mask_value": MASK_VALUE,
        },
        samples={
            name: partial(_steps, module, StaticCache(shape, past, dtype), samples, prefill_tokens, count)
            for name, count in tokens.items()
        },
        annotate=CacheAnnotation(cache_bits),
        quantized_io=cache_io(shape, RESULTS, cache_bits),
    )


def _steps(
    module: QnnTalker, cache: StaticCache, samples: Callable[[], Iterable[TalkerSample]], chunk: int, tokens: int
) -> Iterator[Inputs]:
    """The calls of `tokens` tokens that teacher-forced sentences make: each chunk, or each chunk's first token alone."""
    for sample in samples():
        cache.clear()
        embeds = torch.from_numpy(sample.embeds)[: cache.past]
        count = (len(embeds) - 1) % chunk + 1
        first = 0
        while first < len(embeds):
            rows = embeds[first : first + count]
            yield cache.inputs(rows[:tokens], tokens)
            with torch.no_grad():
                _, _, new_k, new_v = module(*cache.inputs(rows, chunk))
            cache.append(new_k, new_v, count)
            first, count = first + count, chunk
