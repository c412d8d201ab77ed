"""The speech decoder as a stream, and as a lowered program."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.export.lowering import lower
from kazeia.export.program import ProgramSpec
from kazeia.export.speech_decoder import SpeechDecoder, decoder_program, samples_per_frame
from kazeia.export.streaming_layers import state_shapes
from tests.export.codec_oracle import decode, decoder_config, decoder_weights, empty_states, make_decoder, random_codes

CONFIG = decoder_config()
FRAMES = 120
MAX_FRAMES = 32
SAMPLES_PER_FRAME = 12
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def decoder() -> SpeechDecoder:
    return make_decoder(CONFIG, FRAMES)


@pytest.fixture(scope="module")
def whole(decoder: SpeechDecoder) -> torch.Tensor:
    """The samples of `FRAMES` frames decoded at once."""
    return decode(decoder, random_codes(CONFIG, FRAMES), FRAMES)


@pytest.mark.parametrize("chunk", [1, 7, 25])
def test_chunks_equal_the_whole(decoder: SpeechDecoder, whole: torch.Tensor, chunk: int) -> None:
    assert whole.shape == (1, FRAMES * SAMPLES_PER_FRAME)
    assert whole.std() > 0.01
    torch.testing.assert_close(decode(decoder, random_codes(CONFIG, FRAMES), chunk), whole, atol=TOLERANCE, rtol=0)


def test_a_frame_is_heard_until_it_leaves_the_window(decoder: SpeechDecoder, whole: torch.Tensor) -> None:
    codes = random_codes(CONFIG, FRAMES)
    codes[:, :, 5] = 63 - codes[:, :, 5]
    changed = (decode(decoder, codes, FRAMES) - whole).abs()[0]
    assert changed[: 5 * SAMPLES_PER_FRAME].max() == 0
    assert changed[5 * SAMPLES_PER_FRAME : 6 * SAMPLES_PER_FRAME].max() > 1e-3
    # The one transformer layer sees 71 frames back, and the convolutions behind it 27.
    assert changed[76 * SAMPLES_PER_FRAME : 77 * SAMPLES_PER_FRAME].max() > TOLERANCE
    assert changed[104 * SAMPLES_PER_FRAME :].max() < TOLERANCE / 10


def test_states_keep_their_order_and_shapes(decoder: SpeechDecoder) -> None:
    _, states = decoder(random_codes(CONFIG, 3), empty_states(decoder))
    assert [tuple(state.shape) for state in states] == state_shapes(decoder)


def test_samples_are_clamped() -> None:
    weights = decoder_weights(CONFIG)
    weights["decoder.4.conv.weight"] *= 1000
    loud = SpeechDecoder(lambda name: weights[name], msgspec.convert(CONFIG, CodecDecoderConfig), 4)
    samples = decode(loud, random_codes(CONFIG, 4), 4)
    assert (samples.min(), samples.max()) == (-1, 1)


@pytest.fixture(scope="module")
def spec() -> ProgramSpec:
    return decoder_program(make_decoder(CONFIG, MAX_FRAMES), msgspec.convert(CONFIG, CodecDecoderConfig), MAX_FRAMES, 24000)


@pytest.fixture(scope="module")
def file(spec: ProgramSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder") / "speech_decoder.pte"
    path.write_bytes(lower(spec, "xnnpack", "fp32"))
    return path


@pytest.mark.parametrize("chunk", [1, 7, 25, MAX_FRAMES])
def test_the_program_decodes_chunks_of_any_size(file: Path, decoder: SpeechDecoder, whole: torch.Tensor, chunk: int) -> None:
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(file).load_method("decode")
    codes, states, samples = random_codes(CONFIG, FRAMES), empty_states(decoder), []
    for begin in range(0, FRAMES, chunk):
        outputs = method.execute([codes[:, :, begin : begin + chunk].contiguous(), *states])
        part, *states = (output.clone() for output in outputs)
        samples.append(part)
    torch.testing.assert_close(torch.cat(samples, 1), whole, atol=TOLERANCE, rtol=0)


def test_the_program_is_one_delegate_with_lookups_around_it(file: Path) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    (plan,) = (plan for plan in deserialize_pte_binary(file.read_bytes()).program.execution_plan if plan.name == "decode")
    assert [delegate.id for delegate in plan.delegates] == ["XnnpackBackend"]
    lookups = {"flip", "embedding", "slice_copy", "select_copy", "sum", "add", "sym_size"}
    assert {operator.name for operator in plan.operators} <= {f"aten::{name}" for name in lookups} | {"executorch_prim::add"}


def test_the_program_states_its_sizes(spec: ProgramSpec, decoder: SpeechDecoder) -> None:
    assert samples_per_frame(msgspec.convert(CONFIG, CodecDecoderConfig)) == SAMPLES_PER_FRAME
    assert spec.constants == {
        "contract_version": 1,
        "code_groups": 16,
        "codebook_size": 64,
        "max_frames": MAX_FRAMES,
        "samples_per_frame": SAMPLES_PER_FRAME,
        "sample_rate": 24000,
        "state_count": len(state_shapes(decoder)),
    }
