"""The decoder layers that the talker and the code predictor share, shaped so that XNNPACK takes a whole stack as one delegate.

Where they part from the reference (`Qwen3TTSTalkerDecoderLayer`, `Qwen3TTSDecoderLayer`) it is in form, not in result: the mean
of RMSNorm is a product with a constant row (`mean` is not delegated), q, k and v are one product, as are gate and up, and query
heads of one KV head are rows of one batched product, so nothing is repeated. M-RoPE with equal position streams is ordinary rope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, silu

from kazeia.checkpoint.config import CodePredictorConfig, TalkerConfig
from kazeia.errors import ExportError
from kazeia.export.program import Method

Weights = Callable[[str], Tensor]
"""Tensor of a full checkpoint key, float32; `Checkpoint.tensor`."""

MASK_VALUE = -1e9
"""Added to the scores of columns a row must not see; finite, so that a row that sees nothing stays finite."""


@dataclass(frozen=True)
class DecoderShape:
    """What the layers of a stack need to know of `talker_config` or `code_predictor_config`; sizes in elements."""

    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    bias: bool

    @classmethod
    def of(cls, config: TalkerConfig | CodePredictorConfig) -> DecoderShape:
        """Raises ExportError for what the released models never use and these layers do not do."""
        rope_type = config.rope_scaling.rope_type if config.rope_scaling else "default"
        if config.hidden_act != "silu" or rope_type != "default" or config.use_sliding_window:
            raise ExportError(
                f"cannot export hidden_act {config.hidden_act!r} with rope type {rope_type!r} and use_sliding_window "
                f"{str(config.use_sliding_window).lower()}; only silu, default and false work: use an official checkpoint"
            )
        return cls(
            intermediate=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            theta=float(config.rope_theta),
            bias=config.attention_bias,
        )


def load_linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer around `weight [out, in]` without copying it."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


class RMSNorm(nn.Module):
    """`x / sqrt(mean(x^2) + eps) * weight` over the last dimension (reference `Qwen3TTSRMSNorm`)."""

    mean: Tensor

    def __init__(self, weight: Tensor, eps: float) -> None:
        """weight `[D]`, or `[rows, D]` for one weight a row of the last two dimensions."""
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.eps = eps
        self.register_buffer("mean", torch.full((1, weight.shape[-1]), 1.0 / weight.shape[-1]))

    def normalize(self, x: Tensor) -> Tensor:
        """Without the weight. Rank 3 at most: the HTP gets larger ranks wrong."""
        return x * torch.rsqrt(linear(x * x, self.mean) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.normalize(x) * self.weight


class RopeTable(nn.Module):
    """Cosine and signed sine of every position, in one table `[positions, 2 * head_dim]`, so that a step is one lookup.

    The sine's first half is negated: rotating is then a swap of halves, without a negation.
    """

    table: Tensor

    def __init__(self, positions: int, head_dim: int, theta: float) -> None:
        super().__init__()
        self.head_dim = head_dim
        frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
        angle = torch.arange(positions).float()[:, None] * frequency[None]
        cos, sin = angle.cos(), angle.sin()
        self.register_buffer("table", torch.cat([cos, cos, -sin, sin], -1))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Positions `[T]` to cosine and signed sine, both `[1, T, 1, head_dim]`."""
        return self._split(embedding(positions, self.table))

    def rows(self, first: int, tokens: int) -> tuple[Tensor, Tensor]:
        """The same for known positions: `first` and the `tokens - 1` behind it."""
        return self._split(self.table[first : first + tokens])

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        rows = rows.view(1, rows.shape[0], 1, 2 * self.head_dim)
        return rows[..., : self.head_dim], rows[..., self.head_dim :]


