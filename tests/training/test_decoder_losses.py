"""What the speech decoder is judged by while it learns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from training.decoder_losses import losses, mel_filters
from training.vocoder import SAMPLE_RATE

SAMPLES = SAMPLE_RATE // 2


def tone(hz: float, amplitude: float) -> Tensor:
    return amplitude * torch.sin(2 * np.pi * hz / SAMPLE_RATE * torch.arange(SAMPLES))[None]


def test_the_same_sound_costs_nothing() -> None:
    sound = tone(300, 0.1)
    assert all(float(term) == 0 for term in losses(sound, sound.clone(), torch.ones_like(sound)).values())


def test_nothing_is_asked_where_the_weights_are_zero() -> None:
    sound, weights = tone(300, 0.1), torch.ones(1, SAMPLES)
    weights[:, : SAMPLES // 2] = 0
    other = torch.where(weights > 0, sound, tone(900, 0.2))
    assert all(float(term) == 0 for term in losses(other, sound, weights).values())


def test_what_is_faint_counts_in_the_spectra_and_hardly_in_the_samples() -> None:
    loud, faint = tone(300, 0.1), tone(2500, 0.001)
    terms = losses(loud, loud + faint, torch.ones_like(loud))
    absent = losses(loud * 0, loud + faint, torch.ones_like(loud))
    share = {name: float(terms[name] / absent[name]) for name in terms}
    assert share["samples"] < 0.03
    assert min(share["mel"], share["magnitude"]) > 0.05


def test_a_moved_phase_costs_samples_and_hardly_any_magnitude() -> None:
    sound = tone(1000, 0.1)
    moved = torch.roll(sound, SAMPLE_RATE // 1000 // 4, 1)
    terms = losses(moved[:, 100:], sound[:, 100:], torch.ones(1, SAMPLES - 100))
    assert float(terms["mel"] + terms["magnitude"]) < 0.2 * float(terms["samples"] + terms["complex"])


def test_mel_filters_share_the_band_out_evenly() -> None:
    filters = mel_filters(1536)
    assert filters.shape == (80, 769)
    torch.testing.assert_close(filters.sum(1), torch.ones(80))
    middles = (filters * (torch.arange(769) * (SAMPLE_RATE / 1536))).sum(1)
    assert (middles.diff() > 0).all()
    assert middles[-1] < 8000
