"""The speech decoder as it is trained: whole utterances, time forwards, parameters named as in the checkpoint.

The same function as `kazeia.export.speech_decoder.SpeechDecoder`, which takes chunks; a test compares the two on one checkpoint.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.export.speech_decoder import DILATIONS, LAYER_NORM_EPSILON
from training.codes import SOUNDING_CODEBOOKS

LAYER_SCALE = 0.1
"""At the beginning; the official models' 0.01 is made for far more steps."""


class CausalConv(nn.Module):
    """[B, C, T] to [B, C', T]: every output sees the past only."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.past = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(F.pad(x, (self.past, 0)))
        return y


class CausalUpsample(nn.Module):
    """Transposed convolution that drops what lies beyond the last input's samples."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.extra = kernel - stride

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y[..., : y.shape[-1] - self.extra] if self.extra else y


class Snake(nn.Module):
    """x + sin(exp(alpha) x)^2 / exp(beta), a pair for every channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.sin(x * self.alpha.exp()[:, None])
        return x + wave * wave / (self.beta.exp()[:, None] + 1e-9)


class ConvNeXt(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(width, width, 7, groups=width)
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), LAYER_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.dwconv(x).transpose(1, 2))
        change: Tensor = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + change.transpose(1, 2)


class ResidualUnit(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.act2 = Snake(width), Snake(width)
        self.conv1, self.conv2 = CausalConv(width, width, 7, dilation), CausalConv(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2(self.act2(self.conv1(self.act1(x))))
        return x + y


class UpsamplingBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation) for dilation in DILATIONS]
        self.block = nn.Sequential(Snake(inputs), CausalUpsample(inputs, outputs, 2 * rate, rate), *units)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return y


class RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class LayerScale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), LAYER_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Attention(nn.Module):
    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        width, self.heads, self.head_dim = config.hidden_size, config.num_attention_heads, config.head_dim
        inner = self.heads * self.head_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        q, k, v = (
            p(x).unflatten(2, (self.heads, self.head_dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(rotated(q, rotation), rotated(k, rotation), v, attn_mask=mask)
        out: Tensor = self.o_proj(y.transpose(1, 2).flatten(2))
        return out


class MLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn, self.mlp = Attention(config), MLP(width, config.intermediate_size)
        self.input_layernorm, self.post_attention_layernorm = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(width), LayerScale(width)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), rotation, mask))
        y: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return y


class PreTransformer(nn.Module):
    """[B, T, latent_dim] to the same: attention over the last `sliding_window` frames."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        age = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        mask = (age >= 0) & (age < self.config.sliding_window)
        rotation = rotations(x.shape[1], self.config.head_dim, self.config.rope_theta)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, rotation, mask)
        y: Tensor = self.output_proj(self.norm(x))
        return y


class SpeechDecoder(nn.Module):
    """Codes [B, groups, F] to samples [B, F * 1920], not clamped.

    `entries` [sounding groups, codebook_size, codebook_dim / 2] are the codebooks themselves; the checkpoint's sums and usages,
    and the zeros of codebooks that make no sound, are made when it is written.
    """

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        half, latent, width = config.codebook_dim // 2, config.latent_dim, config.decoder_dim
        self.entries = nn.Parameter(torch.randn(SOUNDING_CODEBOOKS, config.codebook_size, half))
        self.first_proj = nn.Linear(half, config.codebook_dim, bias=False)
        self.rest_proj = nn.Linear(half, config.codebook_dim, bias=False)
        self.pre_conv = CausalConv(config.codebook_dim, latent, 3)
        self.pre_transformer = PreTransformer(config)
        self.upsample = nn.Sequential(
            *(nn.Sequential(CausalUpsample(latent, latent, ratio, ratio), ConvNeXt(latent)) for ratio in config.upsampling_ratios)
        )
        blocks: list[nn.Module] = [CausalConv(latent, width, 7)]
        for rate in config.upsample_rates:
            blocks.append(UpsamplingBlock(width, width // 2, rate))
            width //= 2
        self.decoder = nn.Sequential(*blocks, Snake(width), CausalConv(width, 1, 7))

    def forward(self, codes: Tensor) -> Tensor:
        return self.stages(codes, len(self.decoder))[:, 0]

    def stages(self, codes: Tensor, count: int) -> Tensor:
        """[B, C, T] after the first `count` parts of the convolutional stack."""
        embedded = [F.embedding(codes[:, g], self.entries[g]) for g in range(SOUNDING_CODEBOOKS)]
        x = self.first_proj(embedded[0]) + self.rest_proj(torch.stack(embedded[1:]).sum(0))
        x = self.pre_conv(x.transpose(1, 2)).transpose(1, 2)
        x = self.pre_transformer(x).transpose(1, 2)
        y: Tensor = self.decoder[:count](self.upsample(x))
        return y


def rotations(length: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, head_dim / 2] of half-split rotary embedding."""
    rates = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.arange(length)[:, None] * rates
    return angles.cos().float(), angles.sin().float()


def rotated(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """[B, heads, T, head_dim], its two halves rotated against each other."""
    cosine, sine = rotation
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)
