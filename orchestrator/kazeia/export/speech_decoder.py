"""The speech decoder (`Qwen3TTSTokenizerV2Decoder`) as a program that decodes a stream of frames chunk by chunk.

Chunks of any sizes give the same samples as the whole at once: the states carry the left context of every convolution and
the keys and values of the transformer's window. See streaming_layers.py for the reversed order of time inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.export.program import Method, ProgramSpec
from kazeia.export.streaming_layers import (
    CausalConv,
    ChannelNorm,
    Memory,
    OverlappingUpsample,
    PointwiseConv,
    Snake,
    TensorSource,
    Upsample,
    state_shapes,
)
from kazeia.export.window_transformer import WindowTransformer

MAX_FRAMES = 16
"""Frames one call takes; the runner splits longer requests. The last stages need 13 MB a frame."""

Stage: TypeAlias = Literal["quantizer", "pre_conv", "transformer", "upsample", "decoder"]
"""Parts of the speech decoder in the order they are computed."""

STAGES: tuple[Stage, ...] = get_args(Stage)

DILATIONS = (1, 3, 9)
"""Of a block's residual units (reference `Qwen3TTSTokenizerV2DecoderDecoderBlock`)."""

LAYER_NORM_EPSILON = 1e-6
"""Of the ConvNeXt blocks (reference `Qwen3TTSTokenizerV2ConvNeXtBlock`)."""

USAGE_FLOOR = 1e-5
"""Least cluster usage a codebook's sums are divided by (reference `EuclideanCodebook`)."""


class Dequantizer(nn.Module):
    """Codes to latents: the codebooks' entries, summed and projected apart for the first codebook and the others.

    Reference: `SplitResidualVectorQuantizer.decode`.
    """

    offsets: Tensor

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig) -> None:
        super().__init__()
        names = ["rvq_first.vq.layers.0", *(f"rvq_rest.vq.layers.{i}" for i in range(config.num_quantizers - 1))]
        tables = [_codebook(tensor, f"quantizer.{name}._codebook") for name in names]
        self.entries = nn.Parameter(torch.cat(tables), requires_grad=False)
        offsets = torch.arange(config.num_quantizers) * config.codebook_size
        self.register_buffer("offsets", offsets[:, None])
        self.first = PointwiseConv(tensor("quantizer.rvq_first.output_proj.weight").squeeze(2), None)
        self.rest = PointwiseConv(tensor("quantizer.rvq_rest.output_proj.weight").squeeze(2), None)

    def forward(self, codes: Tensor, memory: Memory) -> Tensor:
        """Codes [1, groups, frames], oldest first, to latents [1, codebook_dim, frames, 1]."""
        entries = F.embedding(codes.flip(2)[0] + self.offsets, self.entries)
        latents: Tensor = self.first(_as_sound(entries[0])) + self.rest(_as_sound(entries[1:].sum(0)))
        return latents


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, LayerNorm and a two-layer perceptron, added to the input (`Qwen3TTSTokenizerV2ConvNeXtBlock`)."""

    def __init__(self, tensor: TensorSource, name: str) -> None:
        super().__init__()
        width = tensor(f"{name}.gamma").numel()
        self.depthwise = CausalConv(tensor(f"{name}.dwconv.conv.weight"), tensor(f"{name}.dwconv.conv.bias"), groups=width)
        self.norm = ChannelNorm(width, LAYER_NORM_EPSILON)
        inner, gamma = tensor(f"{name}.pwconv1.weight"), tensor(f"{name}.gamma")
        shift = inner @ tensor(f"{name}.norm.bias") + tensor(f"{name}.pwconv1.bias")
        self.expand = PointwiseConv(inner * tensor(f"{name}.norm.weight"), shift)
        self.shrink = PointwiseConv(gamma[:, None] * tensor(f"{name}.pwconv2.weight"), gamma * tensor(f"{name}.pwconv2.bias"))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        change: Tensor = self.shrink(F.gelu(self.expand(self.norm(self.depthwise(x, memory)))))
        return x + change


class ResidualUnit(nn.Module):
    """Two Snakes and convolutions, added to the input (`Qwen3TTSTokenizerV2DecoderDecoderResidualUnit`)."""

    def __init__(self, tensor: TensorSource, name: str, dilation: int) -> None:
        super().__init__()
        self.outer = _snake(tensor, f"{name}.act1")
        self.context = CausalConv(tensor(f"{name}.conv1.conv.weight"), tensor(f"{name}.conv1.conv.bias"), dilation)
        self.inner = _snake(tensor, f"{name}.act2")
        self.mix = PointwiseConv(tensor(f"{name}.conv2.conv.weight").squeeze(2), tensor(f"{name}.conv2.conv.bias"))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        change: Tensor = self.mix(self.inner(self.context(self.outer(x), memory)))
        return x + change


class UpsamplingBlock(nn.Module):
    """Snake, transposed convolution and three residual units (`Qwen3TTSTokenizerV2DecoderDecoderBlock`)."""

    def __init__(self, tensor: TensorSource, name: str) -> None:
        super().__init__()
        self.snake = _snake(tensor, f"{name}.block.0")
        self.upsample = OverlappingUpsample(tensor(f"{name}.block.1.conv.weight"), tensor(f"{name}.block.1.conv.bias"))
        self.units = nn.ModuleList(ResidualUnit(tensor, f"{name}.block.{2 + i}", DILATIONS[i]) for i in range(len(DILATIONS)))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x = self.upsample(self.snake(x), memory)
        for unit in self.units:
            x = unit(x, memory)
        return x


class Transformer(nn.Module):
    """The window transformer between sounds [1, latent_dim, frames, 1]."""

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig, max_frames: int) -> None:
        super().__init__()
        self.window_transformer = WindowTransformer(lambda name: tensor(f"pre_transformer.{name}"), config, max_frames)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        return _as_sound(self.window_transformer(x.view(x.shape[1], -1).transpose(0, 1), memory))


class Upsampling(nn.Module):
    """From frames to the decoder stack's rate: transposed convolutions, each with a ConvNeXt block behind it."""

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(len(config.upsampling_ratios)):
            conv = f"upsample.{i}.0.conv"
            self.layers.append(Upsample(tensor(f"{conv}.weight"), tensor(f"{conv}.bias")))
            self.layers.append(ConvNeXtBlock(tensor, f"upsample.{i}.1"))

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        for upsample, convnext in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = convnext(upsample(x), memory)
        return x


