"""Decoder layers for the NPU, with a cache of fixed length. They compute what `layers` computes, in the form the HTP is good at.

The past has its full length always, and rows not in use are masked. Keys are kept transposed, `[1, kv_heads, head_dim, P]`,
values as `[1, kv_heads, P, head_dim]`, so that nothing is turned around on its way into a product. q, k, v, gate and up are
products of their own, as each wants a scale of its own. Norms are the HTP's own, at rank 3: at rank 4 they are wrong from 16 rows
on.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

from kazeia.export.layers import DecoderShape, RopeTable, Weights, load_linear, rotate

MASK_VALUE = -255.0
"""Added to the scores of columns a row must not see: far below any score, yet finite in float16, and coarse enough not to eat up
the 16-bit range that it shares with the scores."""


class Norm(nn.Module):
    """RMSNorm over the last dimension of `[1, rows, D]`."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class StaticAttention(nn.Module):
    """Causal attention over a past of fixed length; returns keys and values of past and new together."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.shape = shape

        def projection(part: str) -> nn.Linear:
            bias = weights(f"{prefix}.{part}.bias") if shape.bias else None
            return load_linear(weights(f"{prefix}.{part}.weight"), bias)

        self.q_proj, self.k_proj = projection("q_proj"), projection("k_proj")
        self.v_proj, self.o_proj = projection("v_proj"), projection("o_proj")
        self.q_norm = Norm(weights(f"{prefix}.q_norm.weight") * shape.head_dim**-0.5, shape.eps)
        self.k_norm = Norm(weights(f"{prefix}.k_norm.weight"), shape.eps)

    def forward(
        self, x: Tensor, mask: Tensor | None, rope: tuple[Tensor, Tensor], past_k: Tensor | None, past_v: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x `[1, T, D]`, mask `[1, 1, groups * T, P + T]`, past keys `[1, kv_heads, head_dim, P]` and values
        `[1, kv_heads, P, head_dim]`; x, and keys and values of P + T tokens.

        Without a past P is 0; without a mask every row sees all."""
        s, tokens = self.shape, x.shape[1]
        q = self._heads(self.q_norm, self.q_proj(x), s.heads, rope).transpose(1, 2)
        k = self._heads(self.k_norm, self.k_proj(x), s.kv_heads, rope).permute(0, 2, 3, 1)
        v = self.v_proj(x).view(1, tokens, s.kv_heads, s.head_dim).transpose(1, 2)
        keys = k if past_k is None else torch.cat([past_k, k], 3)
        values = v if past_v is None else torch.cat([past_v, v], 2)
        q = q.reshape(1, s.kv_heads, s.heads // s.kv_heads * tokens, s.head_dim)
        scores = torch.matmul(q, keys)
        out = torch.matmul(torch.softmax(scores if mask is None else scores + mask, -1), values)
        out = out.view(1, s.heads, tokens, s.head_dim).transpose(1, 2).reshape(1, tokens, s.heads * s.head_dim)
        return self.o_proj(out), keys, values

    def _heads(self, norm: nn.Module, x: Tensor, heads: int, rope: tuple[Tensor, Tensor]) -> Tensor:
        """`[1, T, heads * head_dim]` to `[1, T, heads, head_dim]`, each head normalised and rotated."""
        tokens, head_dim = x.shape[1], self.shape.head_dim
        rows: Tensor = norm(x.reshape(1, tokens * heads, head_dim))
        return rotate(rows.view(1, tokens, heads, head_dim), rope)


class StaticMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.gate_proj = load_linear(weights(f"{prefix}.gate_proj.weight"))
        self.up_proj = load_linear(weights(f"{prefix}.up_proj.weight"))
        self.down_proj = load_linear(weights(f"{prefix}.down_proj.weight"))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class StaticLayer(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    def __init__(self, shape: DecoderShape, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.input_layernorm = Norm(weights(f"{prefix}.input_layernorm.weight"), shape.eps)
        self.self_attn = StaticAttention(shape, weights, f"{prefix}.self_attn")
        self.post_attention_layernorm = Norm(weights(f"{prefix}.post_attention_layernorm.weight"), shape.eps)
        self.mlp = StaticMLP(weights, f"{prefix}.mlp")

    def forward(
        self, x: Tensor, mask: Tensor | None, rope: tuple[Tensor, Tensor], past_k: Tensor | None, past_v: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `StaticAttention.forward`."""
        mixed, k, v = self.self_attn(self.input_layernorm(x), mask, rope, past_k, past_v)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), k, v


class StaticStack(nn.Module):
    """Layers and final norm; the last token's hidden state is the result."""

    def __init__(
        self, shape: DecoderShape, weights: Weights, prefix: str, positions: int, cache_dtype: torch.dtype = torch.float32
    ) -> None:
        """cache_dtype: of keys and values where the graph meets its caller. float16 halves what a float program moves; a
        quantised graph takes float32, whose border is quantised later."""
        super().__init__()
        self.groups = shape.heads // shape.kv_heads
        self.cache_dtype = cache_dtype
        self.rope = RopeTable(positions, shape.head_dim, shape.theta)
        self.layers = nn.ModuleList(StaticLayer(shape, weights, f"{prefix}.layers.{n}") for n in range(shape.layers))
        self.norm = Norm(weights(f"{prefix}.norm.weight"), shape.eps)

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """One chunk of T tokens.

        Args:
            embeds: `[1, T, D]`.
            positions: `[T]`, int32.
            mask: `[1, T, P + T]`, 0 to keep and MASK_VALUE to drop.
            past_k, past_v: a tensor a layer, of the cache's dtype, shaped as `StaticAttention.forward` takes them.

        Returns:
            Hidden state `[1, 1, D]` of the last token, the new keys and the new values.
        """
        rope, tokens = self.rope(positions), embeds.shape[1]
        rows = torch.cat([mask] * self.groups, 1).unsqueeze(1)
        x, new_k, new_v = embeds, [], []
        for layer, layer_k, layer_v in zip(self.layers, past_k, past_v, strict=True):
            x, k, v = layer(x, rows, rope, self._converted(layer_k, torch.float32), self._converted(layer_v, torch.float32))
            # Cut from the whole, so that they have its scale: what one step stores the next one reads.
            new_k.append(self._converted(k[..., -tokens:], self.cache_dtype))
            new_v.append(self._converted(v[:, :, -tokens:], self.cache_dtype))
        return self.norm(x[:, -1:]), new_k, new_v

    def _converted(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """A conversion to the same type would be an operator all the same, and the quantiser would not know it."""
        return x if self.cache_dtype == torch.float32 else x.to(dtype)
