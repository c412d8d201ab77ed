"""The KV cache of a program for the NPU: of fixed length, kept as the NPU stores it, one scale for what goes in and comes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, SharedQuantizationSpec

from kazeia.export.layers import DecoderShape
from kazeia.export.qnn_layers import MASK_VALUE
from kazeia.export.qnn_lowering import QuantizedIo
from kazeia.export.qnn_quantize import Inputs

CacheBits = Literal[8, 16]

PAST = re.compile(r"past_[kv]_\d+")
"""Names of the inputs that are cache."""

_DTYPES: dict[CacheBits, torch.dtype] = {8: torch.int8, 16: torch.int16}
_ANNOTATION = "quantization_annotation"


class StaticCache:
    """Keys `[1, kv_heads, head_dim, P]` and values `[1, kv_heads, P, head_dim]` of every layer, and the inputs of a step on them;
    what the runner does, in PyTorch."""

    def __init__(self, shape: DecoderShape, past: int, dtype: torch.dtype = torch.float32) -> None:
        self.past, self.used = past, 0
        _, _, _, self._keys, self._values = step_inputs(shape, 0, 1, past, dtype)

    def clear(self) -> None:
        """Forget all tokens; a row not in use is zero."""
        self.used = 0
        for tensor in (*self._keys, *self._values):
            tensor.zero_()

    def inputs(self, embeds: Tensor, tokens: int) -> Inputs:
        """Arguments of `StaticStack.forward` for `embeds` `[rows, D]`, right-aligned in a chunk of `tokens`: pad rows come first,
        see only themselves and are seen by nobody. They repeat the first row, as a norm of nothing but zeros is noise on the HTP.
        The cache is not copied."""
        rows = len(embeds)
        pad = tokens - rows
        positions = torch.zeros(tokens, dtype=torch.int32)
        positions[pad:] = torch.arange(self.used, self.used + rows)
        keep = torch.zeros(tokens, self.past + tokens, dtype=torch.bool)
        keep[pad:, : self.used] = True
        keep[:, self.past :] = torch.eye(tokens, dtype=torch.bool)
        keep[pad:, self.past + pad :] = torch.ones(rows, rows, dtype=torch.bool).tril()
        mask = torch.where(keep, 0.0, MASK_VALUE)[None]
        chunk = torch.cat([embeds[:1].expand(pad, -1), embeds])[None]
        return chunk, positions, mask, self._keys, self._values

    def append(self, new_k: Sequence[Tensor], new_v: Sequence[Tensor], rows: int) -> None:
        """Store the last `rows` of a step's new keys and values."""
        stop = self.used + rows
        for keys, values, k, v in zip(self._keys, self._values, new_k, new_v, strict=True):
            keys[..., self.used : stop] = k[..., -rows:]
            values[:, :, self.used : stop] = v[:, :, -rows:]
        self.used = stop


class CacheAnnotation:
    """Makes past, new and joined keys (or values) one tensor to the quantiser: signed, symmetric, of so many bits.

    Symmetric because the HTP multiplies by such a matrix as it is, and because a zeroed cache then holds zeros.
    """

    def __init__(self, bits: CacheBits) -> None:
        limit = 2 ** (bits - 1) - 1
        self._spec = QuantizationSpec(
            dtype=_DTYPES[bits],
            quant_min=-limit,
            quant_max=limit,
            qscheme=torch.per_tensor_symmetric,
            observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=1e-9),
        )

    def __call__(self, graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            joined = node.args[1] if node.target == torch.ops.aten.matmul.default else None
            if isinstance(joined, torch.fx.Node) and joined.target == torch.ops.aten.cat.default:
                self._annotate(node, joined)

    def _annotate(self, product: torch.fx.Node, joined: torch.fx.Node) -> None:
        past, new = joined.args[0]  # type: ignore[misc,str-unpack]
        shared = SharedQuantizationSpec((past, joined))
        joined.meta[_ANNOTATION] = QuantizationAnnotation(
            input_qspec_map={past: self._spec, new: shared}, output_qspec=shared, _annotated=True
        )
        product.meta[_ANNOTATION].input_qspec_map[joined] = shared
        for user in joined.users:
            if user is not product:
                user.meta[_ANNOTATION] = QuantizationAnnotation(
                    input_qspec_map={joined: shared}, output_qspec=shared, _annotated=True
                )


def step_inputs(shape: DecoderShape, width: int, tokens: int, past: int, dtype: torch.dtype = torch.float32) -> Inputs:
    """Zeros of the shapes that `StaticStack.forward` takes for T = `tokens` and P = `past`; `dtype` is the cache's."""
    return (
        torch.zeros(1, tokens, width),
        torch.zeros(tokens, dtype=torch.int32),
        torch.zeros(1, tokens, past + tokens),
        [torch.zeros(1, shape.kv_heads, shape.head_dim, past, dtype=dtype) for _ in range(shape.layers)],
        [torch.zeros(1, shape.kv_heads, past, shape.head_dim, dtype=dtype) for _ in range(shape.layers)],
    )


def cache_io(shape: DecoderShape, results: int, bits: CacheBits) -> QuantizedIo:
    """Cache inputs and outputs of a quantised step stay integers; `results` outputs come before the cache's."""
    return QuantizedIo(_DTYPES[bits], PAST, range(results, results + 2 * shape.layers))
