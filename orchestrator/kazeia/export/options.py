"""What a person may choose about an export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kazeia.bundle import Backend
from kazeia.defaults import CONTEXT_LENGTH, PREFILL_TOKENS
from kazeia.errors import UsageError

Quant = Literal["fp32", "8da8w", "8da4w"]
"""Weights of talker and code predictor: float32, or 8 or 4 bits with dynamic 8-bit activations."""

BACKENDS: tuple[Backend, ...] = ("xnnpack",)
QUANTS: tuple[Quant, ...] = get_args(Quant)
SMALLEST_CONTEXT = 32
"""A prompt has 9 tokens or more; below this nothing can be said."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of an export; made only of valid values.

    Raises:
        UsageError: names the option and what it may be.
    """

    backend: Backend = "xnnpack"
    quant: Quant = "8da8w"
    context_length: int = CONTEXT_LENGTH
    """Positions of the talker's KV cache."""
    prefill_tokens: int = PREFILL_TOKENS
    """Tokens one prefill call takes."""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(f"unknown backend {self.backend!r}; choose one of {', '.join(BACKENDS)}")
        if self.quant not in QUANTS:
            raise UsageError(f"unknown quantisation {self.quant!r}; choose one of {', '.join(QUANTS)}")
        if self.context_length < SMALLEST_CONTEXT:
            raise UsageError(f"the context of {self.context_length} is too small; choose {SMALLEST_CONTEXT} or more")
        if not 1 <= self.prefill_tokens < self.context_length:
            raise UsageError(
                f"{self.prefill_tokens} prefill tokens do not fit a context of {self.context_length}; "
                f"choose 1 to {self.context_length - 1}"
            )

    def check_positions(self, limit: int) -> None:
        """UsageError if the context is longer than `limit`, the model's `max_position_embeddings`."""
        if self.context_length > limit:
            raise UsageError(
                f"the context of {self.context_length} is longer than the model's {limit} positions; choose {limit} or less"
            )
