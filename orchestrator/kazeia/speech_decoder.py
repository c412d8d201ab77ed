"""Frames to sound through a decoding runner, chunk by chunk with carried state."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Model
from kazeia.errors import AudioError, RunnerError
from kazeia.runner_client import Audio, RunnerClient

Codes: TypeAlias = NDArray[np.int16]
Samples: TypeAlias = NDArray[np.float32]


class SpeechDecoder:
    """One stream of speech at a time; `start` forgets the last one."""

    def __init__(self, client: RunnerClient, model: Model) -> None:
        self.decode_ms = 0.0
        self.peak_rss_bytes = 0
        self._client = client
        self._model = model
        self._fresh = True

    def start(self, reference_codes: Codes) -> None:
        """Begin a new stream that has already heard `reference_codes` `[R, 16]` (ICL: the reference decodes them too)."""
        self._fresh = True
        self.decode_ms = 0.0
        if len(reference_codes):
            self.decode(reference_codes)

    def decode(self, codes: Codes) -> Samples:
        """Decode the stream's next frames.

        Args:
            codes: int16 `[frames, 16]`, at least one frame.

        Returns:
            float32 `[frames * samples_per_frame]` in [-1, 1].

        Raises:
            RunnerError: the runner reports an error, died, hangs or answers garbage.
            AudioError: the decoder gave something that is not sound.
        """
        header = {"type": "decode", "frames": len(codes), "reset": self._fresh}
        self._client.send(header, np.ascontiguousarray(codes, "<i2").tobytes())
        answer, payload = self._client.receive()
        samples = np.frombuffer(payload, "<f4")
        if not isinstance(answer, Audio) or len(samples) != len(codes) * self._model.samples_per_frame:
            raise RunnerError("the runner gave sound of the wrong length; install kazeia again")
        if not np.isfinite(samples).all():
            raise AudioError("the speech decoder gave values that are not numbers; export the bundle again")
        self._fresh = False
        self.decode_ms += answer.decode_ms
        self.peak_rss_bytes = answer.peak_rss_bytes
        return samples
