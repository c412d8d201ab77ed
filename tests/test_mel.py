"""The mel spectrogram: what a filterbank and a spectrogram must be, and librosa's filterbank where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from kazeia.errors import AudioError
from kazeia.mel import MEL_BINS, SAMPLE_RATE, filterbank, mel_spectrogram


def tone(hz: float, seconds: float = 0.5) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE)).astype(np.float32)


def test_the_filterbank_is_librosas() -> None:
    filters = pytest.importorskip("librosa.filters")
    want = filters.mel(sr=SAMPLE_RATE, n_fft=1024, n_mels=MEL_BINS, fmin=0, fmax=12000)
    np.testing.assert_allclose(filterbank(), want, atol=1e-8)


def test_each_filter_is_a_triangle_between_its_neighbours() -> None:
    filters = filterbank()
    peaks = filters.argmax(1)
    assert (np.diff(peaks) >= 0).all()
    assert filters.min() == 0
    for low, middle, high, weights in zip(peaks, peaks[1:], peaks[2:], filters[1:-1], strict=False):
        outside = np.r_[weights[: max(low - 1, 0)], weights[high + 2 :]]
        assert outside.max(initial=0) == 0
        assert weights[middle] > 0


@pytest.mark.parametrize("hz", [200, 1000, 3000, 9000])
def test_a_tone_is_loudest_in_its_filter(hz: float) -> None:
    mel = mel_spectrogram(tone(hz))
    assert mel.mean(0).argmax() == filterbank()[:, round(hz * 1024 / SAMPLE_RATE)].argmax()


@pytest.mark.parametrize(("samples", "frames"), [(385, 1), (511, 1), (512, 2), (24000, 93), (24000 * 60, 5625)])
def test_one_frame_every_256_samples(samples: int, frames: int) -> None:
    mel = mel_spectrogram(np.zeros(samples, np.float32))
    assert (mel.shape, mel.dtype) == ((frames, MEL_BINS), np.float32)


def test_silence_is_the_floor() -> None:
    np.testing.assert_array_equal(mel_spectrogram(np.zeros(2400, np.float32)), np.float32(np.log(1e-5)))


def test_long_and_short_recordings_agree() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 1100 * 256).astype(np.float32)
    np.testing.assert_allclose(mel_spectrogram(noise)[:90], mel_spectrogram(noise[: 100 * 256])[:90], atol=1e-6)


def test_too_few_samples_to_mirror() -> None:
    with pytest.raises(AudioError, match="needs more than 384 samples, not 384"):
        mel_spectrogram(np.zeros(384, np.float32))
