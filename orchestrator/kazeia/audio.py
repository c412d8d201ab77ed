"""Recordings in, WAV files out. soundfile and soxr are imported when a recording is read: speaking needs neither."""

from __future__ import annotations

import math
import shlex
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import AudioError
from kazeia.files import atomic_write

RECORDING_RATE = 24000
"""Samples per second of every recording after reading; the speaker encoder's rate."""

MIN_RECORDING_S = 0.5
"""Less is not a voice."""

MAX_RECORDING_S = 60.0
"""The speaker encoder's limit; more would not make a voice better."""

FULL_SCALE = 32767
"""Of 16-bit samples; a float of 1.0."""

MAX_WAV_BYTES = 2**32 - 1 - 36
"""Sample bytes a WAV file can count."""

SNIFFED_BYTES = 512

FOREIGN_FORMATS = (
    (4, b"ftyp", "an MP4 or M4A file"),
    (0, b"\x1aE\xdf\xa3", "a WebM or Matroska file"),
    (0, b"0&\xb2u\x8ef\xcf\x11", "a Windows Media file"),
    (0, b"\xff\xf1", "an AAC file"),
    (0, b"\xff\xf9", "an AAC file"),
    (0, b"#!AMR", "an AMR file"),
)
"""Formats libsndfile does not read: offset and bytes that tell them, and what to call them."""

Floats = NDArray[np.float32]


def read_recording(path: Path) -> Floats:
    """The recording as mono at 24 kHz, whatever its name ends in.

    WAV, FLAC, Ogg, MP3 and whatever else libsndfile reads; channels are averaged, then resampled as librosa does it.

    Returns:
        [n] float32, nominally within -1 and 1.

    Raises:
        AudioError: missing, not sound, of a format that must be converted first, damaged, too short, too long or silent.
    """
    try:
        # Unbuffered: libsndfile goes on where the descriptor stands.
        with path.open("rb", buffering=0) as file:
            head = file.read(SNIFFED_BYTES)
            _refuse_foreign(path, head)
            file.seek(0)
            samples, rate = _decode(path, file.fileno())
    except OSError as error:
        raise AudioError(f"cannot read {path}: {error.strerror}; give the path of a recording") from None
    if not np.isfinite(samples).all():
        raise AudioError(f"{path} has samples that are not numbers; {_convert(path)}")
    if np.ptp(samples) == 0:
        raise AudioError(f"{path} is silent: all its samples are the same; check the microphone and record again")
    return _resample(samples, rate)


def write_wav(path: Path, samples: Floats, sample_rate: int) -> int:
    """Write mono 16-bit PCM; the file appears whole or not at all.

    Args:
        samples: [n], nominally within -1 and 1; what lies beyond is clamped.
        sample_rate: samples per second.

    Returns:
        The number of clamped samples.

    Raises:
        AudioError: a sample is NaN or infinite, the sound is too long for a WAV file, or the file cannot be written.
    """
    finite = np.isfinite(samples)
    if not finite.all():
        first = int(np.argmin(finite))
        raise AudioError(f"cannot write {path}: sample {first} is {samples[first]}, not a number; export the bundle again")
    if 2 * samples.size > MAX_WAV_BYTES:
        raise AudioError(f"cannot write {path}: {samples.size} samples are too many for a WAV file; speak shorter texts")
    if path.exists() and not path.is_file():
        raise AudioError(f"cannot write {path}: it is not an ordinary file; name another one")
    levels = to_levels(samples)
    try:
        with atomic_write(path) as file, wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(sample_rate)
            sound.writeframes(levels.tobytes())
    except OSError as error:
        raise AudioError(f"cannot write {path}: {error.strerror}; choose another place") from None
    return int(np.count_nonzero(np.abs(samples) > 1.0))


def to_levels(samples: Floats) -> NDArray[np.int16]:
    """Samples as 16-bit numbers, little-endian, clamped; the same on every processor."""
    # Clamped while still float: what an integer conversion makes of larger values differs between processors.
    levels: NDArray[np.int16] = np.rint(np.clip(samples, -1.0, 1.0) * FULL_SCALE).astype("<i2")
    return levels


def _refuse_foreign(path: Path, head: bytes) -> None:
    if not head:
        raise AudioError(f"{path} is empty (0 bytes); copy or record it again")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        raise AudioError(f"{path} is a web page, not a recording; download the recording itself")
    for offset, mark, name in FOREIGN_FORMATS:
        if head[offset:].startswith(mark):
            raise AudioError(f"{path} is {name}; {_convert(path)}")


def _decode(path: Path, descriptor: int) -> tuple[Floats, int]:
    """Samples [n], channels averaged, and their rate. A descriptor, so that the name's ending says nothing."""
    import soundfile

    try:
        with soundfile.SoundFile(descriptor, closefd=False) as sound:
            rate: int = sound.samplerate
            # A header may promise any number: one frame more than is allowed is enough to tell.
            most = int(MAX_RECORDING_S * rate) + 1
            samples: Floats = sound.read(dtype="float32", always_2d=True, frames=most).mean(axis=1)
            promised_s, heard_s = sound.frames / rate, samples.size / rate
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip().rstrip(".")
        raise AudioError(f"{path} is not a sound file kz can read ({reason}); {_convert(path)}") from None
    if heard_s == 0:
        raise AudioError(f"{path} holds no sound, or is cut off; copy or record it again")
    if heard_s < MIN_RECORDING_S:
        raise AudioError(f"{path} lasts {heard_s:.2f} s, less than {MIN_RECORDING_S:g} s; record 3 to 30 s of clear speech")
    if heard_s > MAX_RECORDING_S:
        raise AudioError(f"{path} lasts {promised_s:.1f} s, more than {MAX_RECORDING_S:g} s; cut out 3 to 30 s of clear speech")
    return samples, rate


def _resample(samples: Floats, rate: int) -> Floats:
    """To 24 kHz, with librosa's default quality and its length: the exact one, rounded up."""
    if rate == RECORDING_RATE:
        return samples
    import soxr

    wanted = math.ceil(samples.size * RECORDING_RATE / rate)
    resampled = soxr.resample(samples, rate, RECORDING_RATE, quality="HQ")[:wanted]
    return np.pad(resampled, (0, wanted - resampled.size))


def _convert(path: Path) -> str:
    target = path.with_name(f"{path.stem}-24k.wav")
    return f"convert it: ffmpeg -i {shlex.quote(str(path))} -ac 1 -ar {RECORDING_RATE} {shlex.quote(str(target))}"
