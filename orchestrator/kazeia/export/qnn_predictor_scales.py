"""Which tensors of the code predictor share a scale when it is quantised for the NPU; see `quantized_methods`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem

import torch
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, SharedQuantizationSpec

_ANNOTATION = "quantization_annotation"

_SYMMETRIC = QuantizationSpec(
    dtype=torch.int16,
    quant_min=-(2**15 - 1),
    quant_max=2**15 - 1,
    qscheme=torch.per_tensor_symmetric,
    observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=1e-9),
)


def annotate_frame(graph: torch.fx.GraphModule) -> None:
    """All of the frame's choices."""
    keep_cache_symmetric(graph)
    rank_as_stored(graph)


def keep_cache_symmetric(graph: torch.fx.GraphModule) -> None:
    """Keys (and values) of a layer have one symmetric scale for all tokens: nothing is converted when tokens join."""
    scales: dict[torch.fx.Node, SharedQuantizationSpec] = {}
    for product in graph.graph.nodes:
        matrix = product.args[1] if product.target == torch.ops.aten.matmul.default else None
        if not isinstance(matrix, torch.fx.Node):
            continue
        parts = _joined(matrix)
        known = next((scales[part] for part in parts if part in scales), None)
        if known is not None:
            _annotate(matrix, dict.fromkeys(parts, known), known)
        scales[matrix] = known or SharedQuantizationSpec((matrix, product))
        product.meta[_ANNOTATION].input_qspec_map[matrix] = known or _SYMMETRIC


def _joined(matrix: torch.fx.Node) -> list[torch.fx.Node]:
    """What a matrix was concatenated from."""
    parts = matrix.args[0] if matrix.target == torch.ops.aten.cat.default else []
    return [part for part in parts if isinstance(part, torch.fx.Node)] if isinstance(parts, Sequence) else []


def rank_as_stored(graph: torch.fx.GraphModule) -> None:
    """The best and the k-th logit keep the scale of all logits, so that comparing with them is exact."""
    for node in graph.graph.nodes:
        ranked = node.args[0] if node.target == torch.ops.aten.slice.Tensor else None
        if isinstance(ranked, torch.fx.Node) and ranked.target is getitem:
            shared = SharedQuantizationSpec(ranked)
            _annotate(node, {ranked: shared}, shared)


def _annotate(node: torch.fx.Node, inputs: dict[torch.fx.Node, SharedQuantizationSpec], output: SharedQuantizationSpec) -> None:
    node.meta[_ANNOTATION] = QuantizationAnnotation(input_qspec_map=dict(inputs), output_qspec=output, _annotated=True)
