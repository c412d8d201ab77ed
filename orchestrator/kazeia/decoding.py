"""Decoding given frames on this machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Bundle
from kazeia.defaults import LARGEST_CHUNK_FRAMES
from kazeia.devices.local import LocalDevice
from kazeia.runner_client import RunnerClient
from kazeia.speech_decoder import SpeechDecoder


def decode_all(
    bundle: Bundle, codes: NDArray[np.int16], threads: int | None, progress: Callable[[int], None]
) -> tuple[NDArray[np.float32], float]:
    """Decode `codes` `[frames, 16]` as one stream.

    Returns:
        float32 samples `[frames * samples_per_frame]`, and the milliseconds spent decoding.

    Raises:
        RunnerError, AudioError: see `SpeechDecoder.decode`.
    """
    with RunnerClient(LocalDevice(), bundle.folder, "decode", threads) as client:
        client.wait_ready()
        decoder = SpeechDecoder(client, bundle.manifest.model)
        chunks = []
        for start in range(0, len(codes), LARGEST_CHUNK_FRAMES):
            chunks.append(decoder.decode(codes[start : start + LARGEST_CHUNK_FRAMES]))
            progress(min(start + LARGEST_CHUNK_FRAMES, len(codes)))
        return np.concatenate(chunks), decoder.decode_ms
