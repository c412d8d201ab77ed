"""The speech decoder with stages on the NPU: cut apart, in the NPU's forms, and in Qualcomm's emulator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.checkpoint.presets import Size, codec_config
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export.calibration import Codes
from kazeia.export.npu_decoder_layers import HalfPeriodSnake
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import build
from kazeia.export.qnn_quantize import Recipe
from kazeia.export.qnn_speech_decoder import PlacedDecoder, chunk_frames, cut_decoder, place_decoder
from kazeia.export.quality_measures import sqnr_db
from kazeia.export.speech_decoder import STAGES, SpeechDecoder, Stage
from kazeia.export.streaming_layers import Snake, state_shapes
from tests.export.codec_oracle import decoder_config, decoder_weights

FRAMES = 2
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=1)
    return Checkpoint.open(folder)


def random_phrase(checkpoint: Checkpoint, frames: int) -> Codes:
    config = checkpoint.codec_config.decoder_config
    draw = np.random.default_rng(frames)
    return draw.integers(0, config.codebook_size, (frames, config.num_quantizers)).astype(np.int16)


@torch.no_grad()
def decode_whole(checkpoint: Checkpoint, phrase: Codes) -> Tensor:
    config = checkpoint.codec_config.decoder_config
    decoder = SpeechDecoder(lambda name: checkpoint.codec_tensor(f"decoder.{name}"), config, len(phrase)).eval()
    codes = torch.from_numpy(phrase.astype("int64")).transpose(0, 1)[None]
    samples: Tensor = decoder(codes, [torch.zeros(shape) for shape in state_shapes(decoder)])[0]
    return samples


@torch.no_grad()
def decode_placed(placed: PlacedDecoder, phrase: Codes) -> Tensor:
    """Chunk by chunk through all segments, as the runner does."""
    last = len(placed.segments) - 1
    return torch.cat([placed.segments[last](*inputs)[0] for inputs in placed.inputs(last, [phrase])], 1)


@pytest.mark.parametrize("on_npu", [STAGES, ("transformer",), ("upsample", "decoder"), ("quantizer", "pre_conv")], ids="+".join)
def test_segments_together_are_the_decoder(checkpoint: Checkpoint, on_npu: Sequence[Stage]) -> None:
    phrase = random_phrase(checkpoint, 12)
    placed = place_decoder(checkpoint, on_npu, FRAMES)
    assert len(placed.segments) == 1 + (on_npu[0] != STAGES[0]) + (on_npu[-1] != STAGES[-1])
    assert set(placed.segments[placed.npu].stages) == set(on_npu)
    torch.testing.assert_close(decode_placed(placed, phrase), decode_whole(checkpoint, phrase), atol=TOLERANCE, rtol=0)


def test_programs_name_their_segments(checkpoint: Checkpoint) -> None:
    placed = place_decoder(checkpoint, ("transformer", "upsample"), FRAMES)
    npu, cpu = placed.npu_spec(), placed.cpu_spec()
    assert cpu is not None
    assert (npu.name, list(npu.methods)) == ("speech_decoder_npu", ["decode_1"])
    assert (cpu.name, list(cpu.methods)) == ("speech_decoder", ["decode_0", "decode_2"])
    assert cpu.constants["segments"] == 3
    assert cpu.constants["max_frames"] == FRAMES
    whole = place_decoder(checkpoint, STAGES, FRAMES)
    assert (whole.npu_spec().name, whole.cpu_spec()) == ("speech_decoder", None)


def test_stages_on_the_npu_must_be_neighbours(checkpoint: Checkpoint) -> None:
    apart = [pair for pair in combinations(STAGES, 2) if STAGES.index(pair[1]) - STAGES.index(pair[0]) > 1]
    for on_npu in [(), *apart]:
        with pytest.raises(ExportError, match=r"must be neighbours, not (none|[a-z_]+, [a-z_]+); they are quantizer, pre_conv"):
            place_decoder(checkpoint, on_npu)


@pytest.mark.parametrize(("size", "frames"), [("tiny", 4), ("0.6b", 1)])
def test_a_wide_decoder_takes_fewer_frames_at_a_time(size: Size, frames: int) -> None:
    config = msgspec.convert(codec_config(size)["decoder_config"], CodecDecoderConfig)
    assert chunk_frames(config) == frames


def test_a_snake_may_turn_often() -> None:
    snake = Snake(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 1.0]))
    x = torch.linspace(-20, 20, 200).view(1, 2, 100, 1)
    torch.testing.assert_close(HalfPeriodSnake(snake)(x), snake(x), atol=2e-3, rtol=0)


def test_every_stage_comes_out_well_in_the_emulator() -> None:
    """All in one method, chunk after chunk with the emulator's own states."""
    config = decoder_config()
    weights = decoder_weights(config)
    codec = msgspec.convert(config, CodecDecoderConfig)
    placed = cut_decoder(lambda name: weights[name].clone(), codec, 24000, STAGES, FRAMES)
    built = build(placed.npu_spec(), QnnTarget("SM8750", for_emulator=True), Recipe("fp16"))
    phrase = np.random.default_rng(1).integers(0, codec.codebook_size, (3 * FRAMES, 16)).astype(np.int16)
    states, got, want = None, [], []
    for codes, float_states in placed.inputs(0, [phrase]):
        with torch.no_grad():
            want.append(placed.segments[0](codes, float_states)[0])
        samples, *states = built.emulated("decode_0", (codes, states or float_states))
        got.append(samples)
    assert sqnr_db(torch.cat(got, 1).numpy(), torch.cat(want, 1).numpy()) > 40
