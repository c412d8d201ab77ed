"""Which recording a piece of speech is most like: dynamic time warping over MFCCs."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from kazeia.mel import mel_spectrogram

COEFFICIENTS = 13
FRAMES_MERGED = 2
"""Of mel frames every 256 samples: 47 vectors a second are enough to tell sentences apart."""
SAKOE_CHIBA_SHARE = 0.3
"""The path stays within this share of the length from the diagonal."""

Floats = NDArray[np.float32]


def mfcc(samples: Floats) -> Floats:
    """[T, 13] cepstra without loudness, each normalised over the recording."""
    mel = mel_spectrogram(samples)
    mel = mel[: len(mel) // FRAMES_MERGED * FRAMES_MERGED].reshape(-1, FRAMES_MERGED, mel.shape[1]).mean(1)
    cepstra = dct(mel, axis=1, norm="ortho")[:, 1 : 1 + COEFFICIENTS]
    normalised: Floats = ((cepstra - cepstra.mean(0)) / (cepstra.std(0) + 1e-6)).astype(np.float32)
    return normalised


@cache
def _band(rows: int, columns: int) -> NDArray[np.bool_]:
    """Which cells of the table are near enough to the diagonal."""
    place = np.arange(rows)[:, None] / rows - np.arange(columns)[None] / columns
    return np.asarray(np.abs(place) <= SAKOE_CHIBA_SHARE)


def warped_distance(a: Floats, b: Floats) -> float:
    """Mean distance along the best path; computed by antidiagonals."""
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    cost = np.where(_band(len(a), len(b)), np.sqrt(np.maximum(squares, 0)), np.inf)
    total = np.full((len(a) + 1, len(b) + 1), np.inf)
    total[0, 0] = 0
    for diagonal in range(2, len(a) + len(b) + 1):
        i = np.arange(max(1, diagonal - len(b)), min(len(a), diagonal - 1) + 1)
        j = diagonal - i
        total[i, j] = cost[i - 1, j - 1] + np.minimum(np.minimum(total[i - 1, j], total[i, j - 1]), total[i - 1, j - 1])
    return float(total[-1, -1]) / (len(a) + len(b))


def nearest(spoken: Floats, recordings: list[Floats]) -> int:
    """The index of the recording that `spoken` [T, 13] is most like."""
    return int(np.argmin([warped_distance(spoken, recording) for recording in recordings]))
