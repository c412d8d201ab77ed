"""Measures of how far one signal is from another, in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kazeia.mel import FFT_SAMPLES, HOP_SAMPLES, mel_spectrogram
from kazeia.quality import LIMIT_DB

Array = NDArray[Any]

SILENCE_POWER = 1e-12
"""Added to powers of sound, so that digital silence has a level: -120 dB."""

NATURAL_TO_DB = 20.0 / float(np.log(10.0))
"""A mel spectrogram's natural logarithms of magnitudes, in dB."""


def sqnr_db(got: Array, wanted: Array) -> float:
    """Signal to error ratio within +-`LIMIT_DB`; the lower bound also for values that are not numbers."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    return ratio_db(float(np.square(wanted).sum()), float(np.square(got - wanted).sum()))


def ratio_db(signal: float, error: float) -> float:
    """As `sqnr_db`, from the two powers."""
    if not np.isfinite(error):
        return -LIMIT_DB
    if error == 0:
        return LIMIT_DB
    return float(np.clip(10 * np.log10(signal / error), -LIMIT_DB, LIMIT_DB)) if signal else -LIMIT_DB


@dataclass(frozen=True)
class Line:
    """The straight line `got = gain * wanted + offset` that fits best, and what is left when it is undone."""

    gain: float
    offset: float
    """In the signal's own unit."""
    corrected_db: float


def fit_line(got: Array, wanted: Array) -> Line | None:
    """The line between two signals; None when there is nothing to fit."""
    x, y = np.asarray(wanted, np.float64).ravel(), np.asarray(got, np.float64).ravel()
    if not np.isfinite(y).all() or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    gain, offset = np.polyfit(x, y, 1)
    if gain == 0:
        return None
    return Line(float(gain), float(offset), sqnr_db((y - offset) / gain, x))


def agreement(got: Array, wanted: Array) -> float:
    """Part of equal codes."""
    return float(np.mean(got == wanted)) if len(wanted) else 1.0


def first_difference(got: Array, wanted: Array) -> int | None:
    """The first frame of `[F, G]` that differs among those both have; None if none does."""
    frames = min(len(got), len(wanted))
    differs = np.any(got[:frames] != wanted[:frames], axis=1)
    return int(np.argmax(differs)) if differs.any() else None


def level_difference_db(got: Array, wanted: Array) -> float:
    """How much louder `got` is, by root mean square."""
    return _power_db(got) - _power_db(wanted)


def log_mel_distance_db(got: Array, wanted: Array) -> float:
    """Mean absolute distance of the log-mel spectra, frame by frame, over the time both have."""
    return _mel_distance(*_mels(got, wanted))


def spectrum_distance_db(got: Array, wanted: Array) -> float:
    """Mean absolute distance of the log-mel spectra averaged over time."""
    ours, theirs = _mels(got, wanted)
    return _mel_distance(ours.mean(0), theirs.mean(0))


def _mels(got: Array, wanted: Array) -> tuple[Array, Array]:
    samples = min(len(got), len(wanted))
    shortest = FFT_SAMPLES + HOP_SAMPLES
    parts = (np.pad(sound[:samples], (0, max(0, shortest - samples))) for sound in (got, wanted))
    ours, theirs = (mel_spectrogram(np.asarray(part, np.float32)) for part in parts)
    return ours, theirs


def _mel_distance(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours - theirs).mean() * NATURAL_TO_DB)


def _power_db(sound: Array) -> float:
    power = float(np.square(np.asarray(sound, np.float64)).mean()) if len(sound) else 0.0
    return 10 * float(np.log10(power + SILENCE_POWER))
