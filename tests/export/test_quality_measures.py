"""Measures between two signals."""

from __future__ import annotations

import numpy as np
import pytest

from kazeia.export.quality_measures import (
    agreement,
    first_difference,
    fit_line,
    level_difference_db,
    log_mel_distance_db,
    spectrum_distance_db,
    sqnr_db,
)

RANDOM = np.random.default_rng(0)
SIGNAL = RANDOM.standard_normal(4000)


def sound(hz: float, gain: float = 0.3, samples: int = 24000) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (gain * np.sin(2 * np.pi * hz * np.arange(samples) / 24000)).astype(np.float32)


@pytest.mark.parametrize("db", [-10.0, 0.0, 20.0, 60.0])
def test_signal_to_error(db: float) -> None:
    error = RANDOM.standard_normal(4000)
    error *= np.sqrt(np.square(SIGNAL).sum() / np.square(error).sum()) * 10 ** (-db / 20)
    assert sqnr_db(SIGNAL + error, SIGNAL) == pytest.approx(db, abs=1e-9)


@pytest.mark.parametrize(
    ("got", "wanted", "db"),
    [
        (SIGNAL, SIGNAL, 200.0),
        (SIGNAL * np.nan, SIGNAL, -200.0),
        (SIGNAL, SIGNAL * 0, -200.0),
        (SIGNAL * 0, SIGNAL * 0, 200.0),
    ],
)
def test_signal_to_error_at_its_ends(got: object, wanted: object, db: float) -> None:
    assert sqnr_db(np.asarray(got), np.asarray(wanted)) == db


def test_a_line_is_found_and_undone() -> None:
    line = fit_line(2.5 * SIGNAL + 0.3, SIGNAL)
    assert line is not None
    assert (line.gain, line.offset) == (pytest.approx(2.5), pytest.approx(0.3))
    assert line.corrected_db > 150
    assert fit_line(SIGNAL * np.nan, SIGNAL) is None
    assert fit_line(SIGNAL, SIGNAL * 0) is None
    assert fit_line(SIGNAL * 0, SIGNAL) is None


def test_codes() -> None:
    wanted = np.arange(12).reshape(4, 3)
    got = wanted.copy()
    assert first_difference(got, wanted) is None
    assert first_difference(got[:2], wanted) is None
    got[2, 1] = 0
    assert first_difference(got, wanted) == 2
    assert agreement(got[:, 1], wanted[:, 1]) == 0.75


def test_sound_that_is_the_same_is_at_no_distance_and_louder_sound_is_louder() -> None:
    assert log_mel_distance_db(sound(440), sound(440)) == 0
    assert level_difference_db(sound(440, 0.6), sound(440, 0.3)) == pytest.approx(6.02, abs=0.01)
    assert level_difference_db(np.zeros(10), sound(440)) < -100
    # Everything audible is 6 dB louder, the silent bins are at their floor in both.
    noise = RANDOM.standard_normal(24000) * 0.1
    assert log_mel_distance_db(2 * noise, noise) == pytest.approx(6.02, abs=0.01)


def test_another_tone_is_far_and_another_order_is_far_only_in_time() -> None:
    low, high = sound(300, samples=12000), sound(3000, samples=12000)
    one, other = np.concatenate([low, high]), np.concatenate([high, low])
    assert log_mel_distance_db(one, other) > 10
    assert spectrum_distance_db(one, other) < 1
    assert spectrum_distance_db(sound(300), sound(3000)) > 10


def test_very_short_sounds_can_be_compared() -> None:
    assert log_mel_distance_db(sound(440, samples=100), sound(440, samples=3000)) == 0
