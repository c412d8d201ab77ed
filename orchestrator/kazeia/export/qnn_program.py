"""A model on its way to the NPU: what it is made of, and what became of it, quality report's needs included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from kazeia.export.program import Method
from kazeia.export.progress import Progress, silent
from kazeia.export.qnn_emulator import Emulator
from kazeia.export.qnn_lowering import QnnTarget, QuantizedIo, lower
from kazeia.export.qnn_quantize import Encoding, Inputs, Recipe, input_encodings, quantized_methods


@dataclass(frozen=True)
class QnnSpec:
    """A program for the NPU before quantisation. All methods share one set of scales."""

    name: str
    methods: Mapping[str, Method]
    constants: Mapping[str, int | float]
    samples: Mapping[str, Callable[[], Iterable[Inputs]]]
    """What each method is calibrated on; not looked at for fp16. A sample may be overwritten once the next one is taken."""
    annotate: Callable[[torch.fx.GraphModule], None] | None = None
    """See `quantized_methods`."""
    quantized_io: QuantizedIo | None = None
    """What stays quantised at the border of a quantised program."""


@dataclass(frozen=True)
class QnnBuild:
    """A finished program with what it was made from."""

    spec: QnnSpec
    recipe: Recipe
    graphs: Mapping[str, torch.fx.GraphModule]
    """The quantise-dequantise graph of each method; empty for fp16."""
    program: bytes

    def emulated(self, method: str, inputs: Inputs) -> tuple[Tensor, ...]:
        """Flat outputs of `method` in the emulator for float `inputs`, as the module takes and gives them."""
        io = self.spec.quantized_io
        if io is None or not self.graphs:
            return self._emulator.run(method, inputs)
        encodings = self.encodings(method)
        names = [node.name for node in self.graphs[method].graph.nodes if node.op == "placeholder"]
        leaves = [
            _stored(leaf, encodings[name], io.dtype) if name in encodings else leaf
            for name, leaf in zip(names, tree_leaves(inputs), strict=True)
        ]
        outputs = list(self._emulator.run(method, leaves))
        for index, encoding in zip(sorted(io.outputs), encodings.values(), strict=True):
            outputs[index] = _restored(outputs[index], encoding)
        return tuple(outputs)

    def encodings(self, method: str) -> dict[str, Encoding]:
        """Scale and zero point of the inputs that stay quantised, in their order, which is the outputs' too."""
        assert self.spec.quantized_io is not None
        return input_encodings(self.graphs[method], self.spec.quantized_io.inputs)

    @cached_property
    def _emulator(self) -> Emulator:
        return Emulator(self.program)


def build(spec: QnnSpec, target: QnnTarget, recipe: Recipe, progress: Progress = silent) -> QnnBuild:
    """Quantise and lower.

    Raises:
        ExportError: see `quantized_methods` and `lower`.
    """
    graphs: dict[str, torch.fx.GraphModule] = {}
    if recipe.precision != "fp16":
        with progress(f"{spec.name}: calibrate"):
            modules = {name: method.module for name, method in spec.methods.items()}
            samples = {name: spec.samples[name]() for name in modules}
            graphs = quantized_methods(modules, samples, recipe, target.soc, spec.annotate)
    return lower_build(spec, target, recipe, graphs, progress)


def lower_build(
    spec: QnnSpec,
    target: QnnTarget,
    recipe: Recipe,
    graphs: Mapping[str, torch.fx.GraphModule],
    progress: Progress = silent,
) -> QnnBuild:
    """Lower what has been quantised already."""
    with progress(f"{spec.name}: lower for {target.soc}"):
        methods = {name: (graphs.get(name, method.module), method.inputs) for name, method in spec.methods.items()}
        program = lower(methods, spec.constants, target, recipe, spec.quantized_io if graphs else None)
    return QnnBuild(spec, recipe, graphs, program)


def kept(inputs: Inputs) -> Inputs:
    """A copy of a sample that outlives the next one."""
    copy: Inputs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, inputs)
    return copy


def _stored(values: Tensor, encoding: Encoding, dtype: torch.dtype) -> Tensor:
    limits = torch.iinfo(dtype)
    scale, zero_point = encoding
    return torch.clamp(torch.round(values / scale) + zero_point, limits.min, limits.max).to(dtype)


def _restored(values: Tensor, encoding: Encoding) -> Tensor:
    scale, zero_point = encoding
    return (values.to(torch.int32) - zero_point) * scale
