"""Convolutions with 8-bit weights and dynamic 8-bit activations, in the form XNNPACK has kernels for.

Weights have a scale for each output channel, activations one for the whole chunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  # registers quantized_decomposed

from kazeia.export.speech_decoder import Dequantizer
from kazeia.export.streaming_layers import CausalConv, Kernel, OverlappingUpsample, PointwiseConv

LEAST_CHANNELS = 128
"""Convolutions with fewer inputs or outputs are close to the sound, and weigh little: they stay as they are."""
SMALLEST_SCALE = torch.finfo(torch.float32).eps
BITS8: tuple[Any, ...] = (-128, 127)
WEIGHT_LIMIT = 127

_ops = torch.ops.quantized_decomposed


class QuantizedKernel(nn.Module):
    """A `Kernel` whose weight and input are what 8 bits leave of them.

    Args:
        weight: as of `Kernel`.
        axis: the dimension of its output channels.
    """

    integers: Tensor
    scales: Tensor
    zeros: Tensor

    def __init__(self, weight: Tensor, axis: int) -> None:
        super().__init__()
        rows = weight.transpose(0, axis).flatten(1)
        scales = rows.abs().amax(1).clamp(min=SMALLEST_SCALE) / WEIGHT_LIMIT
        shape = [1] * weight.dim()
        shape[axis] = -1
        self.axis = axis
        self.register_buffer("integers", torch.round(weight / scales.view(shape)).to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros_like(scales, dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale, zero = _ops.choose_qparams.tensor(x, *BITS8, SMALLEST_SCALE, torch.int8)
        rounded = _ops.quantize_per_tensor.tensor(x, scale, zero, *BITS8, torch.int8)
        x = _ops.dequantize_per_tensor.tensor(rounded, scale, zero, *BITS8, torch.int8)
        weight = _ops.dequantize_per_channel.default(
            self.integers, self.scales, self.zeros, self.axis, -WEIGHT_LIMIT, WEIGHT_LIMIT, torch.int8
        )
        return x, cast(Tensor, weight)


def quantize_kernels(modules: Iterable[nn.Module]) -> None:
    """Quantise the wide convolutions of `modules` in place.

    What reads a table's rows or the transformer's stays: ExecuTorch 1.5.1 cannot lower a quantisation at a delegate's edge.
    """
    parts = {part for module in modules for part in module.modules()}
    kept = {child for part in parts if isinstance(part, Dequantizer) for child in part.children()}
    for layer in parts - kept:
        if not isinstance(layer, CausalConv | PointwiseConv | OverlappingUpsample):
            continue
        kernel = layer.kernel
        grouped = isinstance(layer, CausalConv) and layer.groups > 1
        if isinstance(kernel, Kernel) and not grouped and min(kernel.weight.shape[:2]) >= LEAST_CHANNELS:
            layer.kernel = QuantizedKernel(kernel.weight.detach(), axis=1 if isinstance(layer, OverlappingUpsample) else 0)
