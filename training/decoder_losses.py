"""How far a decoder's sound is from the sound of the codes: as waves, as spectra, and as a recogniser hears it.

What decides whether speech is understood is faint: consonants lie 20 to 50 dB below the loudest sounds, where comparing samples
hardly notices an error. So spectra are compared on a logarithmic scale, and all over the mel scale: of a spectrum's bins two
thirds are above 4 kHz.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from training.vocoder import SAMPLE_RATE, mel

RESOLUTIONS = (128, 256, 512, 1024, 2048)
COMPLEX_RESOLUTIONS = (256, 1024)
MEL_RESOLUTIONS = (600, 1536)
"""25 ms, as a recogniser hears, and one that tells harmonics apart."""
MEL_BANDS, HIGHEST_MEL_HZ = 80, np.float64(8000)
PREEMPHASIS = 0.9
LEVEL = 0.1
"""A tenth of full scale is the unit of the sample-wise loss."""
SAMPLES_WEIGHT, COMPLEX_WEIGHT, MAGNITUDE_WEIGHT, MEL_WEIGHT = 0.5, 8.0, 1.0, 1.0
FAINT_AMPLITUDE, FAINT_POWER, COMPRESSED_FROM = 3e-4, 1e-7, 1e-3
"""Of a spectrum in units of the square root of its size, or of its size: what lies below is silence."""


def losses(made: Tensor, target: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Terms to minimise for samples `made` and `target` [B, S]; `weights` [B, S] are zero where nothing is asked."""
    made, target = made * weights, target * weights
    sharp_made, sharp = (x[:, 1:] - PREEMPHASIS * x[:, :-1] for x in (made, target))
    samples = (F.l1_loss(made, target) + 4 * F.l1_loss(sharp_made, sharp)) / LEVEL
    magnitude = torch.stack([_magnitude_loss(sharp_made, sharp, size) for size in RESOLUTIONS]).mean()
    waves = torch.stack([_complex_loss(sharp_made, sharp, size) for size in COMPLEX_RESOLUTIONS]).mean()
    heard = torch.stack([_mel_loss(made, target, size) for size in MEL_RESOLUTIONS]).mean()
    weighted = {"samples": SAMPLES_WEIGHT * samples, "complex": COMPLEX_WEIGHT * waves}
    return weighted | {"magnitude": MAGNITUDE_WEIGHT * magnitude, "mel": MEL_WEIGHT * heard}


def spectra(x: Tensor, size: int, hop: int) -> Tensor:
    """[B, bins, T], complex, in units of the square root of `size`."""
    found: Tensor = torch.stft(x, size, hop, window=torch.hann_window(size), return_complex=True)
    return found / math.sqrt(size)


def _magnitude_loss(made: Tensor, target: Tensor, size: int) -> Tensor:
    found, wanted = ((spectra(x, size, size // 4).abs() + FAINT_AMPLITUDE).log() for x in (made, target))
    return (_mel_density(size) * (found - wanted).abs()).mean()


def _complex_loss(made: Tensor, target: Tensor, size: int) -> Tensor:
    """Of spectra with their phases, their amplitudes compressed to square roots."""
    found, wanted = (x * (x.abs() + COMPRESSED_FROM).rsqrt() for x in (spectra(y, size, size // 4) for y in (made, target)))
    apart = found - wanted
    return (_mel_density(size) * (apart.real.abs() + apart.imag.abs())).mean()


def _mel_loss(made: Tensor, target: Tensor, size: int) -> Tensor:
    filters = mel_filters(size)
    found, wanted = ((filters @ spectra(x, size, size * 2 // 5).abs().square() + FAINT_POWER).log() for x in (made, target))
    return F.l1_loss(found, wanted)


def _bins_hz(size: int) -> NDArray[np.float64]:
    return np.linspace(0, SAMPLE_RATE / 2, size // 2 + 1)


@cache
def _mel_density(size: int) -> Tensor:
    """[bins, 1]: how much of the mel scale a bin covers, 1 on average."""
    density = 1 / (1 + _bins_hz(size) / 700)  # mel's derivative
    return torch.from_numpy(density / density.mean()).float()[:, None]


@cache
def mel_filters(size: int) -> Tensor:
    """[80, bins]: triangles that overlap by half, equally wide on the mel scale, each with sum 1."""
    mels, edges = mel(_bins_hz(size)), np.linspace(0, mel(HIGHEST_MEL_HZ), MEL_BANDS + 2)
    width = edges[1]
    triangles = np.minimum((mels - edges[:-2, None]) / width, (edges[2:, None] - mels) / width).clip(min=0)
    return torch.from_numpy(triangles / triangles.sum(1, keepdims=True).clip(min=1e-6)).float()
