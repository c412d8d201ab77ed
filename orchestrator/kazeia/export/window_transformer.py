"""The speech decoder's transformer over a sliding window of frames (`Qwen3TTSTokenizerV2DecoderTransformerModel`).

Frames come newest first. Each layer remembers keys and values of the frames that are still inside the window. Keys are
remembered without rotary embedding and rotated anew by their age at every call: rotary attention depends on distances only,
so no position needs to be carried and a stream has no end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.export.layers import load_linear
from kazeia.export.streaming_layers import Memory, RootMeanSquareNorm, Stateful, TensorSource

DROPPED = -1e9
"""Added to the scores of keys a query must not see; large enough for a weight of exactly zero."""

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines [frames, head_dim / 2] by age."""


class Window(Stateful):
    """What all layers share in one call: which keys each query sees, and the rotations of queries and keys by their age."""

    band: Tensor
    cosine: Tensor
    sine: Tensor
    present: Tensor

    def __init__(self, config: CodecDecoderConfig, max_frames: int) -> None:
        self.past = config.sliding_window - 1
        self.dropped = DROPPED
        super().__init__((self.past,))
        query_age = torch.arange(max_frames)[:, None]
        # One more than can be needed: a slice as long as the table would fix the length when the program is traced.
        key_age = torch.arange(max_frames + self.past + 1)
        seen = (key_age >= query_age) & (key_age - query_age <= self.past)
        self.register_buffer("band", torch.where(seen, 0.0, DROPPED))
        rates = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        angles = -key_age[:, None] * rates
        self.register_buffer("cosine", angles.cos().float())
        self.register_buffer("sine", angles.sin().float())
        self.register_buffer("present", torch.ones(max_frames))

    def forward(self, frames: int, memory: Memory) -> tuple[Tensor, Rotation, Rotation]:
        """Mask [frames, frames + past] and the rotations of queries and keys; the state tells which past frames there were."""
        present = memory.extend(self.present[:frames], 0)
        mask = self.band[:frames, : frames + self.past] + (1.0 - present) * self.dropped
        queries = (self.cosine[:frames], self.sine[:frames])
        keys = (self.cosine[: frames + self.past], self.sine[: frames + self.past])
        return mask, queries, keys


class WindowTransformer(nn.Module):
    """All layers with input and output projection.

    Args:
        tensor: gives the tensors below `decoder.pre_transformer.`.
        config: the codec's `decoder_config`.
        max_frames: the most frames a call may take.
    """

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig, max_frames: int) -> None:
        super().__init__()
        self.window = Window(config, max_frames)
        self.input_projection = load_linear(tensor("input_proj.weight"), tensor("input_proj.bias"))
        self.layers = nn.ModuleList(Layer(tensor, f"layers.{i}", config) for i in range(config.num_hidden_layers))
        self.norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        self.output_projection = load_linear(tensor("output_proj.weight") * tensor("norm.weight"), tensor("output_proj.bias"))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """[frames, latent_dim] to [frames, latent_dim]."""
        mask, query_rotation, key_rotation = self.window(x.shape[0], memory)
        x = self.input_projection(x)
        for layer in self.layers:
            x = layer(x, mask, query_rotation, key_rotation, memory)
        latents: Tensor = self.output_projection(self.norm(x))
        return latents


class Layer(nn.Module):
    """Attention and gated perceptron, each scaled and added to its input (`Qwen3TTSTokenizerV2DecoderTransformerLayer`).

    The scales of norms and residuals are part of the weights next to them.
    """

    def __init__(self, tensor: TensorSource, name: str, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.attention_norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(tensor, name, config)
        self.perceptron_norm = RootMeanSquareNorm(config.hidden_size, config.rms_norm_eps)
        scale = tensor(f"{name}.post_attention_layernorm.weight")
        self.gate = load_linear(tensor(f"{name}.mlp.gate_proj.weight") * scale)
        self.up = load_linear(tensor(f"{name}.mlp.up_proj.weight") * scale)
        self.down = load_linear(tensor(f"{name}.mlp_layer_scale.scale")[:, None] * tensor(f"{name}.mlp.down_proj.weight"))

    def forward(self, x: Tensor, mask: Tensor, query_rotation: Rotation, key_rotation: Rotation, memory: Memory) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask, query_rotation, key_rotation, memory)
        normed = self.perceptron_norm(x)
        change: Tensor = self.down(F.silu(self.gate(normed)) * self.up(normed))
        return x + change


class Attention(Stateful):
    """Attention of each frame to the frames of its window.

    The halves that rotary embedding pairs are projected apart, so no tensor of dynamic length has to be cut. Shared key and
    value heads are repeated in the weights.
    """

    def __init__(self, tensor: TensorSource, name: str, config: CodecDecoderConfig) -> None:
        self.heads, half = config.num_attention_heads, config.head_dim // 2
        past = config.sliding_window - 1
        super().__init__((self.heads, past, half), (self.heads, past, half), (self.heads, past, config.head_dim))
        norm = tensor(f"{name}.input_layernorm.weight")

        def project(part: str, heads: int, rows: slice, scale: float = 1.0) -> nn.Linear:
            """The rows `rows` of every head of a projection, for as many heads as the queries have."""
            weight = (tensor(f"{name}.self_attn.{part}.weight") * norm * scale).view(heads, config.head_dim, -1)[:, rows]
            return load_linear(weight.repeat_interleave(self.heads // heads, 0).flatten(0, 1))

        halves = (slice(None, half), slice(half, None))
        self.query = nn.ModuleList(project("q_proj", self.heads, rows, config.head_dim**-0.5) for rows in halves)
        self.key = nn.ModuleList(project("k_proj", config.num_key_value_heads, rows) for rows in halves)
        self.value = project("v_proj", config.num_key_value_heads, slice(None))
        scale = tensor(f"{name}.self_attn_layer_scale.scale")
        self.output = load_linear(scale[:, None] * tensor(f"{name}.self_attn.o_proj.weight"))

    def forward(self, x: Tensor, mask: Tensor, query_rotation: Rotation, key_rotation: Rotation, memory: Memory) -> Tensor:
        query = _rotate([self._by_head(part(x)) for part in self.query], query_rotation)
        key = _rotate([memory.extend(self._by_head(part(x)), 1) for part in self.key], key_rotation)
        value = memory.extend(self._by_head(self.value(x)), 1)
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) + mask, dim=-1)
        # Not reshape: traced, it names the number of frames, and XNNPACK takes only -1.
        rows = torch.bmm(weights, value).transpose(0, 1).contiguous().view(-1, self.heads * value.shape[2])
        attended: Tensor = self.output(rows)
        return attended

    def _by_head(self, rows: Tensor) -> Tensor:
        """[frames, heads * width] to [heads, frames, width]."""
        return rows.view(-1, self.heads, rows.shape[1] // self.heads).transpose(0, 1)


def _rotate(halves: list[Tensor], rotation: Rotation) -> Tensor:
    """Rotary embedding (reference `apply_rotary_pos_emb`) of halves [heads, frames, head_dim / 2], joined again."""
    (first, second), (cosine, sine) = halves, rotation
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=2)
