"""The speaker encoder (`Qwen3TTSSpeakerEncoder`, an ECAPA-TDNN) as a program: a mel spectrogram to a speaker embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.audio import MAX_RECORDING_S
from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import SpeakerEncoderConfig
from kazeia.errors import ExportError
from kazeia.export.program import Method, ProgramSpec
from kazeia.export.streaming_layers import TensorSource
from kazeia.mel import HOP_SAMPLES, MEL_BINS, SAMPLE_RATE

MAX_MEL_FRAMES = int(MAX_RECORDING_S * SAMPLE_RATE) // HOP_SAMPLES
"""Frames of the longest recording: 60 s."""

VARIANCE_FLOOR = 1e-12
"""Least variance under the root of the pooled deviations (reference `AttentiveStatisticsPooling`)."""


class Mirror:
    """Lengthens sounds of one length at both ends by their mirror images (`padding_mode="reflect"`).

    The indices of each padding are computed once a call: `F.pad` computes them anew in each of two dozen convolutions.
    """

    def __init__(self, frames: int) -> None:
        self._last = frames - 1
        self._indices: dict[tuple[int, int], Tensor] = {}

    def pad(self, x: Tensor, padding: tuple[int, int]) -> Tensor:
        """[1, channels, frames] with `padding` frames more before and behind."""
        if not any(padding):
            return x
        if padding not in self._indices:
            places = torch.arange(-padding[0], self._last + 1 + padding[1])
            self._indices[padding] = self._last - (self._last - places.abs()).abs()
        return x.index_select(2, self._indices[padding])


class Conv(nn.Module):
    """Convolution over time that keeps the length; the ends are mirrored.

    Args:
        weight: [out, in, kernel]
        bias: [out]
    """

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
        self.bias = nn.Parameter(bias.contiguous(), requires_grad=False)
        self.dilation = dilation
        padding = (weight.shape[2] - 1) * dilation
        self.padding = (padding // 2, padding - padding // 2)

    def forward(self, x: Tensor, mirror: Mirror) -> Tensor:
        return F.conv1d(mirror.pad(x, self.padding), self.weight, self.bias, dilation=self.dilation)


class Res2NetBlock(nn.Module):
    """Convolution, a chain of convolutions over groups of channels, convolution, squeeze-excitation; added to the input.

    Reference: `SqueezeExcitationRes2NetBlock`. The first convolution is computed by groups, so that nothing is cut apart.
    """

    def __init__(self, tensor: TensorSource, name: str, scale: int, dilation: int) -> None:
        super().__init__()
        weight, bias = tensor(f"{name}.tdnn1.conv.weight"), tensor(f"{name}.tdnn1.conv.bias")
        groups = zip(weight.chunk(scale), bias.chunk(scale), strict=True)
        self.groups = nn.ModuleList(Conv(rows.clone(), shift.clone()) for rows, shift in groups)
        self.chain = nn.ModuleList(_conv(tensor, f"{name}.res2net_block.blocks.{i}.conv", dilation) for i in range(scale - 1))
        self.join = _conv(tensor, f"{name}.tdnn2.conv")
        self.squeeze = _conv(tensor, f"{name}.se_block.conv1")
        self.excite = _conv(tensor, f"{name}.se_block.conv2")

    def forward(self, x: Tensor, mirror: Mirror) -> Tensor:
        first, *others = (F.relu(group(x, mirror)) for group in self.groups)
        parts, last = [first], None
        for group, conv in zip(others, self.chain, strict=True):
            last = F.relu(conv(group if last is None else group + last, mirror))
            parts.append(last)
        joined = F.relu(self.join(torch.cat(parts, 1), mirror))
        squeezed = F.relu(self.squeeze(joined.mean(2, keepdim=True), mirror))
        return x + joined * torch.sigmoid(self.excite(squeezed, mirror))


class AttentivePooling(nn.Module):
    """Means and deviations over time, weighted by attention (`AttentiveStatisticsPooling`).

    The attention also sees the unweighted mean and deviation. They are the same at all times, so their part of the
    convolution is computed once and added.
    """

    def __init__(self, tensor: TensorSource, name: str) -> None:
        super().__init__()
        weight, bias = tensor(f"{name}.tdnn.conv.weight"), tensor(f"{name}.tdnn.conv.bias")
        channels = weight.shape[1] // 3
        self.local = Conv(weight[:, :channels].clone(), bias)
        self.whole = Conv(weight[:, channels:].clone(), torch.zeros_like(bias))
        self.attention = _conv(tensor, f"{name}.conv")

    def forward(self, x: Tensor, mirror: Mirror) -> Tensor:
        """[1, channels, frames] to [1, 2 * channels, 1]."""
        mean = x.mean(2, keepdim=True)
        whole = torch.cat([mean, _root((x - mean).square().mean(2, keepdim=True))], 1)
        hidden = torch.tanh(F.relu(self.local(x, mirror) + self.whole(whole, mirror)))
        weights = torch.softmax(self.attention(hidden, mirror), 2)
        mean = (weights * x).sum(2, keepdim=True)
        return torch.cat([mean, _root((weights * (x - mean).square()).sum(2, keepdim=True))], 1)


class SpeakerEncoder(nn.Module):
    """A mel spectrogram to a speaker embedding.

    Args:
        tensor: gives the tensors below `speaker_encoder.`.
        config: `speaker_encoder_config`
    """

    def __init__(self, tensor: TensorSource, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        dilations = config.enc_dilations
        self.first = _conv(tensor, "blocks.0.conv", dilations[0])
        self.blocks = nn.ModuleList(
            Res2NetBlock(tensor, f"blocks.{i}", config.enc_res2net_scale, dilations[i]) for i in range(1, len(dilations) - 1)
        )
        self.aggregate = _conv(tensor, "mfa.conv", dilations[-1])
        self.pooling = AttentivePooling(tensor, "asp")
        self.output = _conv(tensor, "fc")

    def forward(self, mel: Tensor) -> Tensor:
        """Log mel magnitudes [1, frames, mel bins] to the embedding [1, width]."""
        mirror = Mirror(mel.shape[1])
        x, outputs = F.relu(self.first(mel.transpose(1, 2), mirror)), []
        for block in self.blocks:
            x = block(x, mirror)
            outputs.append(x)
        x = F.relu(self.aggregate(torch.cat(outputs, 1), mirror))
        embedding: Tensor = self.output(self.pooling(x, mirror), mirror)
        return embedding.squeeze(2)


def min_mel_frames(encoder: SpeakerEncoder) -> int:
    """The fewest frames that can be mirrored at the ends of every convolution."""
    return max(max(conv.padding) for conv in encoder.modules() if isinstance(conv, Conv)) + 1


def speaker_encoder_program(checkpoint: Checkpoint) -> ProgramSpec:
    """The program of a checkpoint's speaker encoder.

    Raises:
        ExportError: the checkpoint has no speaker encoder, or one for another mel spectrogram than kz computes.
    """
    config = checkpoint.config.speaker_encoder_config
    if config is None:
        raise ExportError(f"{checkpoint.name} has no speaker encoder; only Base checkpoints have one")
    if (config.mel_dim, config.sample_rate) != (MEL_BINS, SAMPLE_RATE):
        raise ExportError(
            f"the speaker encoder hears {config.mel_dim} mel bins at {config.sample_rate} Hz, kz computes {MEL_BINS} at "
            f"{SAMPLE_RATE} Hz; use an official checkpoint"
        )
    encoder = SpeakerEncoder(lambda name: checkpoint.tensor(f"speaker_encoder.{name}"), config)
    return encoder_program(encoder, config.enc_dim)


def encoder_program(encoder: SpeakerEncoder, embedding_size: int) -> ProgramSpec:
    """The program `speaker_encoder`: method `encode` and its constants."""
    frames = torch.export.Dim("mel_frames", min=min_mel_frames(encoder), max=MAX_MEL_FRAMES)
    return ProgramSpec(
        name="speaker_encoder",
        # The example has the greatest length: the program's buffers are planned for it.
        methods={"encode": Method(encoder, (torch.zeros(1, MAX_MEL_FRAMES, MEL_BINS),), ({1: frames},))},
        constants={
            "contract_version": CONTRACT_VERSION,
            "mel_bins": MEL_BINS,
            "min_mel_frames": min_mel_frames(encoder),
            "max_mel_frames": MAX_MEL_FRAMES,
            "embedding_size": embedding_size,
            "sample_rate": SAMPLE_RATE,
        },
    )


def _conv(tensor: TensorSource, name: str, dilation: int = 1) -> Conv:
    return Conv(tensor(f"{name}.weight"), tensor(f"{name}.bias"), dilation)


def _root(variance: Tensor) -> Tensor:
    return torch.sqrt(variance.clamp(min=VARIANCE_FLOOR))
