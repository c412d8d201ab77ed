"""Mel spectrogram and speaker embedding against the reference's, for the same audio."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import SpeakerEncoderConfig
from kazeia.export.speaker_encoder import SpeakerEncoder
from kazeia.mel import mel_spectrogram
from tests.parity.reference import ReferenceCheckpoints, reference

TOLERANCE = 1e-4


def recording(seconds: float) -> np.ndarray:
    """Half a second of silence, then a gliding voice with a little noise and pauses; [n] float32 at 24 kHz."""
    time = np.arange(int(seconds * 24000)) / 24000
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * time)) / 24000
    voice = sum(0.2 / k * np.sin(k * phase + k) for k in range(1, 40)) * np.clip(np.sin(2 * np.pi * 2.5 * time), 0, 1)
    noise = np.random.default_rng(3).normal(0, 0.003, time.size)
    return ((voice + noise) * (time > 0.5)).astype(np.float32)


@pytest.mark.parametrize("seconds", [0.1, 3.21, 47.0])
def test_the_mel_spectrogram_is_the_references(seconds: float) -> None:
    samples = recording(seconds)
    modeling = reference("qwen_tts.core.models.modeling_qwen3_tts")
    want = modeling.mel_spectrogram(torch.from_numpy(samples)[None], 1024, 128, 24000, 256, 1024, 0, 12000)[0].T
    np.testing.assert_allclose(mel_spectrogram(samples), want.numpy(), atol=TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("seconds", [0.6, 3.21])
def test_the_embedding_is_the_references(seconds: float, reference_checkpoints: ReferenceCheckpoints) -> None:
    samples = recording(seconds)
    want = reference_checkpoints.model().model.extract_speaker_embedding(samples, 24000)
    checkpoint = Checkpoint.open(reference_checkpoints.folder())
    assert checkpoint.config.speaker_encoder_config is not None
    ours = SpeakerEncoder(lambda name: checkpoint.tensor(f"speaker_encoder.{name}"), checkpoint.config.speaker_encoder_config)
    embedding = ours(torch.from_numpy(mel_spectrogram(samples))[None])[0]
    assert want.std() > 0.01
    torch.testing.assert_close(embedding, want, atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_the_published_widths_too() -> None:
    modeling = reference("qwen_tts.core.models.modeling_qwen3_tts")
    torch.manual_seed(0)
    encoder = modeling.Qwen3TTSSpeakerEncoder(modeling.Qwen3TTSSpeakerEncoderConfig()).eval()
    weights = encoder.state_dict()
    ours = SpeakerEncoder(lambda name: weights[name].clone(), SpeakerEncoderConfig())
    mel = torch.from_numpy(mel_spectrogram(recording(2)))[None]
    torch.testing.assert_close(ours(mel), encoder(mel), atol=1e-5, rtol=0)
