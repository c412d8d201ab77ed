"""The speaker encoder of the built-in model: random features, and a last layer solved for.

An ECAPA-TDNN with random weights already tells two voices apart; its last convolution is the ridge regression from what it
pools to the embedding the talker learnt for the voice. It knows these two voices and places any other between them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kazeia.checkpoint.config import SpeakerEncoderConfig
from kazeia.export.speaker_encoder import SpeakerEncoder
from kazeia.mel import mel_spectrogram

RIDGE = 1e-2
"""Against the mean square of the pooled features."""

Floats = NDArray[np.float32]


def solve(
    tensor: Callable[[str], Tensor], config: SpeakerEncoderConfig, recordings: list[tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Weight [enc_dim, pooled, 1] and bias [enc_dim] of `fc`.

    Args:
        tensor: the encoder's other tensors, below `speaker_encoder.`.
        recordings: samples [n] at 24 kHz and the embedding [enc_dim] of their voice.
    """
    encoder = SpeakerEncoder(tensor, config)
    pooled: list[Tensor] = []
    encoder.pooling.register_forward_hook(lambda module, inputs, output: pooled.append(output[0, :, 0]))
    with torch.no_grad():
        for samples, _ in recordings:
            encoder(torch.from_numpy(mel_spectrogram(samples))[None])
    x = torch.stack(pooled).double().numpy()
    y = np.stack([embedding for _, embedding in recordings]).astype(np.float64)
    mean = x.mean(0)
    centred = x - mean
    gram = centred.T @ centred + RIDGE * len(x) * (centred**2).mean() * np.eye(x.shape[1])
    weight = np.linalg.solve(gram, centred.T @ (y - y.mean(0))).T
    bias = y.mean(0) - weight @ mean
    return weight[:, :, None].astype(np.float32), bias.astype(np.float32)
