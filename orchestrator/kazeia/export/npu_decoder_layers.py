"""The speech decoder's layers in the forms the NPU wants: norms of one operator, Snakes with a short argument, finite masks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.export.speech_decoder import Dequantizer, SpeechDecoder
from kazeia.export.streaming_layers import ChannelNorm, RootMeanSquareNorm, Snake
from kazeia.export.window_transformer import Window

UNSEEN = -255.0
"""Added to the scores of frames that a frame must not see; finite in float16."""


class HalfPeriodSnake(nn.Module):
    """`x + c * y * y` with `y = sin(a * x)`: the square has the period pi, so the argument is brought within half of it.

    The HTP's sine loses a digit at arguments around 10, and a quantised one shares its 16 bits among all periods.
    """

    def __init__(self, snake: Snake) -> None:
        super().__init__()
        self.periods = nn.Parameter(snake.frequency / math.pi, requires_grad=False)
        self.amplitude = snake.amplitude

    def forward(self, x: Tensor) -> Tensor:
        turns = x * self.periods
        wave = torch.sin((turns - torch.round(turns)) * math.pi)
        return x + wave * wave * self.amplitude


class NativeChannelNorm(nn.Module):
    """`ChannelNorm` as one operator: the squares of the other form overflow in float16 from 256 on."""

    def __init__(self, norm: ChannelNorm) -> None:
        super().__init__()
        self.channels, self.epsilon = norm.row.shape[1], float(norm.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.squeeze(3).transpose(1, 2)
        return F.layer_norm(rows, (self.channels,), eps=self.epsilon).transpose(1, 2).unsqueeze(3)


class NativeRootMeanSquareNorm(nn.Module):
    """`RootMeanSquareNorm` as one operator, for the same reason; the HTP wants rank 3."""

    def __init__(self, norm: RootMeanSquareNorm) -> None:
        super().__init__()
        self.width, self.epsilon = norm.row.shape[1], float(norm.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x[None], (self.width,), eps=self.epsilon)[0]


def exchange_layers(decoder: SpeechDecoder) -> SpeechDecoder:
    """The decoder with the NPU's forms, in place; it takes codes as int32."""
    for module in list(decoder.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Snake):
                setattr(module, name, HalfPeriodSnake(child))
            elif isinstance(child, ChannelNorm):
                setattr(module, name, NativeChannelNorm(child))
            elif isinstance(child, RootMeanSquareNorm):
                setattr(module, name, NativeRootMeanSquareNorm(child))
        if isinstance(module, Window):
            module.dropped = UNSEEN
            module.band.clamp_(min=UNSEEN)
        elif isinstance(module, Dequantizer):
            module.offsets = module.offsets.int()
    return decoder