class Attention(nn.Module):
    """Causal attention over a past that is an input; returns the new keys and values instead of a grown cache."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.shape = shape
        parts = [f"{prefix}.{part}_proj" for part in "qkv"]
        bias = torch.cat([weights(f"{part}.bias") for part in parts]) if shape.bias else None
        self.qkv_proj = load_linear(torch.cat([weights(f"{part}.weight") for part in parts]), bias)
        self.o_proj = load_linear(weights(f"{prefix}.o_proj.weight"), weights(f"{prefix}.o_proj.bias") if shape.bias else None)
        q_weight = weights(f"{prefix}.q_norm.weight").expand(shape.heads, -1) * shape.head_dim**-0.5
        k_weight = weights(f"{prefix}.k_norm.weight").expand(shape.kv_heads, -1)
        self.qk_norm = RMSNorm(torch.cat([q_weight, k_weight]), shape.eps)

    def forward(
        self, x: Tensor, mask: Tensor, rope: tuple[Tensor, Tensor], past_k: Tensor, past_v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x `[1, T, D]`, mask `[1, groups * T, P + T]`, past `[P, kv_heads, head_dim]`; x, and new k and v `[T, ...]`."""
        s, tokens = self.shape, x.shape[1]
        both = s.heads + s.kv_heads
        qkv = self.qkv_proj(x)
        qk = self.qk_norm.normalize(qkv[..., : both * s.head_dim].reshape(1, tokens * both, s.head_dim))
        qk = rotate(qk.view(1, tokens, both, s.head_dim) * self.qk_norm.weight, rope)
        q = qk[:, :, : s.heads].transpose(1, 2).reshape(s.kv_heads, s.heads // s.kv_heads * tokens, s.head_dim)
        k = qk[:, :, s.heads :].reshape(tokens, s.kv_heads, s.head_dim)
        v = qkv[..., both * s.head_dim :].reshape(tokens, s.kv_heads, s.head_dim)
        keys = torch.cat([past_k, k], 0).permute(1, 2, 0)
        values = torch.cat([past_v, v], 0).transpose(0, 1)
        out = torch.bmm(torch.softmax(torch.bmm(q, keys) + mask, -1), values)
        out = out.view(1, s.heads, tokens, s.head_dim).transpose(1, 2).reshape(1, tokens, s.heads * s.head_dim)
        return self.o_proj(out), k, v


def rotate(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """Rope on `[1, T, heads, head_dim]` by the cosine and signed sine of `RopeTable` (reference `rotate_half` pairing)."""
    cos, sin = rope
    half = x.shape[-1] // 2
    return x * cos + torch.cat([x[..., half:], x[..., :half]], -1) * sin


class MLP(nn.Module):
    """SwiGLU with gate and up in one product (reference `Qwen3TTSTalkerTextMLP`)."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.width = shape.intermediate
        self.gate_up_proj = load_linear(torch.cat([weights(f"{prefix}.{part}_proj.weight") for part in ("gate", "up")]))
        self.down_proj = load_linear(weights(f"{prefix}.down_proj.weight"))

    def forward(self, x: Tensor) -> Tensor:
        both = self.gate_up_proj(x)
        out: Tensor = self.down_proj(silu(both[..., : self.width]) * both[..., self.width :])
        return out


class DecoderLayer(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(weights(f"{prefix}.input_layernorm.weight"), shape.eps)
        self.self_attn = Attention(shape, weights, f"{prefix}.self_attn")
        self.post_attention_layernorm = RMSNorm(weights(f"{prefix}.post_attention_layernorm.weight"), shape.eps)
        self.mlp = MLP(shape, weights, f"{prefix}.mlp")

    def forward(
        self, x: Tensor, mask: Tensor, rope: tuple[Tensor, Tensor], past_k: Tensor, past_v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes as `Attention.forward`."""
        attended, k, v = self.self_attn(self.input_layernorm(x), mask, rope, past_k, past_v)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), k, v


class DecoderStack(nn.Module):
    """All layers and the final norm; the norm is applied to the last row only, the one that predicts."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str, positions: int) -> None:
        """Weights of `prefix.layers.N` and `prefix.norm`; rope for positions below `positions`."""
        super().__init__()
        self.groups = shape.heads // shape.kv_heads
        self.rope = RopeTable(positions, shape.head_dim, shape.theta)
        self.layers = nn.ModuleList(DecoderLayer(shape, weights, f"{prefix}.layers.{n}") for n in range(shape.layers))
        self.norm = RMSNorm(weights(f"{prefix}.norm.weight"), shape.eps)

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """One chunk of T tokens after P cached ones.

        Args:
            embeds: `[1, T, D]`.
            positions: `[T]`, int64.
            mask: `[1, T, P + T]`, 0 to keep and MASK_VALUE to drop.
            past_k, past_v: a tensor a layer, `[P, kv_heads, head_dim]`.

        Returns:
            Hidden state `[1, D]` of the last token, and the new keys and values, a tensor `[T, kv_heads, head_dim]` a layer.
        """
        rope = self.rope(positions)
        x, mask = embeds, torch.cat([mask] * self.groups, 1)
        new_k, new_v = [], []
        for layer, layer_k, layer_v in zip(self.layers, past_k, past_v, strict=True):
            x, k, v = layer(x, mask, rope, layer_k, layer_v)
            new_k.append(k)
            new_v.append(v)
        last = self.norm(x[:, -1:])
        return last.view(1, last.shape[-1]), new_k, new_v


def step_method(module: nn.Module, shape: DecoderShape, width: int, tokens: int, past_limit: int) -> Method:
    """A method that runs `module` (inputs as `DecoderStack.forward`) on `tokens` tokens after 1 to `past_limit` cached ones."""
    past = torch.export.Dim("past", min=1, max=past_limit)
    example = min(3, past_limit)
    cache = [torch.zeros(example, shape.kv_heads, shape.head_dim) for _ in range(shape.layers)]
    inputs = (
        torch.zeros(1, tokens, width),
        torch.zeros(tokens, dtype=torch.int64),
        torch.zeros(1, tokens, example + tokens),
        cache,
        [tensor.clone() for tensor in cache],
    )
    by_layer = [{0: past}] * shape.layers
    return Method(module, inputs, ({}, {}, {2: past + tokens}, by_layer, by_layer))
