"""`kz speak` and its relatives on the built-in bundle: the whole path, as a person uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np
import pytest

from tests.support.bundles import BABBLE
from tests.support.command import Kz

RESULT_KEYS = {
    "output", "text", "frames", "audio_s", "stop_reason", "seed", "rtf", "load_ms", "prefill_ms", "talker_ms_per_frame",
    "predictor_ms_per_frame", "decode_ms_per_frame", "first_audio_ms", "total_ms", "peak_rss_mb", "device", "bundle",
    "kv_copied_bytes", "kv_copied_bytes_per_step", "calls_per_frame", "npu_calls_per_frame", "npu_emulated",
}  # fmt: skip


def codes_of(kz: Kz, folder: Path, *options: object, text: str = "Bonjour.") -> np.ndarray:
    outcome = kz("speak", text, "-o", folder / "x.wav", "--codes-out", folder / "x.npy", "--max-frames", 40, *options)
    assert outcome.status in (0, 12), outcome
    return np.load(folder / "x.npy")


def test_speaking_writes_a_wav_and_says_where(kz: Kz, tmp_path: Path) -> None:
    output = tmp_path / "out.wav"
    outcome = kz("speak", "Bonjour.", "-o", output, "--seed", 1)
    assert outcome.status == 0
    assert outcome.out.startswith(f"{output}: ")
    assert "tiny random stand-in" in outcome.err
    with wave.open(str(output)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
        assert file.getnframes() % 1920 == 0
        assert file.getnframes() > 0


def test_the_result_as_json_has_every_key_and_agrees_with_the_files(kz: Kz, tmp_path: Path) -> None:
    output, codes = tmp_path / "out.wav", tmp_path / "codes.npy"
    result = kz("speak", "Bonjour.", "-o", output, "--seed", 1, "--codes-out", codes, "--json").json
    assert set(result) == RESULT_KEYS
    frames = np.load(codes)
    assert (frames.dtype, frames.shape) == (np.int16, (result["frames"], 16))
    with wave.open(str(output)) as file:
        assert file.getnframes() == 1920 * result["frames"]
    assert result["audio_s"] == pytest.approx(0.08 * result["frames"])
    assert (result["stop_reason"], result["seed"], result["device"], result["bundle"]) == ("eos", 1, "local", str(BABBLE))
    assert 0 < result["first_audio_ms"] <= result["total_ms"]
    assert result["kv_copied_bytes"] >= 0


def test_the_same_seed_gives_the_same_codes_and_another_seed_others(kz: Kz, tmp_path: Path) -> None:
    first = codes_of(kz, tmp_path, "--seed", 7)
    np.testing.assert_array_equal(codes_of(kz, tmp_path, "--seed", 7), first)
    other = codes_of(kz, tmp_path, "--seed", 8)
    assert other.shape != first.shape or (other != first).any()


def test_one_and_two_threads_give_the_same_codes(kz: Kz, tmp_path: Path) -> None:
    one, two = codes_of(kz, tmp_path, "--seed", 7, "--threads", 1), codes_of(kz, tmp_path, "--seed", 7, "--threads", 2)
    np.testing.assert_array_equal(one, two)


def test_a_fresh_seed_is_told_so_that_it_can_be_used_again(kz: Kz, tmp_path: Path) -> None:
    result = kz("speak", "Bonjour.", "-o", tmp_path / "a.wav", "--codes-out", tmp_path / "a.npy", "--json").json
    again = codes_of(kz, tmp_path, "--seed", result["seed"])
    np.testing.assert_array_equal(again[:40], np.load(tmp_path / "a.npy")[:40])


def test_the_frame_cap_is_a_status_of_its_own(kz: Kz, tmp_path: Path) -> None:
    output = tmp_path / "out.wav"
    outcome = kz("speak", "Bonjour.", "-o", output, "--seed", 1, "--max-frames", 2, "--json")
    assert outcome.status == 12
    assert outcome.json["stop_reason"] == "frame_cap"
    assert "is cut off: the model had not ended after 2 frames; try another --seed, or raise --max-frames" in outcome.err
    assert output.exists()


def test_temperature_zero_is_said_to_be_greedy_and_is(kz: Kz, tmp_path: Path) -> None:
    outcome = kz("speak", "Hi.", "-o", tmp_path / "a.wav", "--temperature", 0, "--predictor-temperature", 0, "--max-frames", 5)
    assert "temperature 0 means greedy" in outcome.err
    zero = codes_of(kz, tmp_path, "--temperature", 0, "--predictor-temperature", 0)
    np.testing.assert_array_equal(zero, codes_of(kz, tmp_path, "--greedy"))


def test_text_may_come_from_standard_input(kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = codes_of(kz, tmp_path, "--seed", 3, text="Bonjour, toi.")
    (tmp_path / "text").write_bytes("\ufeffBonjour, toi.".encode())
    with (tmp_path / "text").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        np.testing.assert_array_equal(codes_of(kz, tmp_path, "--seed", 3, text="-"), spoken)


def test_text_that_begins_with_a_dash_is_text_after_two_dashes(kz: Kz, tmp_path: Path) -> None:
    outcome = kz("speak", "-o", tmp_path / "a.wav", "--seed", 1, "--json", "--", "-5 degrees")
    assert outcome.json["text"] == "-5 degrees"


def test_codes_decode_to_the_same_sound_again(kz: Kz, tmp_path: Path) -> None:
    codes_of(kz, tmp_path, "--seed", 5)
    outcome = kz("decode", tmp_path / "x.npy", "-o", tmp_path / "y.wav")
    assert outcome.status == 0

    def samples(name: str) -> np.ndarray:
        with wave.open(str(tmp_path / name)) as file:
            return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(int)

    assert np.abs(samples("x.wav") - samples("y.wav")).max() <= 1


def test_speaking_never_imports_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from kazeia.cli import run; "
        f"status = run(['speak', 'Bonjour.', '-o', {str(tmp_path / 'a.wav')!r}, '--seed', '1']); "
        "heavy = {'torch', 'executorch', 'transformers', 'scipy', 'librosa', 'paramiko', 'jinja2'} & set(sys.modules); "
        "sys.exit(f'{status} {heavy}' if status or heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_ctrl_c_leaves_no_file_and_no_runner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "speak", "a" * 400, "-o", str(tmp_path / "a.wav")]
    process = subprocess.Popen([*command, "--max-frames", "900", "--seed", "2"], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not (children := _children(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert b"interrupted" in errors
    assert b"Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    while any(map(_is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [child for child in children if _is_running(child)]


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
