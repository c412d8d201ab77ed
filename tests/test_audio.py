"""Recordings of every kind in, WAV files out, and what each bad one is told."""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kazeia.audio import read_recording, write_wav
from kazeia.errors import AudioError

RATES = [8000, 16000, 22050, 44100, 48000, 96000]


def voice(rate: int, seconds: float = 1.0) -> np.ndarray:
    """Something like a vowel: [n] float32."""
    time = np.arange(int(seconds * rate)) / rate
    return sum(0.3 / k * np.sin(2 * np.pi * 150 * k * time) for k in range(1, 9)).astype(np.float32)


def refusal(path: Path) -> str:
    with pytest.raises(AudioError) as caught:
        read_recording(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("rate", RATES)
def test_every_rate_becomes_24_khz(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "a.wav", voice(rate), rate, subtype="FLOAT")
    samples = read_recording(tmp_path / "a.wav")
    assert (samples.dtype, samples.shape) == (np.float32, (24000,))
    np.testing.assert_allclose(samples[1200:-1200], voice(24000)[1200:-1200], atol=2e-3)


@pytest.mark.parametrize("rate", [16000, 22050, 44100])
def test_resampling_is_librosas(tmp_path: Path, rate: int) -> None:
    librosa = pytest.importorskip("librosa")
    stereo = np.stack([voice(rate, 0.70001), 0.5 * voice(rate, 0.70001)], 1)
    soundfile.write(tmp_path / "a.wav", stereo, rate, subtype="FLOAT")
    loaded, _ = librosa.load(tmp_path / "a.wav", sr=None, mono=True)
    np.testing.assert_array_equal(read_recording(tmp_path / "a.wav"), librosa.resample(loaded, orig_sr=rate, target_sr=24000))


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3", "AIFF", "W64"])
@pytest.mark.parametrize("name", ["voice.wav", "VOICE.WAV", "voice.raw", "voice"])
def test_the_bytes_decide_not_the_name(tmp_path: Path, form: str, name: str) -> None:
    soundfile.write(tmp_path / name, voice(24000), 24000, format=form)
    assert read_recording(tmp_path / name).std() == pytest.approx(voice(24000).std(), rel=0.02)


def test_channels_are_averaged(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([voice(24000), -0.5 * voice(24000)], 1), 24000, subtype="FLOAT")
    np.testing.assert_allclose(read_recording(tmp_path / "a.wav"), 0.25 * voice(24000), atol=1e-7)


def test_silence_in_8_bits_stays_silence(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.r_[np.zeros(12000, np.float32), voice(24000)], 24000, subtype="PCM_U8")
    samples = read_recording(tmp_path / "a.wav")
    assert np.abs(samples[:12000]).max() == 0
    np.testing.assert_allclose(samples[12000:], voice(24000), atol=0.01)


def chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def test_extra_and_odd_chunks_are_no_sound(tmp_path: Path) -> None:
    levels = (voice(24000) * 32767).astype("<i2")
    form = chunk(b"fmt ", struct.pack("<HHIIHHH", 1, 1, 24000, 48000, 2, 16, 0))
    noise = bytes(range(1, 100))
    body = b"WAVE" + chunk(b"bext", noise * 7) + form + chunk(b"LIST", b"INFO" + noise) + chunk(b"fact", b"\x01\x02\x03\x04")
    body += chunk(b"data", levels.tobytes()) + chunk(b"LIST", b"INFO" + noise)
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    np.testing.assert_allclose(read_recording(tmp_path / "a.wav"), levels / 32768, atol=1e-7)


def test_a_quiet_recording_is_a_recording(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", voice(24000) * 0.0025, 24000)
    assert np.abs(read_recording(tmp_path / "a.wav")).max() > 1e-3


@pytest.mark.parametrize("level", [0.0, 0.25])
def test_silence_is_refused(tmp_path: Path, level: float) -> None:
    soundfile.write(tmp_path / "a.wav", np.full(24000, level), 24000)
    assert refusal(tmp_path / "a.wav").endswith(
        "a.wav is silent: all its samples are the same; check the microphone and record again"
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty (0 bytes); copy or record it again"),
        (b"\n<!DOCTYPE html><html><body>404", "is a web page, not a recording; download the recording itself"),
        (b"\xef\xbb\xbf<HTML>", "is a web page, not a recording; download the recording itself"),
        (b"\0\0\0 ftypM4A \0\0\0\0", "is an MP4 or M4A file; convert it: ffmpeg -i "),
        (b"\x1aE\xdf\xa3\x01\x00", "is a WebM or Matroska file; convert it: ffmpeg -i "),
        (b"\xff\xf1\x50\x80", "is an AAC file; convert it: ffmpeg -i "),
        (b"#!AMR\n", "is an AMR file; convert it: ffmpeg -i "),
        (b"0&\xb2u\x8ef\xcf\x11\xa6\xd9", "is a Windows Media file; convert it: ffmpeg -i "),
        (bytes(range(256)), "is not a sound file kz can read (Format not recognised); convert it: ffmpeg -i "),
        (b"RIFF\x24\0\0\0WAVEfmt ", "is not a sound file kz can read"),
    ],
)
def test_what_is_no_recording_is_named(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "voice.wav").write_bytes(data)
    assert refusal(tmp_path / "voice.wav").startswith(f"{tmp_path / 'voice.wav'} {told}")


def test_the_command_to_convert_is_quoted_and_keeps_the_original(tmp_path: Path) -> None:
    (tmp_path / "my voice.m4a").write_bytes(b"\0\0\0 ftypM4A ")
    command = refusal(tmp_path / "my voice.m4a").split("convert it: ")[1]
    assert command == f"ffmpeg -i '{tmp_path}/my voice.m4a' -ac 1 -ar 24000 '{tmp_path}/my voice-24k.wav'"


@pytest.mark.parametrize(("form", "lost_bytes"), [("OGG", 100), ("MP3", 3000)])
def test_what_is_left_of_a_cut_off_file_is_read(tmp_path: Path, form: str, lost_bytes: int) -> None:
    soundfile.write(tmp_path / "a", voice(24000, 5), 24000, format=form)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-lost_bytes])
    assert 12000 <= read_recording(tmp_path / "a").size < 120000


