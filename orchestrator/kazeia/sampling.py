"""Sampling options: a bundle's defaults, overridden by what a person asks for, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from kazeia.bundle import Sampling
from kazeia.defaults import MIN_FRAMES
from kazeia.errors import UsageError

SEED_LIMIT = 1 << 64


@dataclass(frozen=True)
class Overrides:
    """Options as given; None keeps the bundle's default. Temperature 0 means greedy."""

    greedy: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    predictor_temperature: float | None = None
    predictor_top_k: int | None = None
    predictor_top_p: float | None = None


@dataclass(frozen=True)
class SamplingOptions:
    """What the runner samples with; field names are the protocol's."""

    greedy: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    predictor_greedy: bool
    predictor_temperature: float
    predictor_top_k: int
    predictor_top_p: float
    min_frames: int = MIN_FRAMES

    def header(self) -> dict[str, Any]:
        """The options as keys of a `generate` request."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def resolve_sampling(defaults: Sampling, overrides: Overrides) -> SamplingOptions:
    """Lay the overrides over the defaults.

    Raises:
        UsageError: negative, NaN or out-of-range values.
    """
    _check(overrides)
    temperature = _pick(overrides.temperature, defaults.temperature)
    predictor_temperature = _pick(overrides.predictor_temperature, defaults.subtalker_temperature)
    greedy = overrides.greedy or temperature == 0 or not defaults.do_sample
    predictor_greedy = overrides.greedy or predictor_temperature == 0 or not defaults.subtalker_dosample
    return SamplingOptions(
        greedy=greedy,
        temperature=temperature or 1.0,
        top_k=int(_pick(overrides.top_k, defaults.top_k)),
        top_p=_pick(overrides.top_p, defaults.top_p),
        repetition_penalty=_pick(overrides.repetition_penalty, defaults.repetition_penalty),
        predictor_greedy=predictor_greedy,
        predictor_temperature=predictor_temperature or 1.0,
        predictor_top_k=int(_pick(overrides.predictor_top_k, defaults.subtalker_top_k)),
        predictor_top_p=_pick(overrides.predictor_top_p, defaults.subtalker_top_p),
    )


def check_seed(seed: int) -> int:
    """A seed is an unsigned 64-bit number."""
    if not 0 <= seed < SEED_LIMIT:
        raise UsageError(f"--seed must be between 0 and {SEED_LIMIT - 1}, not {seed}")
    return seed


def _pick(given: float | None, default: float) -> float:
    return default if given is None else given


def _check(overrides: Overrides) -> None:
    for prefix in ("", "predictor_"):
        _check_range(prefix + "temperature", getattr(overrides, prefix + "temperature"), 0.0, 100.0)
        _check_range(prefix + "top_k", getattr(overrides, prefix + "top_k"), 0, 1 << 20)
        _check_range(prefix + "top_p", getattr(overrides, prefix + "top_p"), 1e-6, 1.0)
    _check_range("repetition_penalty", overrides.repetition_penalty, 1e-2, 100.0)


def _check_range(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        raise UsageError(f"--{name.replace('_', '-')} must be between {low:g} and {high:g}, not {value:g}")
