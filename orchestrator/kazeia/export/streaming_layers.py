"""Layers of the speech decoder that work on a stream chunk by chunk, written for XNNPACK.

Time runs backwards inside: index 0 is the newest sample. What a layer must remember of a chunk is then the first samples of
its input, and a slice from the beginning is the only one XNNPACK takes from a tensor of dynamic length; everything stays in
one delegate. Convolution weights are turned round to match.

Sounds have the shape [1, channels, time, 1]: XNNPACK computes convolutions with channels last, where this is a plain matrix
[time, channels], and elementwise operations between convolutions keep that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TensorSource = Callable[[str], Tensor]
"""Gives a float32 tensor of the checkpoint by its name below some prefix."""

TIME = 2
"""The dimension of time in [1, channels, time, 1]."""


class Memory:
    """The states of one call: each layer, in the order of execution, takes its old states and leaves its new ones.

    Every state is a fixed number of past samples, newest first, and all zeros at the beginning of a stream.
    """

    def __init__(self, states: Sequence[Tensor]) -> None:
        self._old = iter(states)
        self.new: list[Tensor] = []

    def extend(self, chunk: Tensor, dim: int) -> Tensor:
        """`chunk` with the next state behind it along `dim`; the newest samples of both become the new state."""
        old = next(self._old)
        whole = torch.cat([chunk, old], dim)
        self.new.append(whole.narrow(dim, 0, old.shape[dim]))
        return whole


class Stateful(nn.Module):
    """A layer that remembers; `state_shapes` are the shapes of its states in the order it takes them."""

    def __init__(self, *state_shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.state_shapes = state_shapes


def state_shapes(module: nn.Module) -> list[tuple[int, ...]]:
    """Shapes of all states in `module`; its parts must be registered in the order of execution."""
    return list(chain.from_iterable(part.state_shapes for part in module.modules() if isinstance(part, Stateful)))


class Kernel(nn.Module):
    """The weight of a convolution and what its input is taken as: both as they are.

    Args:
        weight: [out, in / groups, kernel, 1], or [in, out, kernel, 1] of a transposed one.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = _parameter(weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.weight


class CausalConv(Stateful):
    """Convolution whose output sees `(kernel - 1) * dilation` past samples (`Qwen3TTSTokenizerV2CausalConvNet`, stride 1).

    Args:
        weight: [out, in / groups, kernel], as stored in the checkpoint.
        bias: [out]
    """

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int = 1, groups: int = 1) -> None:
        kernel = weight.shape[2]
        super().__init__((1, weight.shape[1] * groups, (kernel - 1) * dilation, 1))
        self.kernel: nn.Module = Kernel(weight.flip(2).unsqueeze(3))
        self.bias = _parameter(bias)
        self.dilation = (dilation, 1)
        self.groups = groups

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x, weight = self.kernel(memory.extend(x, TIME))
        return F.conv2d(x, weight, self.bias, dilation=self.dilation, groups=self.groups)


class PointwiseConv(nn.Module):
    """The same linear map at every sample.

    Args:
        weight: [out, in]
        bias: [out] or None
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.kernel: nn.Module = Kernel(weight[:, :, None, None])
        self.bias = None if bias is None else _parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        x, weight = self.kernel(x)
        return F.conv2d(x, weight, self.bias)


class Upsample(nn.Module):
    """Transposed convolution with kernel = stride: samples do not overlap, nothing is remembered.

    Args:
        weight: [in, out, stride], as stored in the checkpoint.
        bias: [out]
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.kernel: nn.Module = Kernel(weight.flip(2).unsqueeze(3))
        self.bias = _parameter(bias)
        self.stride = (weight.shape[2], 1)

    def forward(self, x: Tensor) -> Tensor:
        x, weight = self.kernel(x)
        return F.conv_transpose2d(x, weight, self.bias, stride=self.stride)


class OverlappingUpsample(Stateful):
    """Transposed convolution with kernel = 2 * stride (`Qwen3TTSTokenizerV2CausalTransConvNet`): it remembers one sample.

    Padding cuts off the half kernels at both ends: the older end belongs to the previous chunk, the newer to the next.

    Args:
        weight: [in, out, 2 * stride], as stored in the checkpoint.
        bias: [out]
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__((1, weight.shape[0], 1, 1))
        self.kernel: nn.Module = Kernel(weight.flip(2).unsqueeze(3))
        self.bias = _parameter(bias)
        self.stride = (weight.shape[2] // 2, 1)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x, weight = self.kernel(memory.extend(x, TIME))
        return F.conv_transpose2d(x, weight, self.bias, stride=self.stride, padding=(self.stride[0], 0))


class Snake(nn.Module):
    """`x + c * sin(a * x)^2` with `a = exp(alpha)` and `c = 1 / (exp(beta) + 1e-9)` (`SnakeBeta`), computed beforehand.

    Args:
        alpha, beta: [channels]
    """

    def __init__(self, alpha: Tensor, beta: Tensor) -> None:
        super().__init__()
        self.frequency = _parameter(alpha.exp()[None, :, None, None])
        self.amplitude = _parameter((1.0 / (beta.exp() + 1e-9))[None, :, None, None])

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.sin(x * self.frequency)
        return x + wave * wave * self.amplitude


class ChannelNorm(nn.Module):
    """LayerNorm over channels without scale and shift, which the layer behind it absorbs.

    XNNPACK has no LayerNorm and no mean over one dimension: means are convolutions with a constant row.
    """

    row: Tensor
    epsilon: Tensor

    def __init__(self, channels: int, epsilon: float) -> None:
        super().__init__()
        self.register_buffer("row", torch.full((1, channels, 1, 1), 1.0 / channels))
        self.register_buffer("epsilon", torch.tensor([epsilon]))

    def forward(self, x: Tensor) -> Tensor:
        x = x - F.conv2d(x, self.row)
        return x * torch.rsqrt(F.conv2d(x * x, self.row, self.epsilon))


class RootMeanSquareNorm(nn.Module):
    """RMSNorm over the last dimension of [time, width] without scale, which the layer behind it absorbs.

    The mean is a linear layer with a constant row, as in `ChannelNorm`.
    """

    row: Tensor
    epsilon: Tensor

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.register_buffer("row", torch.full((1, width), 1.0 / width))
        self.register_buffer("epsilon", torch.tensor([epsilon]))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(F.linear(x * x, self.row, self.epsilon))


def _parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.contiguous(), requires_grad=False)
