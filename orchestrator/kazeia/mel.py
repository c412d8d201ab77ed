"""The mel spectrogram the speaker encoder hears, in numpy (reference `mel_spectrogram` of `modeling_qwen3_tts.py`)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import AudioError

SAMPLE_RATE = 24000
"""Samples per second (reference `extract_speaker_embedding`)."""

FFT_SAMPLES = 1024
HOP_SAMPLES = 256
MEL_BINS = 128
LOWEST_HZ = 0.0
HIGHEST_HZ = 12000.0

POWER_FLOOR = 1e-9
"""Added to the squared magnitude."""

MAGNITUDE_FLOOR = 1e-5
"""Least mel magnitude that is told apart; log of it is the value of silence, -11.5."""

BLOCK_FRAMES = 1024
"""Frames transformed at a time, so that a long recording needs little memory."""

Floats = NDArray[np.float32]


def mel_spectrogram(samples: Floats) -> Floats:
    """Log mel magnitudes, one frame every 256 samples.

    Args:
        samples: [n] at 24 kHz, within -1 and 1; n must be more than the 384 samples that are mirrored at each end.

    Returns:
        [n // 256, 128], natural logarithms.

    Raises:
        AudioError: too few samples.
    """
    margin = (FFT_SAMPLES - HOP_SAMPLES) // 2
    if samples.size <= margin:
        raise AudioError(f"a mel spectrogram needs more than {margin} samples, not {samples.size}; record longer")
    padded = np.pad(np.asarray(samples, np.float64), margin, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SAMPLES) / FFT_SAMPLES)
    mel = np.empty((len(frames), MEL_BINS), np.float32)
    for begin in range(0, len(frames), BLOCK_FRAMES):
        spectrum = np.fft.rfft(frames[begin : begin + BLOCK_FRAMES] * window)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + POWER_FLOOR)
        mel[begin : begin + BLOCK_FRAMES] = np.log(np.maximum(magnitude @ filterbank().T, MAGNITUDE_FLOOR))
    return mel


@cache
def filterbank() -> Floats:
    """Triangular filters [128, 513] on Slaney's mel scale, each with an area of one (as `librosa.filters.mel` makes them)."""
    bins_hz = np.linspace(0, SAMPLE_RATE / 2, FFT_SAMPLES // 2 + 1)
    corners_hz = _mel_to_hz(np.linspace(_hz_to_mel(LOWEST_HZ), _hz_to_mel(HIGHEST_HZ), MEL_BINS + 2))
    widths_hz = np.diff(corners_hz)[:, None]
    distances_hz = corners_hz[:, None] - bins_hz
    rising, falling = -distances_hz[:-2] / widths_hz[:-1], distances_hz[2:] / widths_hz[1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * (2.0 / (corners_hz[2:] - corners_hz[:-2]))[:, None]).astype(np.float32)


# Slaney's scale: linear up to 1,000 Hz, then logarithmic with 27 steps for a factor of 6.4.
_HZ_PER_MEL = 200.0 / 3.0
_BEND_HZ = 1000.0
_BEND_MEL = _BEND_HZ / _HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


def _hz_to_mel(hz: float) -> float:
    return float(_BEND_MEL + np.log(hz / _BEND_HZ) / _LOG_STEP) if hz >= _BEND_HZ else hz / _HZ_PER_MEL


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    bent: NDArray[np.float64] = _BEND_HZ * np.exp(_LOG_STEP * (mel - _BEND_MEL))
    return np.where(mel >= _BEND_MEL, bent, mel * _HZ_PER_MEL)
