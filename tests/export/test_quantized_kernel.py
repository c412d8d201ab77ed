"""The speech decoder with 8-bit convolutions, as a module and as a lowered program."""

from __future__ import annotations

import copy
import math

import msgspec
import pytest
import torch

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.errors import ExportError
from kazeia.export.lowering import lower
from kazeia.export.quantized_kernel import LEAST_CHANNELS, QuantizedKernel, quantize_kernels
from kazeia.export.speech_decoder import SpeechDecoder, decoder_program
from kazeia.export.streaming_layers import CausalConv, Memory, OverlappingUpsample, PointwiseConv
from tests.export.codec_oracle import decode, decoder_config, empty_states, make_decoder, random_codes

CONFIG = decoder_config() | {"decoder_dim": 512}
FRAMES = 8


def decibels(true: torch.Tensor, found: torch.Tensor) -> float:
    """By how much `true` is louder than its difference from `found`."""
    return 10 * math.log10(float(true.square().mean() / (true - found).square().mean()))


@pytest.fixture(scope="module")
def decoder() -> SpeechDecoder:
    return make_decoder(CONFIG, FRAMES)


@pytest.fixture(scope="module")
def program(decoder: SpeechDecoder) -> bytes:
    spec = decoder_program(copy.deepcopy(decoder), msgspec.convert(CONFIG, CodecDecoderConfig), FRAMES, 24000)
    return lower(spec, "xnnpack", "8da8w")


def test_each_output_channel_has_a_scale_of_its_own() -> None:
    torch.manual_seed(0)
    loud = torch.logspace(-3, 0, 128)
    for layer, x in (
        (CausalConv(torch.randn(128, 160, 3) * loud[:, None, None], torch.zeros(128)), torch.randn(1, 160, 20, 1)),
        (OverlappingUpsample(torch.randn(160, 128, 4) * loud[None, :, None], torch.zeros(128)), torch.randn(1, 160, 20, 1)),
    ):
        memory = [torch.zeros(layer.state_shapes[0])]
        exact = layer(x, Memory(memory))
        quantize_kernels([layer])
        assert isinstance(layer.kernel, QuantizedKernel)
        assert layer.kernel.integers.dtype == torch.int8
        found = layer(x, Memory(memory))
        assert min(decibels(exact[:, channel], found[:, channel]) for channel in range(128)) > 32


def test_narrow_and_grouped_convolutions_stay_as_they_are() -> None:
    narrow = PointwiseConv(torch.randn(LEAST_CHANNELS, LEAST_CHANNELS - 1), None)
    grouped = CausalConv(torch.randn(128, 1, 7), torch.zeros(128), groups=128)
    wide = PointwiseConv(torch.randn(LEAST_CHANNELS, LEAST_CHANNELS), None)
    for layer in (narrow, grouped, wide):
        quantize_kernels([layer])
    assert [isinstance(layer.kernel, QuantizedKernel) for layer in (narrow, grouped, wide)] == [False, False, True]


def test_eight_bits_sound_like_thirty_two(decoder: SpeechDecoder, program: bytes) -> None:
    from executorch.runtime import Runtime

    codes = random_codes(CONFIG, FRAMES)
    whole = decode(decoder, codes, FRAMES)
    method = Runtime.get().load_program(program).load_method("decode")
    assert decibels(whole, method.execute([codes, *empty_states(decoder)])[0]) > 30


def test_the_program_is_smaller(decoder: SpeechDecoder, program: bytes) -> None:
    spec = decoder_program(decoder, msgspec.convert(CONFIG, CodecDecoderConfig), FRAMES, 24000)
    assert len(program) < 0.5 * len(lower(spec, "xnnpack", "fp32"))


def test_the_quantised_program_is_one_delegate_too(program: bytes) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    (plan,) = (plan for plan in deserialize_pte_binary(program).program.execution_plan if plan.name == "decode")
    assert [delegate.id for delegate in plan.delegates] == ["XnnpackBackend"]
    assert not any("quantize" in operator.name for operator in plan.operators)


def test_four_bits_are_refused(decoder: SpeechDecoder) -> None:
    spec = decoder_program(decoder, msgspec.convert(CONFIG, CodecDecoderConfig), FRAMES, 24000)
    with pytest.raises(ExportError, match="convolutions have no kernels with 4-bit weights; choose fp32 or 8da8w"):
        lower(spec, "xnnpack", "8da4w")
