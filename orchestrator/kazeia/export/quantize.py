"""Weight quantisation of linear layers with dynamic 8-bit activations, in the forms XNNPACK has kernels for.

8da8w: 8-bit weights, one scale per output channel. 4 bits: one scale per group of 32 inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import nn
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_

from kazeia.errors import ExportError

GROUP_SIZE = 32
"""Inputs that share one scale at 4 bits; XNNPACK takes multiples of 32."""


def quantize(modules: Iterable[nn.Module], quant: Literal["8da8w", "8da4w"], eight_bit: frozenset[str]) -> None:
    """Quantise the linear layers of `modules` in place; a module that occurs twice is quantised once.

    Layers whose own name is in `eight_bit` keep 8-bit weights under 8da4w.

    Raises:
        ExportError: a layer's width does not fit the groups of 8da4w.
    """
    for module in {id(module): module for module in modules}.values():
        _quantize_module(module, quant, eight_bit)


def _quantize_module(module: nn.Module, quant: Literal["8da8w", "8da4w"], eight_bit: frozenset[str]) -> None:
    linears = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    four = {name for name in linears if quant == "8da4w" and name.rpartition(".")[2] not in eight_bit}
    for name in sorted(four):
        if linears[name].in_features % GROUP_SIZE:
            raise ExportError(
                f"8da4w needs widths in multiples of {GROUP_SIZE}; {name} has {linears[name].in_features}: use --quant 8da8w"
            )
    per_channel = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0))
    int4: torch.dtype = torch.int4  # type: ignore[attr-defined]  # missing in torch's stubs
    grouped = Int8DynamicActivationIntxWeightConfig(weight_dtype=int4, weight_granularity=PerGroup(GROUP_SIZE))
    quantize_(module, per_channel, filter_fn=lambda layer, name: name in linears and name not in four)
    quantize_(module, grouped, filter_fn=lambda layer, name: name in four)
