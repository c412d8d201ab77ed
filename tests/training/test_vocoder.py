"""Whole periods in every frame, and a waveform that depends on nothing but the frame."""

from __future__ import annotations

import numpy as np
import pytest

from training.vocoder import BANDS, FRAME_SAMPLES, HOPS_PER_FRAME, SAMPLE_RATE, Features, converted, periods, synthesise


def steady(frames: int, pitch_hz: float, *, voiced: bool = True) -> Features:
    hops = frames * HOPS_PER_FRAME
    envelope = np.tile(np.linspace(-1, -4, BANDS, dtype=np.float32), (hops, 1))
    return Features(envelope, np.zeros((hops, 3), np.float32), np.full(hops, voiced), np.full(hops, pitch_hz, np.float32))


@pytest.mark.parametrize(("pitch_hz", "count"), [(100.0, 8), (104.0, 8), (110.0, 9), (187.5, 15)])
def test_a_frame_holds_the_nearest_whole_number_of_periods(pitch_hz: float, count: int) -> None:
    assert set(periods(steady(3, pitch_hz))) == {count}
    assert set(periods(steady(3, pitch_hz, voiced=False))) == {0}


@pytest.mark.parametrize("voiced", [True, False])
def test_equal_frames_sound_equal(voiced: bool) -> None:
    samples = synthesise(steady(6, 150.0, voiced=voiced)).reshape(6, FRAME_SAMPLES)
    np.testing.assert_allclose(samples[2], samples[4], atol=1e-6)


def test_the_pitch_is_heard_in_the_spectrum() -> None:
    spectrum = np.abs(np.fft.rfft(synthesise(steady(25, 150.0)) * np.hanning(25 * FRAME_SAMPLES)))
    low_hz = np.arange(len(spectrum)) * SAMPLE_RATE / (25 * FRAME_SAMPLES)
    around = (low_hz > 80) & (low_hz < 230)
    assert abs(low_hz[np.argmax(np.where(around, spectrum, 0))] - 150) < 1


def test_no_sound_comes_before_its_frame() -> None:
    features = steady(6, 150.0)
    features.envelope[: 3 * HOPS_PER_FRAME] = -14
    samples = synthesise(features)
    assert np.abs(samples[: 3 * FRAME_SAMPLES - 240]).max() < 1e-4 < np.abs(samples[3 * FRAME_SAMPLES :]).max()


def test_conversion_moves_pitch_and_resonances() -> None:
    features = steady(2, 100.0)
    features.envelope[:] = -6
    features.envelope[:, 20] = 0
    moved = converted(features, 1.5, 1.2)
    assert moved.pitch_hz[0] == pytest.approx(150)
    assert moved.envelope[0].argmax() > 20
