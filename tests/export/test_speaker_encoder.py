"""The speaker encoder as a lowered program."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import Kind
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export.lowering import lower
from kazeia.export.program import ProgramSpec
from kazeia.export.speaker_encoder import MAX_MEL_FRAMES, speaker_encoder_program

MIN_MEL_FRAMES = 5


def make_checkpoint(folder: Path, kind: Kind) -> Checkpoint:
    write_random_checkpoint(folder, size="tiny", kind=kind, seed=4)
    return Checkpoint.open(folder)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", "base")


@pytest.fixture(scope="module")
def spec(checkpoint: Checkpoint) -> ProgramSpec:
    return speaker_encoder_program(checkpoint)


@pytest.fixture(scope="module")
def file(spec: ProgramSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "speaker_encoder.pte"
    path.write_bytes(lower(spec, "xnnpack", "fp32"))
    return path


@torch.no_grad()
def test_the_program_takes_any_length(spec: ProgramSpec, file: Path) -> None:
    from executorch.runtime import Runtime

    method, module = Runtime.get().load_program(file).load_method("encode"), spec.methods["encode"].module
    for frames in (50, MIN_MEL_FRAMES, 6, MAX_MEL_FRAMES, 333):
        mel = torch.randn(1, frames, 128, generator=torch.Generator().manual_seed(frames)) * 3 - 5
        (embedding,) = method.execute([mel])
        torch.testing.assert_close(embedding, module(mel), atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_embedding_depends_on_the_voice(spec: ProgramSpec) -> None:
    module, generator = spec.methods["encode"].module, torch.Generator().manual_seed(1)
    mels = [torch.randn(1, 200, 128, generator=generator) - 5 + 3 * torch.randn(1, 1, 128, generator=generator) for _ in range(2)]
    first, second = (module(mel)[0] for mel in mels)
    assert (first - second).abs().max() > 0.01
    torch.testing.assert_close(module(torch.cat([mels[0]] * 2, 1))[0], first, atol=0.05, rtol=0)


def test_the_program_states_its_sizes(spec: ProgramSpec) -> None:
    assert spec.constants == {
        "contract_version": 1,
        "mel_bins": 128,
        "min_mel_frames": MIN_MEL_FRAMES,
        "max_mel_frames": 5625,
        "embedding_size": 64,
        "sample_rate": 24000,
    }


def test_a_checkpoint_without_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="voice has no speaker encoder; only Base checkpoints have one"):
        speaker_encoder_program(make_checkpoint(tmp_path / "voice", "custom_voice"))


def test_another_spectrogram_is_named(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "voice", "base")
    assert checkpoint.config.speaker_encoder_config is not None
    hearing = msgspec.structs.replace(checkpoint.config.speaker_encoder_config, sample_rate=16000)
    checkpoint.config = msgspec.structs.replace(checkpoint.config, speaker_encoder_config=hearing)
    with pytest.raises(ExportError, match="hears 128 mel bins at 16000 Hz, kz computes 128 at 24000 Hz; use an official"):
        speaker_encoder_program(checkpoint)
