"""Samples to bytes, chunk by chunk."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kazeia.audio import to_levels, write_wav
from kazeia.serve.encoding import FlacStream, Whole, make_encoder, wav_header
from kazeia.serve.speech_response import content_disposition

RATE = 24000


def noise(*sizes: int) -> list[np.ndarray]:
    random = np.random.default_rng(4)
    return [(0.5 * random.standard_normal(size)).astype(np.float32) for size in sizes]


def test_levels_are_those_of_a_wav_file(tmp_path: Path) -> None:
    samples = np.concatenate([*noise(5000), np.array([1.0, -1.0, 1.02, -1.0001, 0.5 / 32767, 1.5 / 32767], np.float32)])
    write_wav(tmp_path / "a.wav", samples, RATE)
    assert (tmp_path / "a.wav").read_bytes()[44:] == to_levels(samples).tobytes()


@pytest.mark.parametrize("audio_format", ["wav", "pcm", "flac"])
def test_chunks_of_any_size_join_to_the_whole(audio_format: str) -> None:
    chunks = noise(1920, 3840, 1, 30720, 7)
    encoder = make_encoder(audio_format, RATE, stream=True)
    data = b"".join([*(encoder.encode(chunk) for chunk in chunks), encoder.finish()])
    expected = to_levels(np.concatenate(chunks)).tobytes()
    if audio_format == "flac":
        assert len(data) < 1.1 * len(expected)
        assert data[:4] == b"fLaC"
    else:
        assert data[-len(expected) :] == expected
        assert len(data) == len(expected) + (44 if audio_format == "wav" else 0)


def test_the_first_frame_of_speech_already_gives_flac_sound() -> None:
    silent = FlacStream(RATE)
    head = len(silent.encode(np.zeros(0, np.float32)))
    assert len(FlacStream(RATE).encode(noise(1920)[0])) > head + 1000


@pytest.mark.parametrize("audio_format", ["wav", "flac"])
def test_a_whole_file_counts_its_samples(audio_format: str) -> None:
    chunks = noise(1920, 100)
    encoder = Whole(audio_format, RATE)
    assert [encoder.encode(chunk) for chunk in chunks] == [b"", b""]
    levels, rate = soundfile.read(io.BytesIO(encoder.finish()), dtype="int16")
    assert rate == RATE
    np.testing.assert_array_equal(levels, to_levels(np.concatenate(chunks)))


def test_a_wav_header_is_that_of_the_standard_library() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, RATE, 0, "NONE", ""))
        sound.writeframes(bytes(200))
    assert file.getvalue()[:44] == wav_header(RATE, 200)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("anna-7.wav", 'attachment; filename="anna-7.wav"'),
        ("é.wav", "attachment; filename=\"e.wav\"; filename*=UTF-8''%C3%A9.wav"),
        ("声音", "attachment; filename=\"speech\"; filename*=UTF-8''%E5%A3%B0%E9%9F%B3"),
        ('a"\r\nX: y', "attachment; filename=\"a___X_ y\"; filename*=UTF-8''a%22%0D%0AX%3A%20y"),
        ("../../x", "attachment; filename=\"_.._x\"; filename*=UTF-8''..%2F..%2Fx"),
    ],
)
def test_download_names_are_ascii_with_the_true_name_beside(name: str, header: str) -> None:
    assert content_disposition(name) == header
