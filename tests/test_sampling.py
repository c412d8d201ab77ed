"""Sampling options: defaults, overrides, limits."""

from __future__ import annotations

import math

import pytest

from kazeia.errors import UsageError
from kazeia.sampling import Overrides, check_seed, resolve_sampling
from tests.support.bundles import fake_sampling


def test_the_bundle_gives_the_defaults() -> None:
    options = resolve_sampling(fake_sampling(), Overrides())
    assert (options.greedy, options.temperature, options.top_k, options.top_p) == (False, 0.9, 50, 1.0)
    assert (options.predictor_greedy, options.predictor_temperature, options.predictor_top_k) == (False, 0.9, 50)
    assert (options.repetition_penalty, options.min_frames) == (1.05, 2)


def test_overrides_win_one_by_one() -> None:
    options = resolve_sampling(fake_sampling(), Overrides(temperature=0.5, predictor_top_k=0, top_p=0.8))
    assert (options.temperature, options.predictor_temperature) == (0.5, 0.9)
    assert (options.top_k, options.predictor_top_k) == (50, 0)
    assert (options.top_p, options.predictor_top_p) == (0.8, 1.0)


def test_temperature_zero_is_greedy_for_its_own_model_only() -> None:
    options = resolve_sampling(fake_sampling(), Overrides(temperature=0.0))
    assert (options.greedy, options.predictor_greedy) == (True, False)
    options = resolve_sampling(fake_sampling(), Overrides(predictor_temperature=0.0))
    assert (options.greedy, options.predictor_greedy) == (False, True)


def test_greedy_is_greedy_throughout() -> None:
    options = resolve_sampling(fake_sampling(), Overrides(greedy=True))
    assert options.greedy
    assert options.predictor_greedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.nan),
        ("predictor_temperature", -1.0),
        ("predictor_top_k", -5),
        ("predictor_top_p", math.nan),
    ],
)
def test_values_out_of_range_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} must be between"):
        resolve_sampling(fake_sampling(), Overrides(**{name: value}))


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_is_an_unsigned_64_bit_number(seed: int) -> None:
    with pytest.raises(UsageError, match="--seed must be between 0 and 18446744073709551615"):
        check_seed(seed)
