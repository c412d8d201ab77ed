"""Post-training quantisation for the NPU: observe what a module really sees, then fix scales. Runs in PyTorch alone.

The result is the quantise-dequantise graph: what the NPU shall compute, executable here, so that faults of calibration (float
against this graph) and faults of lowering (this graph against the emulator) can be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from executorch.backends.qualcomm.quantizer.quantizer import ModuleQConfig, QnnQuantizer, QuantDtype
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from torch import Tensor, nn
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from kazeia.errors import ExportError
from kazeia.qnn_sdk import keep_executorch_offline

Precision: TypeAlias = Literal["fp16", "16a16w", "16a8w", "16a4w"]
"""fp16, or bits of activations (a) and of weights (w)."""

_DTYPES = {"16a16w": QuantDtype.use_16a16w, "16a8w": QuantDtype.use_16a8w, "16a4w": QuantDtype.use_16a4w}

Inputs: TypeAlias = tuple[Any, ...]
"""Arguments of a module's `forward`; nested lists are flattened in order into the method's inputs."""


@dataclass(frozen=True)
class Recipe:
    """How precise a program is: one precision for all, and exceptions for modules whose name (as `layers.3.mlp.down_proj`)
    matches a regular expression; the first match counts."""

    precision: Precision
    overrides: tuple[tuple[str, Precision], ...] = ()


class Encoding(NamedTuple):
    """`value = (stored - zero_point) * scale`"""

    scale: float
    zero_point: int


def quantized(
    module: nn.Module,
    samples: Iterable[Inputs],
    recipe: Recipe,
    soc: str = "SM8750",
    annotate: Callable[[torch.fx.GraphModule], None] | None = None,
) -> torch.fx.GraphModule:
    """The quantise-dequantise graph of `module` after it has seen `samples`; shapes are those of the first sample.

    Raises:
        ExportError: no samples, values that are not finite, or an operator that the recipe cannot quantise.
    """
    return quantized_methods({"forward": module}, {"forward": samples}, recipe, soc, annotate)["forward"]


def quantized_methods(
    modules: Mapping[str, nn.Module],
    samples: Mapping[str, Iterable[Inputs]],
    recipe: Recipe,
    soc: str = "SM8750",
    annotate: Callable[[torch.fx.GraphModule], None] | None = None,
) -> dict[str, torch.fx.GraphModule]:
    """Graphs of one module at several shapes, with ONE set of scales, so that what one method stores the others can read.

    Args:
        modules: by method name; usually the same module several times. Their graphs must have the same operators in order.
        samples: what each is calibrated on; a method with a single sample is fine where another one has many.
        annotate: changes the quantiser's choices on the graph, before observers are inserted.

    Raises:
        ExportError: as `quantized`, or graphs that differ.
    """
    prepared: dict[str, torch.fx.GraphModule] = {}
    for name, module in modules.items():
        iterator = iter(samples[name])
        first = next(iterator, None)
        if first is None:
            raise ExportError(f"there is no calibration sample for method {name}; run kz calibrate first")
        prepared[name] = _prepare(module, first, recipe, soc, annotate)
        _observe(prepared[name], name, first)
        for sample in iterator:
            _observe(prepared[name], name, sample)
    _share_observations(prepared)
    return {name: convert_pt2e(graph) for name, graph in prepared.items()}


def input_encodings(graph: torch.fx.GraphModule, names: re.Pattern[str]) -> dict[str, Encoding]:
    """Scale and zero point of each input of a quantised graph whose name matches."""
    found = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder" and names.fullmatch(node.name):
            quantize = next((user for user in node.users if "quantize_per_tensor" in str(user.target)), None)
            if quantize is None:
                raise ExportError(f"input {node.name} is not quantised; choose another --quant")
            found[node.name] = Encoding(float(quantize.args[1]), int(quantize.args[2]))
    return found


def _prepare(
    module: nn.Module,
    example: Inputs,
    recipe: Recipe,
    soc: str,
    annotate: Callable[[torch.fx.GraphModule], None] | None,
) -> torch.fx.GraphModule:
    quantizer = _quantizer(recipe, soc)
    if annotate is not None:
        quantizer.add_custom_quant_annotations([annotate])
    with torch.no_grad():
        graph = torch.export.export(module.eval(), example, strict=False).module()
        prepared: torch.fx.GraphModule = prepare_pt2e(graph, quantizer)
    return prepared


def _quantizer(recipe: Recipe, soc: str) -> Any:
    if recipe.precision == "fp16":
        raise ExportError("fp16 is not quantised; lower the module itself")
    keep_executorch_offline()
    quantizer = QnnQuantizer(soc_model=QcomChipset[soc])
    quantizer.set_default_quant_config(_DTYPES[recipe.precision], **_PER_CHANNEL)
    quantizer.set_submodule_qconfig_list(
        [(_named(pattern), ModuleQConfig(_DTYPES[precision], **_PER_CHANNEL)) for pattern, precision in recipe.overrides]
    )
    return quantizer


_PER_CHANNEL: dict[str, Any] = {
    "is_conv_per_channel": True,
    "is_linear_per_channel": True,
    # Plain extremes: independent of the samples' order, and those of several graphs can be united.
    "act_observer": MinMaxObserver,
}


def _named(pattern: str) -> Callable[[torch.fx.Node], bool]:
    """Does a node belong to a module whose name matches?"""
    compiled = re.compile(pattern)

    def matches(node: torch.fx.Node) -> bool:
        stack = node.meta.get("nn_module_stack") or {}
        return any(compiled.search(name) for name, _ in stack.values())

    return matches


def _observe(graph: torch.fx.GraphModule, method: str, sample: Inputs) -> None:
    """Run one sample through the observers."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(sample) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves):
        raise ExportError(f"a calibration sample for {method} has values that are not finite; run kz calibrate again")
    with torch.no_grad():
        graph(*sample)


def _share_observations(prepared: Mapping[str, torch.fx.GraphModule]) -> None:
    """Give every observer the extremes that its namesakes of the other graphs saw too."""
    if len(prepared) < 2:
        return
    observers = {name: _observers(graph) for name, graph in prepared.items()}
    first, *others = observers.values()
    for other in others:
        if list(other) != list(first):
            raise ExportError("the methods of this program do not have the same operators; they cannot share scales")
    for name, observer in first.items():
        group = [observer, *(other[name] for other in others)]
        low = torch.stack([one.min_val for one in group]).amin(0)
        high = torch.stack([one.max_val for one in group]).amax(0)
        for one in group:
            one.min_val.copy_(low)
            one.max_val.copy_(high)


def _observers(graph: torch.fx.GraphModule) -> dict[str, Any]:
    return {name: module for name, module in graph.named_modules() if hasattr(module, "min_val")}
