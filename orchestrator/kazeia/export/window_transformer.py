"""The speech decoder's transformer over a sliding window of frames (`Qwen3TTSTokenizerV2DecoderTransformerModel`).

Frames come newest first. Each layer remembers keys and values of the frames that are still inside the window. Keys are
remembered without rotary embedding and rotated anew by their age at every call: rotary attention depends on distances only,
so no position needs to be carried and a stream has no end.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.errors import ExportError
from kazeia.export.streaming_layers import Memory, RootMeanSquareNorm, Stateful

DROPPED = -1e9
"""Added to the scores of keys a query must not see; large enough for a weight of exactly zero."""

TensorSource = Callable[[str], Tensor]


class WindowTransformer(Stateful):
    """All layers with input and output projection.

    Args:
        tensor: gives the transformer's tensors in float32 by their name below `pre_transformer.`.
        config: the codec's `decoder_config`.
        max_frames: the most frames a call may take.

    Raises:
        ExportError: the configuration's activation is not the one of the published model.
    """

    band: Tensor
    cosine: Tensor
    sine: Tensor
    present: Tensor

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig, max_frames: int) -> None:
        self.past = config.sliding_window - 1
        super().__init__((self.past,))
        if config.hidden_act != "silu":
            raise ExportError(f"the speech decoder's hidden_act is {config.hidden_act!r}; kz exports silu: use an official checkpoint")
        query_age, key_age = torch.arange(max_frames)[:, None], torch.arange(max_frames + config.sliding_window)
        seen = (key_age >= query_age) & (key_age - query_age < config.sliding_window)
        self.register_buffer("band", torch.where(seen, 0.0, DROPPED))
        rates = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        angles = -key_age[:, None] * rates
        self.register_buffer("cosine", angles.cos().float())
        self.register_buffer("sine", angles.sin().float())
        self.register_buffer("present", torch.ones(max_frames))
        self.input_projection = _linear(tensor("input_proj.weight"), tensor("input_proj.bias"))
        self.layers = nn.ModuleList(
            Layer(lambda name, i=i: tensor(f"layers.{i}.{name}"), config)  # type: ignore[misc]
            for i in range(config.num_hidden_layers)
        )
        self.norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        self.output_projection = _linear(tensor("output_proj.weight") * tensor("norm.weight"), tensor("output_proj.bias"))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """[frames, latent_dim] to [frames, latent_dim]."""
        frames = x.shape[0]
        seen = memory.extend(self.present[:frames], 0)
        mask = self.band[:frames, : frames + self.past] + (1.0 - seen) * DROPPED
        rotation = (self.cosine[: frames + self.past], self.sine[: frames + self.past])
        query_rotation = (self.cosine[:frames], self.sine[:frames])
        x = self.input_projection(x)
        for layer in self.layers:
            x = layer(x, mask, query_rotation, rotation, memory)
        return self.output_projection(self.norm(x))


class Layer(nn.Module):
    """Attention and gated perceptron, each scaled and added to its input (`Qwen3TTSTokenizerV2DecoderTransformerLayer`)."""

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.attention_norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(tensor, config)
        self.perceptron_norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        scale = tensor("post_attention_layernorm.weight")
        self.gate = _linear(tensor("mlp.gate_proj.weight") * scale)
        self.up = _linear(tensor("mlp.up_proj.weight") * scale)
        self.down = _linear(tensor("mlp_layer_scale.scale")[:, None] * tensor("mlp.down_proj.weight"))

    def forward(self, x: Tensor, mask: Tensor, query_rotation: Rotation, rotation: Rotation, memory: Memory) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask, query_rotation, rotation, memory)
        normed = self.perceptron_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


Rotation = tuple[Tensor, Tensor]
"""Cosines and sines [frames, head_dim / 2] by age."""


class Attention(Stateful):
    """Attention of each frame to the frames of its window.

    The halves that rotary embedding pairs are projected apart, so no tensor of dynamic length has to be cut. Shared key and
    value heads are repeated in the weights.
    """

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig) -> None:
        self.heads, half = config.num_attention_heads, config.head_dim // 2
        past = config.sliding_window - 1
        super().__init__((self.heads, past, half), (self.heads, past, half), (self.heads, past, config.head_dim))
        norm = tensor("input_layernorm.weight")

        def projection(name: str, heads: int, scale: float = 1.0) -> tuple[Tensor, Tensor | None]:
            weight = (tensor(f"self_attn.{name}.weight") * norm * scale).view(heads, config.head_dim, -1)
            bias = (tensor(f"self_attn.{name}.bias") * scale).view(heads, config.head_dim) if config.attention_bias else None
            repeats = self.heads // heads
            return weight.repeat_interleave(repeats, 0), None if bias is None else bias.repeat_interleave(repeats, 0)

        query = projection("q_proj", self.heads, config.head_dim**-0.5)
        key = projection("k_proj", config.num_key_value_heads)
        value = projection("v_proj", config.num_key_value_heads)
        first, second = slice(None, half), slice(half, None)
        self.query = nn.ModuleList([_head_rows(*query, first), _head_rows(*query, second)])
        self.key = nn.ModuleList([_head_rows(*key, first), _head_rows(*key, second)])
        self.value = _head_rows(*value, slice(None))
        scale = tensor("self_attn_layer_scale.scale")
        out_bias = scale * tensor("self_attn.o_proj.bias") if config.attention_bias else None
        self.output = _linear(scale[:, None] * tensor("self_attn.o_proj.weight"), out_bias)

    def forward(self, x: Tensor, mask: Tensor, query_rotation: Rotation, rotation: Rotation, memory: Memory) -> Tensor:
        query = _rotate([self._by_head(part(x)) for part in self.query], query_rotation)
        key = _rotate([memory.extend(self._by_head(part(x)), 1) for part in self.key], rotation)
        value = memory.extend(self._by_head(self.value(x)), 1)
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) + mask, dim=-1)
        return self.output(torch.bmm(weights, value).transpose(0, 1).contiguous().view(-1, self.heads * value.shape[2]))

    def _by_head(self, rows: Tensor) -> Tensor:
        """[frames, heads * width] to [heads, frames, width]."""
        return rows.view(-1, self.heads, rows.shape[1] // self.heads).transpose(0, 1)


def _rotate(halves: list[Tensor], rotation: Rotation) -> Tensor:
    """Rotary embedding (reference `apply_rotary_pos_emb`) of halves [heads, frames, head_dim / 2], joined again."""
    (first, second), (cosine, sine) = halves, rotation
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=2)


def _head_rows(weight: Tensor, bias: Tensor | None, part: slice) -> nn.Linear:
    """A linear layer of the rows `part` of every head; weight [heads, head_dim, in], bias [heads, head_dim]."""
    rows = weight[:, part]
    return _linear(rows.reshape(-1, weight.shape[2]), None if bias is None else bias[:, part].reshape(-1))


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.contiguous(), requires_grad=False)
    return layer
