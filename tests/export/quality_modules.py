"""A small model with two layers and a head, its samples, and its quantised graph."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from kazeia.export.qnn_quantize import Inputs, Recipe, quantized
from kazeia.export.quality_case import Case, InputRanges, Output
from kazeia.export.quiet import quiet

WIDTH = 32
LOGITS = (Output("logits", kind="logits"),)


class Small(nn.Module):
    """Two layers and a head; `temperature` is always the same, as a real one is."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(WIDTH, 64)
        self.mix = nn.Linear(64, 64)
        self.head = nn.Linear(64, 40, bias=False)

    def forward(self, x: Tensor, temperature: Tensor) -> Tensor:
        hidden = torch.relu(self.up(x) * temperature)
        logits: Tensor = self.head(torch.relu(self.mix(hidden)) + hidden)
        return logits


def samples(count: int, seed: int, size: float = 1.0) -> list[Inputs]:
    generator = torch.Generator().manual_seed(seed)
    return [(size * torch.randn(1, WIDTH, generator=generator), torch.full((1,), 0.9)) for _ in range(count)]


def overwritten(inputs: list[Inputs]) -> Iterator[Inputs]:
    """The same tensors each time, as a feeder of large ones does it."""
    buffers = tuple(tensor.clone() for tensor in inputs[0])
    for sample in inputs:
        for buffer, tensor in zip(buffers, sample, strict=True):
            buffer.copy_(tensor)
        yield buffers


def quantise(module: nn.Module, inputs: list[Inputs], recipe: Recipe) -> tuple[torch.fx.GraphModule, InputRanges]:
    ranges = InputRanges()
    with quiet():
        return quantized(module, ranges.watch(overwritten(inputs)), recipe), ranges


def small_case(recipe: Recipe, fitting: list[Inputs] | None = None) -> Case:
    module = Small()
    graph, ranges = quantise(module, samples(40, 1) if fitting is None else fitting, recipe)
    return Case(
        "small", "forward", recipe.precision, module, graph, None, lambda: overwritten(samples(24, 2)), LOGITS, recipe, ranges
    )
