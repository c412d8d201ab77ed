"""Codes keep the pitch exactly and the envelope the better the more of them there are."""

from __future__ import annotations

import numpy as np
import pytest

from training.codes import CODEBOOKS, PERIODS_CODEBOOK, Quantizer, envelope_error, vectors
from training.vocoder import BANDS, HOPS_PER_FRAME, Features, periods


def made_up(frames: int, seed: int) -> Features:
    rng = np.random.default_rng(seed)
    hops = frames * HOPS_PER_FRAME
    factors = np.repeat(rng.standard_normal((frames, 6)), HOPS_PER_FRAME, 0)
    shapes = np.random.default_rng(0).standard_normal((6, BANDS))
    envelope = (-4 + 0.5 * factors @ shapes).astype(np.float32)
    voiced = np.repeat(rng.random(frames) < 0.7, HOPS_PER_FRAME)
    return Features(envelope, rng.random((hops, 3)).astype(np.float32), voiced, rng.uniform(90, 240, hops).astype(np.float32))


@pytest.fixture(scope="module")
def quantizer() -> Quantizer:
    return Quantizer.fit(vectors(made_up(1500, 1)), rounds=2)


def test_the_number_of_periods_is_a_codebook_of_its_own(quantizer: Quantizer) -> None:
    features = made_up(20, 2)
    codes = quantizer.encode(features)
    assert codes.shape == (20, CODEBOOKS)
    np.testing.assert_array_equal(codes[:, PERIODS_CODEBOOK], periods(features))
    found = periods(quantizer.decode(codes))
    voiced = found > 0
    assert voiced.sum() > 8
    np.testing.assert_array_equal(found[voiced], codes[voiced, PERIODS_CODEBOOK])


def test_more_codebooks_leave_less_error(quantizer: Quantizer) -> None:
    errors = [envelope_error(quantizer, [made_up(100, 3)], count) for count in (1, 4, 16)]
    assert errors[0] > errors[1] > errors[2]
