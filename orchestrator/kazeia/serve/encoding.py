"""Samples to bytes of one format: chunk by chunk for a stream, or all at the end.

A streamed WAV counts 0xFFFFFFFF bytes, which readers take for "until the end"; a streamed FLAC leaves its length and
checksum zero, which the format defines as unknown.
"""

from __future__ import annotations

import io
import struct
import wave
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from kazeia.audio import to_levels
from kazeia.serve.speech_request import AudioFormat

Floats = NDArray[np.float32]

UNKNOWN_BYTES = 0xFFFFFFFF
FLAC_COMPRESSION = 0.25
"""libFLAC's level 2 of 8: blocks of 1,152 samples, so that the first frame of speech already fills one."""

MEDIA_TYPES: dict[AudioFormat, str] = {"wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac"}


class Encoder(ABC):
    """Encodes one piece of speech: mono, 16 bits."""

    @abstractmethod
    def encode(self, samples: Floats) -> bytes:
        """Bytes to send now for `samples` `[n]`; may be empty."""

    @abstractmethod
    def finish(self) -> bytes:
        """Whatever remains to be sent."""


class PcmStream(Encoder):
    """Little-endian 16-bit samples, nothing else."""

    def encode(self, samples: Floats) -> bytes:
        return to_levels(samples).tobytes()

    def finish(self) -> bytes:
        return b""


class WavStream(PcmStream):
    """A header of unknown length, then samples."""

    def __init__(self, sample_rate: int) -> None:
        self._header = wav_header(sample_rate, UNKNOWN_BYTES)

    def encode(self, samples: Floats) -> bytes:
        header, self._header = self._header, b""
        return header + super().encode(samples)


class FlacStream(Encoder):
    """libsndfile writes into memory that is emptied after each chunk."""

    def __init__(self, sample_rate: int) -> None:
        from soundfile import SoundFile

        self._outbox = _Outbox()
        self._sound = SoundFile(self._outbox, "w", sample_rate, 1, "PCM_16", format="FLAC", compression_level=FLAC_COMPRESSION)

    def encode(self, samples: Floats) -> bytes:
        self._sound.write(to_levels(samples))
        return self._outbox.take()

    def finish(self) -> bytes:
        self._sound.close()
        return self._outbox.take()


class Whole(Encoder):
    """Keeps everything until the end, so that lengths are right."""

    def __init__(self, audio_format: AudioFormat, sample_rate: int) -> None:
        self._format = audio_format
        self._rate = sample_rate
        self._chunks: list[NDArray[np.int16]] = []

    def encode(self, samples: Floats) -> bytes:
        self._chunks.append(to_levels(samples))
        return b""

    def finish(self) -> bytes:
        levels = np.concatenate(self._chunks) if self._chunks else np.zeros(0, "<i2")
        if self._format == "pcm":
            return levels.tobytes()
        file = io.BytesIO()
        if self._format == "flac":
            import soundfile

            soundfile.write(file, levels, self._rate, "PCM_16", format="FLAC")
        else:
            with wave.open(file, "wb") as sound:
                sound.setparams((1, 2, self._rate, len(levels), "NONE", ""))
                sound.writeframes(levels.tobytes())
        return file.getvalue()


def make_encoder(audio_format: AudioFormat, sample_rate: int, *, stream: bool) -> Encoder:
    if not stream:
        return Whole(audio_format, sample_rate)
    if audio_format == "pcm":
        return PcmStream()
    return WavStream(sample_rate) if audio_format == "wav" else FlacStream(sample_rate)


def wav_header(sample_rate: int, size_bytes: int) -> bytes:
    """The 44 bytes before mono 16-bit samples."""
    riff_bytes = size_bytes if size_bytes == UNKNOWN_BYTES else size_bytes + 36
    layout = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return b"RIFF" + struct.pack("<I", riff_bytes) + b"WAVEfmt " + layout + b"data" + struct.pack("<I", size_bytes)


class _Outbox:
    """The file libsndfile sees: what is appended is sent; what would change bytes already sent is dropped."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._position = 0
        self._end = 0

    def write(self, data: bytes | memoryview) -> int:
        if self._position == self._end:
            self._pending += data
            self._end += len(data)
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._end}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        data = bytes(self._pending)
        self._pending.clear()
        return data