@pytest.mark.parametrize("form", ["OGG", "MP3", "FLAC", "WAV"])
@pytest.mark.parametrize("left", [0.02, 0.05, 0.3, 0.5, 0.9])
def test_a_cut_off_file_is_never_a_surprise(tmp_path: Path, form: str, left: float) -> None:
    soundfile.write(tmp_path / "a", voice(24000, 5), 24000, format=form)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[: int((tmp_path / "a").stat().st_size * left)])
    with contextlib.suppress(AudioError):
        assert read_recording(tmp_path / "a").size >= 12000


def test_a_header_without_sound(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 24000)
    assert refusal(tmp_path / "a.wav").endswith("a.wav holds no sound, or is cut off; copy or record it again")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.25, "lasts 0.25 s, less than 0.5 s; record 3 to 30 s of clear speech"),
        (61, "lasts 61.0 s, more than 60 s; cut out 3 to 30 s of clear speech"),
    ],
)
def test_lengths_have_limits(tmp_path: Path, seconds: float, told: str) -> None:
    soundfile.write(tmp_path / "a.wav", voice(8000, seconds), 8000)
    assert refusal(tmp_path / "a.wav").endswith(told)


def test_samples_that_are_no_numbers(tmp_path: Path) -> None:
    samples = voice(24000)
    samples[100] = np.nan
    soundfile.write(tmp_path / "a.wav", samples, 24000, subtype="FLOAT")
    assert "a.wav has samples that are not numbers; convert it: ffmpeg" in refusal(tmp_path / "a.wav")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert "Is a directory; give the path of a recording" in refusal(tmp_path)
    assert "No such file or directory; give the path of a recording" in refusal(tmp_path / "none.wav")


def read_wav(path: Path) -> tuple[wave._wave_params, np.ndarray]:
    with wave.open(str(path)) as file:
        return file.getparams(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_a_wav_file_has_the_header_it_should(tmp_path: Path) -> None:
    samples = voice(24000)
    assert write_wav(tmp_path / "a.wav", samples, 24000) == 0
    header, levels = read_wav(tmp_path / "a.wav")
    assert header[:4] == (1, 2, 24000, 24000)
    assert (tmp_path / "a.wav").stat().st_size == 44 + 48000
    np.testing.assert_allclose(levels / 32767, samples, atol=0.5 / 32767 + 1e-7)


@pytest.mark.parametrize(
    "command", [["soxi", "-r"], ["ffprobe", "-v", "error", "-show_entries", "stream=sample_rate", "-of", "csv=p=0"]]
)
def test_other_programs_read_the_header(tmp_path: Path, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    write_wav(tmp_path / "a.wav", voice(24000), 24000)
    assert subprocess.run([*command, tmp_path / "a.wav"], capture_output=True, text=True, check=True).stdout.strip() == "24000"


def test_loud_samples_are_clamped_and_counted(tmp_path: Path) -> None:
    samples = np.array([0, 1, 1.02, -1, -1.0001, 30, -3e38, 0.5], np.float32)
    assert write_wav(tmp_path / "a.wav", samples, 24000) == 4
    assert read_wav(tmp_path / "a.wav")[1].tolist() == [0, 32767, 32767, -32767, -32767, 32767, -32767, 16384]


def test_no_samples_make_an_empty_file(tmp_path: Path) -> None:
    assert write_wav(tmp_path / "a.wav", np.zeros(0, np.float32), 24000) == 0
    assert read_wav(tmp_path / "a.wav")[0].nframes == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_not_written(tmp_path: Path, value: float) -> None:
    samples = np.zeros(10, np.float32)
    samples[7] = value
    with pytest.raises(AudioError, match=rf"sample 7 is {value}, not a number"):
        write_wav(tmp_path / "a.wav", samples, 24000)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wav(tmp_path / "a.wav", voice(24000), 24000)
    before = (tmp_path / "a.wav").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wave.Wave_write.writeframes", full)
    with pytest.raises(AudioError, match=r"cannot write .*a\.wav: No space left on device; choose another place"):
        write_wav(tmp_path / "a.wav", voice(24000), 24000)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


TARGETS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no folder": (lambda folder: folder / "no" / "a.wav", "No such file or directory; choose another place"),
    "a folder": (lambda folder: folder, "it is not an ordinary file; name another one"),
    "a device": (lambda _: Path("/dev/null"), "it is not an ordinary file; name another one"),
}


@pytest.mark.parametrize(("target", "told"), TARGETS.values(), ids=TARGETS.keys())
def test_targets_that_cannot_be_written(tmp_path: Path, target: Callable[[Path], Path], told: str) -> None:
    path = target(tmp_path)
    with pytest.raises(AudioError) as caught:
        write_wav(path, voice(24000), 24000)
    assert str(caught.value) == f"cannot write {path}: {told}"
