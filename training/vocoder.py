"""Speech as a spectral envelope and a pitch, and back: WORLD's analysis, and a synthesis whose phase is the frame's own.

A neural decoder that must invent a phase needs days of training. Here every 80 ms frame holds a whole number of equally spaced
pitch periods and the same noise, so that the waveform is a function of the frames alone, can be learned sample by sample, and
needs no look-ahead: every pulse answers with the envelope's minimum-phase response. The price is a pitch in steps of 12.5 Hz.

Analysis: Morise et al., "WORLD: a vocoder-based high-quality speech synthesis system" (2016), through pyworld.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
FRAME_SAMPLES = 1920
HOP_SAMPLES = 240
HOPS_PER_FRAME = FRAME_SAMPLES // HOP_SAMPLES
BANDS = 64
NOISE_EDGES_HZ = (3000.0, 6000.0, 9000.0)
FFT = 1024
BINS = FFT // 2 + 1
FLOOR = -14.0  # natural log of amplitude: silence
MOST_PERIODS = 24


def mel(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mel scale (O'Shaughnessy 1987)."""
    mels: NDArray[np.float64] = 2595 * np.log10(1 + hz / 700)
    return mels


BIN_HZ = np.linspace(0, SAMPLE_RATE / 2, BINS)
BAND_HZ = np.interp(np.linspace(0, mel(BIN_HZ)[-1], BANDS), mel(BIN_HZ), BIN_HZ)


class Features(NamedTuple):
    """What a voice does, every 10 ms.

    envelope: float32 [T, 64], natural log of amplitude at mel-spaced frequencies; noise: float32 [T, 3], share of the amplitude
    that is noise at 3, 6 and 9 kHz; voiced: bool [T]; pitch_hz: float32 [T], interpolated where unvoiced. T is a multiple of 8.
    """

    envelope: NDArray[np.float32]
    noise: NDArray[np.float32]
    voiced: NDArray[np.bool_]
    pitch_hz: NDArray[np.float32]

    @property
    def frames(self) -> int:
        return len(self.envelope) // HOPS_PER_FRAME


def analyse(samples: NDArray[np.float32]) -> Features:
    """Features of `samples` [S], 24 kHz, padded to whole frames."""
    import pyworld

    x = np.pad(samples.astype(np.float64), (0, -len(samples) % FRAME_SAMPLES))
    x += 1e-5 * np.random.default_rng(0).standard_normal(len(x))  # digital silence has no envelope
    pitch, times = pyworld.dio(x, SAMPLE_RATE, f0_floor=60, f0_ceil=400, frame_period=10)
    pitch = pyworld.stonemask(x, pitch, times, SAMPLE_RATE)
    power = pyworld.cheaptrick(x, pitch, times, SAMPLE_RATE, fft_size=FFT)
    aperiodicity = pyworld.d4c(x, pitch, times, SAMPLE_RATE, fft_size=FFT)
    hops = len(x) // HOP_SAMPLES
    log_amplitude = 0.5 * np.log(power[:hops] + 1e-30)
    envelope = np.stack([np.interp(BAND_HZ, BIN_HZ, row) for row in log_amplitude])
    noise = aperiodicity[:hops][:, [round(hz / BIN_HZ[1]) for hz in NOISE_EDGES_HZ]]
    voiced = pitch[:hops] > 0
    return Features(
        np.maximum(envelope, FLOOR).astype(np.float32), noise.astype(np.float32), voiced, _continuous(pitch[:hops], voiced)
    )


