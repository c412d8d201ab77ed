"""A recording to a speaker embedding, through `speaker_encoder.pte`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kazeia.audio import read_recording
from kazeia.bundle import Bundle
from kazeia.devices.local import LocalDevice
from kazeia.errors import RunnerError, VoiceError
from kazeia.mel import mel_spectrogram
from kazeia.runner_client import Embedding, RunnerClient


def embed_recording(bundle: Bundle, recording: Path) -> NDArray[np.float32]:
    """The speaker embedding `[speaker_embedding_size]` of a recording (`extract_speaker_embedding`).

    Raises:
        VoiceError: the bundle has no speaker encoder.
        AudioError: the recording cannot be used.
        RunnerError: the runner failed.
    """
    if "speaker_encoder" not in bundle.manifest.programs:
        name = bundle.manifest.model.name
        raise VoiceError(f"{name} cannot clone a voice (it has no speaker encoder); export a Base checkpoint for kz voice add")
    mel = mel_spectrogram(read_recording(recording))
    with RunnerClient(LocalDevice(), bundle.folder, "embed") as client:
        client.wait_ready()
        header = {"type": "embed", "mel_frames": mel.shape[0], "mel_bins": mel.shape[1]}
        client.send(header, np.ascontiguousarray(mel, "<f4").tobytes())
        answer, payload = client.receive()
    embedding = np.frombuffer(payload, "<f4")
    if not isinstance(answer, Embedding) or embedding.size != bundle.manifest.model.speaker_embedding_size:
        raise RunnerError("the runner gave an embedding of the wrong width; export the bundle again")
    return embedding
