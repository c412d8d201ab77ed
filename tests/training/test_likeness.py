"""Speech is most like the recording of the same words, said faster or slower."""

from __future__ import annotations

import numpy as np
import pytest

from training.likeness import mfcc, nearest, warped_distance


def test_a_stretched_series_is_nearest_to_itself() -> None:
    rng = np.random.default_rng(0)
    recordings = [np.cumsum(rng.standard_normal((80, 13)), 0).astype(np.float32) for _ in range(5)]
    stretched = np.repeat(recordings[3], 2, axis=0)[::1][:150]
    assert nearest(stretched, recordings) == 3


def test_distance_agrees_with_the_plain_recurrence() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((7, 13)).astype(np.float32), rng.standard_normal((9, 13)).astype(np.float32)
    total = np.full((8, 10), np.inf)
    total[0, 0] = 0
    for i in range(1, 8):
        for j in range(1, 10):
            near = abs((i - 1) / 7 - (j - 1) / 9) <= 0.3
            cost = np.linalg.norm(a[i - 1] - b[j - 1]) if near else np.inf
            total[i, j] = cost + min(total[i - 1, j], total[i, j - 1], total[i - 1, j - 1])
    assert warped_distance(a, b) == pytest.approx(total[-1, -1] / 16, rel=1e-4)


def test_mfccs_do_not_hear_loudness() -> None:
    samples = (np.random.default_rng(2).standard_normal(24_000) * 0.1).astype(np.float32)
    np.testing.assert_allclose(mfcc(samples), mfcc(samples * 0.5), atol=0.02)