def _continuous(pitch: NDArray[np.float64], voiced: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The pitch without the tracker's octave errors, drawn on through unvoiced sounds."""
    if not voiced.any():
        return np.full(len(pitch), 120, np.float32)
    middle = np.median(pitch[voiced])
    sound = voiced & (pitch > 0.6 * middle) & (pitch < 1.5 * middle)
    return np.interp(np.arange(len(pitch)), np.flatnonzero(sound), pitch[sound]).astype(np.float32)


def converted(features: Features, pitch_ratio: float, formant_ratio: float) -> Features:
    """The same words in another voice: pitch and resonances moved by ratios."""
    source = np.interp(BAND_HZ / formant_ratio, BAND_HZ, np.arange(BANDS))
    low = np.floor(source).astype(int).clip(0, BANDS - 2)
    share = (source - low).astype(np.float32)
    envelope = features.envelope[:, low] * (1 - share) + features.envelope[:, low + 1] * share
    return features._replace(envelope=envelope.astype(np.float32), pitch_hz=(features.pitch_hz * pitch_ratio).astype(np.float32))


def periods(features: Features) -> NDArray[np.int64]:
    """[F]: pitch periods in each 80 ms frame; 0 where no hop of the frame is voiced."""
    voiced = features.voiced.reshape(-1, HOPS_PER_FRAME)
    pitch = features.pitch_hz.reshape(-1, HOPS_PER_FRAME)
    mean = (pitch * voiced).sum(1) / np.maximum(voiced.sum(1), 1)
    return np.where(voiced.any(1), np.clip(np.round(mean * 0.08), 1, MOST_PERIODS - 1), 0).astype(np.int64)


NOISE = np.random.default_rng(20).standard_normal(FRAME_SAMPLES)


def _amplitude(envelope: NDArray[np.float32]) -> NDArray[np.float64]:
    """[N, 64] log amplitude at the bands -> [N, 513] amplitude at the bins."""
    rows = [np.interp(BIN_HZ, BAND_HZ, row) for row in envelope.astype(np.float64)]
    amplitude: NDArray[np.float64] = np.exp(np.stack(rows))
    return amplitude


def _noise_share(noise: NDArray[np.float32]) -> NDArray[np.float64]:
    edges = (0.0, *NOISE_EDGES_HZ, SAMPLE_RATE / 2)
    return np.stack([np.interp(BIN_HZ, edges, (0.0, *row, row[-1])) for row in noise.clip(0, 1)])


def _minimum_phase(amplitude: NDArray[np.float64]) -> NDArray[np.complex128]:
    """[N, 513] amplitude -> spectrum of the minimum-phase response with that amplitude, by folding its cepstrum."""
    cepstrum = np.fft.irfft(np.log(amplitude + 1e-12), FFT)
    cepstrum[:, 1 : FFT // 2] *= 2
    cepstrum[:, FFT // 2 + 1 :] = 0
    spectrum: NDArray[np.complex128] = np.exp(np.fft.rfft(cepstrum, FFT))
    return spectrum


def synthesise(features: Features) -> NDArray[np.float32]:
    """Samples [F * 1920] of `features`: pulses and noise, each through the minimum-phase response of its envelope."""
    length = features.frames * FRAME_SAMPLES
    out = np.zeros(length + 2 * FFT)
    amplitude, share = _amplitude(features.envelope), _noise_share(features.noise)
    share[~features.voiced] = 1
    _add_pulses(out, features, amplitude * np.sqrt(1 - share**2))
    _add_noise(out, _minimum_phase(amplitude * share))
    return out[:length].astype(np.float32)


def _add_pulses(out: NDArray[np.float64], features: Features, amplitude: NDArray[np.float64]) -> None:
    places, gains = [], []
    for frame, count in enumerate(periods(features)):
        spacing = FRAME_SAMPLES / max(count, 1)
        places += [frame * FRAME_SAMPLES + (i + 0.5) * spacing for i in range(count)]
        gains += [np.sqrt(spacing)] * int(count)
    where = np.array(places)
    hops = (where // HOP_SAMPLES).astype(int) if len(where) else np.zeros(0, int)
    kept = features.voiced[hops]
    where, hops, gain = where[kept], hops[kept], np.array(gains)[kept] if gains else np.zeros(0)
    shift = np.exp(-2j * np.pi * np.outer(where % 1, np.arange(BINS)) / FFT)
    responses = np.fft.irfft(_minimum_phase(amplitude[hops]) * shift, FFT) * gain[:, None]
    for start, response in zip(where.astype(int), responses, strict=True):
        out[start : start + FFT] += response


def _add_noise(out: NDArray[np.float64], spectra: NDArray[np.complex128]) -> None:
    window = np.hanning(2 * HOP_SAMPLES + 1)[:-1]
    noise = np.concatenate([NOISE, NOISE])
    for hop, spectrum in enumerate(spectra):
        start = hop * HOP_SAMPLES
        piece = noise[start % FRAME_SAMPLES :][: 2 * HOP_SAMPLES] * window
        out[start : start + FFT] += np.fft.irfft(np.fft.rfft(piece, FFT) * spectrum, FFT)