class DecoderStack(nn.Module):
    """Upsampling blocks between two convolutions, to samples [1, n] within -1 and 1, oldest first."""

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.first_conv = _causal_conv(tensor, "decoder.0")
        blocks = len(config.upsample_rates)
        self.blocks = nn.ModuleList(UpsamplingBlock(tensor, f"decoder.{1 + i}") for i in range(blocks))
        self.last_snake = _snake(tensor, f"decoder.{1 + blocks}")
        self.last_conv = _causal_conv(tensor, f"decoder.{2 + blocks}")

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        x = self.first_conv(x, memory)
        for block in self.blocks:
            x = block(x, memory)
        x = self.last_conv(self.last_snake(x), memory)
        return x.clamp(-1.0, 1.0).view(1, -1).flip(1)


class Segment(nn.Module):
    """Consecutive stages as one module."""

    def __init__(self, stages: Mapping[Stage, nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleDict(dict(stages.items()))

    def forward(self, x: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """What the stages make of a chunk.

        Args:
            x: codes int64 [1, groups, frames], oldest first, or what the stage before made of them.
            states: as `state_shapes(self)` lists them; zeros for the first chunk, then what the last call returned.

        Returns:
            Samples [1, frames * samples per frame] within -1 and 1, oldest first, or what the stage behind takes; the new states.
        """
        memory = Memory(states)
        for stage in self.stages.values():
            x = stage(x, memory)
        return x, memory.new


class SpeechDecoder(Segment):
    """Codes to sound: all stages.

    Args:
        tensor: gives the tensors below `decoder.`.
        config: the codec's `decoder_config`.
        max_frames: the most frames a call may take.
    """

    def __init__(self, tensor: TensorSource, config: CodecDecoderConfig, max_frames: int = MAX_FRAMES) -> None:
        super().__init__(
            {
                "quantizer": Dequantizer(tensor, config),
                "pre_conv": _causal_conv(tensor, "pre_conv"),
                "transformer": Transformer(tensor, config, max_frames),
                "upsample": Upsampling(tensor, config),
                "decoder": DecoderStack(tensor, config),
            }
        )


def samples_per_frame(config: CodecDecoderConfig) -> int:
    """Samples a frame becomes: the product of all upsampling rates."""
    return math.prod([*config.upsample_rates, *config.upsampling_ratios])


def speech_decoder_program(checkpoint: Checkpoint) -> ProgramSpec:
    """The program of a checkpoint's speech decoder."""
    config = checkpoint.codec_config.decoder_config
    decoder = SpeechDecoder(lambda name: checkpoint.codec_tensor(f"decoder.{name}"), config, MAX_FRAMES)
    return decoder_program(decoder, config, MAX_FRAMES, checkpoint.codec_config.output_sample_rate)


def decoder_program(decoder: SpeechDecoder, config: CodecDecoderConfig, max_frames: int, sample_rate: int) -> ProgramSpec:
    """The program `speech_decoder`: method `decode` and its constants."""
    shapes = state_shapes(decoder)
    # The example has the greatest length: the program's buffers are planned for it.
    inputs = (torch.zeros(1, config.num_quantizers, max_frames, dtype=torch.int64), [torch.zeros(shape) for shape in shapes])
    dynamic = ({2: torch.export.Dim("frames", min=1, max=max_frames)}, [None] * len(shapes))
    return ProgramSpec(
        name="speech_decoder",
        methods={"decode": Method(decoder, inputs, dynamic)},
        constants={
            "contract_version": CONTRACT_VERSION,
            "code_groups": config.num_quantizers,
            "codebook_size": config.codebook_size,
            "max_frames": max_frames,
            "samples_per_frame": samples_per_frame(config),
            "sample_rate": sample_rate,
            "state_count": len(shapes),
        },
        # The transformer's activations do not fit 8 bits: the built-in voice keeps 36 dB of signal to error without, 23 with it.
        quantised="convolutions",
    )


def _codebook(tensor: TensorSource, name: str) -> Tensor:
    """Entries [codebook_size, codebook_dim / 2]: sums over the training vectors, divided by their number."""
    return tensor(f"{name}.embedding_sum") / tensor(f"{name}.cluster_usage").clamp(min=USAGE_FLOOR)[:, None]


def _causal_conv(tensor: TensorSource, name: str) -> CausalConv:
    return CausalConv(tensor(f"{name}.conv.weight"), tensor(f"{name}.conv.bias"))


def _snake(tensor: TensorSource, name: str) -> Snake:
    return Snake(tensor(f"{name}.alpha"), tensor(f"{name}.beta"))


def _as_sound(rows: Tensor) -> Tensor:
    """[time, channels] to [1, channels, time, 1]."""
    return rows.transpose(0, 1).contiguous().view(1, rows.shape[1], -1, 1)
