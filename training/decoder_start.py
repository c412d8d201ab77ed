"""A start for the speech decoder: its late stages begin as a linear map, so that its early ones can be taught alone.

At 400 Hz the decoder holds one vector for every 60 samples. The stages after it begin as the exact linear map from the principal
components of such segments back to samples. What remains to be learnt, codes to components, is a regression at 400 Hz that costs
a fifth of the whole decoder and says at once which phase is right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from training.decoder_model import CausalConv, CausalUpsample, ResidualUnit, Snake, SpeechDecoder, UpsamplingBlock

SEGMENT_SAMPLES = 60
FRONT_STAGES = 2
"""Convolution and first upsampling: from 50 Hz to 400 Hz."""
FITTED_SEGMENTS = 60_000
NEARLY_LINEAR = -5.0
"""A Snake's log frequency: over the values here it adds less than a hundredth."""
SPARE = 0.1
"""Factor on the random weights of channels the linear map does not use."""
HUBER_BETA = 0.3
LOUD_SHARE = 0.5
"""Exponent: 0 weighs all components alike, 1 as they are heard without emphasis."""


class Components(NamedTuple):
    """Principal components of segments: basis [60, 60], a component a column; spread [60], their standard deviations."""

    basis: Tensor
    spread: Tensor

    @staticmethod
    def fit(samples: NDArray[np.int16]) -> Components:
        segments = samples[: len(samples) // SEGMENT_SAMPLES * SEGMENT_SAMPLES].reshape(-1, SEGMENT_SAMPLES)
        chosen = np.random.default_rng(0).permutation(len(segments))[:FITTED_SEGMENTS]
        variances, basis = np.linalg.eigh(np.cov(segments[chosen].T / 32767))
        spread = np.sqrt(np.maximum(variances[::-1], 1e-12))
        return Components(torch.from_numpy(basis[:, ::-1].astype(np.float32)), torch.from_numpy(spread.astype(np.float32)))

    def of(self, samples: Tensor) -> Tensor:
        """[B, S] to [B, S / 60, 60], each component in units of its spread."""
        return samples.view(len(samples), -1, SEGMENT_SAMPLES) @ self.basis / self.spread


def make_linear(model: SpeechDecoder, components: Components) -> None:
    """Sets the stages after the first upsampling to the map from components back to samples."""
    taps = (components.basis * components.spread).T  # [component, sample]
    with torch.no_grad():
        for stage in list(model.decoder)[FRONT_STAGES:]:
            if isinstance(stage, UpsamplingBlock):
                taps = _make_block_linear(stage, taps)
            elif isinstance(stage, Snake):
                stage.alpha.fill_(NEARLY_LINEAR)
            elif isinstance(stage, CausalConv):
                stage.conv.weight.zero_()
                stage.conv.weight[0, 0, -1] = 1  # the present sample
                _clear_bias(stage.conv)


def _make_block_linear(block: UpsamplingBlock, taps: Tensor) -> Tensor:
    """Cuts each input's samples [in, n * rate] into `rate` parts; returns the map [n, n] that is left to the stages after."""
    snake, upsample, *units = block.block
    assert isinstance(snake, Snake)
    assert isinstance(upsample, CausalUpsample)
    snake.alpha.fill_(NEARLY_LINEAR)
    rate = upsample.conv.stride[0]
    inputs, samples = taps.shape
    part = samples // rate
    weight = upsample.conv.weight
    weight.mul_(SPARE)
    weight[:, :part] = 0
    weight[:inputs, :part, :rate] = taps.view(inputs, rate, part).transpose(1, 2)
    _clear_bias(upsample.conv)
    for unit in units:
        assert isinstance(unit, ResidualUnit)
        nn.init.zeros_(unit.conv2.conv.weight)
        _clear_bias(unit.conv2.conv)
    return torch.eye(part)


def _clear_bias(conv: nn.Conv1d | nn.ConvTranspose1d) -> None:
    assert conv.bias is not None
    conv.bias.zero_()


def front_loss(model: SpeechDecoder, components: Components, codes: Tensor, target: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """How far the vectors at 400 Hz are from the target's components."""
    made = model.stages(codes, FRONT_STAGES)[:, :SEGMENT_SAMPLES].transpose(1, 2)
    emphasis = (components.spread / components.spread[0]) ** LOUD_SHARE
    counted = weights.view(len(weights), -1, SEGMENT_SAMPLES)[:, :, :1] * emphasis
    distance = F.smooth_l1_loss(made, components.of(target), reduction="none", beta=HUBER_BETA)
    return {"components": (distance * counted).mean()}
