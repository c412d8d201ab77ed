"""What each layer of a quantised graph loses, operator by operator, against the same operators in float.

The quantised graph keeps the names of the float graph's operators, so values are compared by name. A layer's own loss is
measured with float inputs: each operator's value is replaced by the float one before the next operator sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.quality_measures import ratio_db
from kazeia.quality import LayerQuality

ROOT = "(top)"
"""Operators outside of any submodule."""

_MOVES = re.compile(r"aten\.(view|reshape|transpose|permute|slice|select|expand|squeeze|unsqueeze|contiguous|clone|cat|alias)\b")
"""Operators that only move values: what they seem to lose was lost before them."""


@dataclass
class _Power:
    """Signal and error power of an operator, over all calls."""

    signal: float = 0.0
    own_error: float = 0.0
    error: float = 0.0

    def add(self, wanted: Tensor, own: Tensor, got: Tensor) -> None:
        self.signal += _power(wanted)
        self.own_error += _power(own - wanted)
        self.error += _power(got - wanted)


@dataclass
class _Layer:
    """The operators of a module, in order."""

    weighted: bool = False
    operators: list[_Power] = field(default_factory=list)


class LayerMeter:
    """Adds up what the layers of a graph lose, call by call.

    Args:
        module: what `graph` is the quantised form of.
        example: arguments of `forward`.
    """

    def __init__(self, module: nn.Module, graph: torch.fx.GraphModule, example: Inputs) -> None:
        with torch.no_grad():
            self._reference = torch.export.export(module.eval(), example, strict=False).module()
        self._graph = graph
        self._powers: dict[str, _Power] = {}

    @torch.no_grad()
    def add(self, sample: Inputs) -> None:
        """One call."""
        wanted = _Recorder(self._reference).values(sample)
        own = _Recorder(self._graph, wanted).values(sample)
        got = _Recorder(self._graph).values(sample)
        for name in wanted.keys() & got.keys():
            if wanted[name].shape == got[name].shape:
                self._powers.setdefault(name, _Power()).add(wanted[name], own[name], got[name])

    def layers(self, recipe: Recipe) -> list[LayerQuality]:
        """Every module that computes something, in order of execution."""
        layers: dict[str, _Layer] = {}
        for node in self._graph.graph.nodes:
            if node.name in self._powers and not _MOVES.search(str(node.target)):
                layer = layers.setdefault(module_name(node), _Layer())
                layer.operators.append(self._powers[node.name])
                layer.weighted |= _has_weights(node)
        return [_quality(name, layer, recipe) for name, layer in layers.items()]


def module_name(node: torch.fx.Node) -> str:
    """The innermost module an operator belongs to, as `stack.layers.3.mlp.down_proj`."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) or ROOT if stack else ROOT


def precision_of(name: str, recipe: Recipe) -> str:
    """The precision a recipe gives to a module: that of the first pattern that matches it or a module around it."""
    parts = name.split(".")
    around = [".".join(parts[: end + 1]) for end in range(len(parts))]
    for pattern, precision in recipe.overrides:
        if any(re.search(pattern, one) for one in around):
            return precision
    return recipe.precision


class _Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps each operator's float output; with `replacements`, later operators see those instead."""

    def __init__(self, graph: torch.fx.GraphModule, replacements: dict[str, Tensor] | None = None) -> None:
        super().__init__(graph)
        self._replacements = replacements or {}
        self._kept: dict[str, Tensor] = {}

    def values(self, sample: Inputs) -> dict[str, Tensor]:
        self.run(*tree_leaves(sample))
        return self._kept

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "call_function" or not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if "quantize" in str(n.target):
            return value
        self._kept[n.name] = value
        return self._replacements.get(n.name, value)


def _quality(name: str, layer: _Layer, recipe: Recipe) -> LayerQuality:
    own = min(ratio_db(one.signal, one.own_error) for one in layer.operators)
    last = layer.operators[-1]
    precision = precision_of(name, recipe)
    # A recipe names modules: it cannot give bits to what is in none.
    return LayerQuality(name, precision, own, ratio_db(last.signal, last.error), layer.weighted and name != ROOT)


def _has_weights(node: torch.fx.Node) -> bool:
    """Does one of its inputs come, perhaps through a conversion, from a parameter or buffer?"""
    return any(_is_constant(source) for source in _sources(node.all_input_nodes))


def _sources(nodes: Iterable[torch.fx.Node]) -> Iterable[torch.fx.Node]:
    for node in nodes:
        while node.op == "call_function" and "quantize" in str(node.target):
            node = node.all_input_nodes[0]
        yield node


def _is_constant(node: torch.fx.Node) -> bool:
    return node.op == "get_attr"


def _power(values: Tensor) -> float:
    return float(values.double().square().sum())
