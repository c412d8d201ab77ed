"""`kz voice`, `kz bundle` and `kz bench`, as a person uses them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.bundles import BABBLE, fake_model, write_fake_bundle
from tests.support.command import Kz
from tests.test_speak import RESULT_KEYS


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A second and a half that is no silence."""
    golden = np.load(Path(__file__).parent / "golden" / "babble.npz")["recording"]
    path = tmp_path / "VOICE.WAV"
    soundfile.write(path, golden[:36000], 24000, format="WAV")
    return path


def test_a_voice_is_made_from_a_recording_listed_spoken_with_and_removed(kz: Kz, recording: Path, tmp_path: Path) -> None:
    added = kz("voice", "add", "Zoë", recording)
    assert added.status == 0
    assert added.out.startswith("Zoë: 64 numbers, ")
    assert kz("voice", "list").out.splitlines() == ["Zoë", "babble (of the bundle)", "murmur (of the bundle)"]
    assert kz("voice", "list", "--json").json == {"voices": ["Zoë"], "bundle_voices": ["babble", "murmur"]}
    codes = {}
    for voice in ("Zoë", "babble", "murmur"):
        options = ["--voice", voice, "--seed", 1, "--max-frames", 20, "--codes-out", tmp_path / "x.npy"]
        assert kz("speak", "Bonjour.", "-o", tmp_path / "a.wav", *options).status in (0, 12)
        codes[voice] = np.load(tmp_path / "x.npy").tobytes()
    assert len(set(codes.values())) == 3
    assert kz("voice", "remove", "Zoë").out == "Zoë: removed\n"
    assert "unknown voice 'Zoë'" in kz.fails("speak", "Bonjour.", "-o", tmp_path / "b.wav", "--voice", "Zoë")


def test_the_bundles_first_voice_speaks_when_none_is_named(kz: Kz, tmp_path: Path) -> None:
    for name, options in (("a", []), ("b", ["--voice", "babble"])):
        kz("speak", "Bonjour.", "-o", tmp_path / f"{name}.wav", "--seed", 4, *options)
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()


def test_a_voice_with_reference_frames_clones_in_context(kz: Kz, tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.ones(64, np.float32))
    np.save(tmp_path / "c.npy", np.random.default_rng(0).integers(0, 128, (12, 16)))
    message = kz.fails("voice", "import", "ada", tmp_path / "e.npy", "--codes", tmp_path / "c.npy")
    assert "needs both --codes and --transcript" in message
    assert kz("voice", "import", "ada", tmp_path / "e.npy", "--codes", tmp_path / "c.npy", "--transcript", "Oh.").status == 0
    assert kz("voice", "import", "eve", tmp_path / "e.npy").status == 0
    results = {
        name: kz("speak", "Hi.", "-o", tmp_path / f"{name}.wav", "--voice", name, "--seed", 3, "--json").json
        for name in ("ada", "eve")
    }
    assert (tmp_path / "ada.wav").read_bytes() != (tmp_path / "eve.wav").read_bytes()
    assert soundfile.info(tmp_path / "ada.wav").frames == 1920 * results["ada"]["frames"]  # the reference itself is not heard


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html>", "is a web page"),
        (b"\x00" * 4000, "is not a sound file kz can read"),
        (b"ID3\x04" + b"\x00" * 50, "a.wav"),
    ],
)
def test_a_recording_that_is_none_makes_no_voice(kz: Kz, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    line = kz.fails("voice", "add", "x", tmp_path / "a.wav")
    assert message in line
    assert kz("voice", "list").out.splitlines() == ["babble (of the bundle)", "murmur (of the bundle)"]


def test_a_model_without_a_speaker_encoder_makes_no_voice(kz: Kz, tmp_path: Path, recording: Path) -> None:
    bundle = write_fake_bundle(tmp_path / "custom", fake_model("custom_voice"))
    message = kz.fails("voice", "add", "x", recording, "--bundle", bundle)
    assert "cannot clone a voice (it has no speaker encoder); export a Base checkpoint for kz voice add" in message


def test_bundle_info_shows_and_verifies(kz: Kz) -> None:
    outcome = kz("bundle", "info", BABBLE, "--verify")
    assert "talker: xnnpack fp32" in outcome.out
    assert "SHA-256 verified" in outcome.out
    manifest = kz("bundle", "info", BABBLE, "--json").json
    assert manifest["contract"] == 1
    assert {file["name"] for file in manifest["files"]} == {path.name for path in BABBLE.iterdir()} - {"manifest.json"}


def test_bundle_info_finds_a_changed_file(kz: Kz, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(BABBLE, tmp_path / "copy"))
    (copy / "tokenizer.json").write_bytes((copy / "tokenizer.json").read_bytes()[:-1] + b" ")
    assert "tokenizer.json was changed after the export" in kz.fails("bundle", "info", copy, "--verify")


def test_bench_gives_the_same_keys_as_speak_and_every_frame_it_was_asked_for(kz: Kz) -> None:
    result = json.loads(kz("bench", "--frames", 6, "--runs", 2, "--threads", 1, "--json").out)
    assert set(result) == (RESULT_KEYS - {"output", "text"}) | {"runs"}
    assert (result["frames"], result["runs"], result["stop_reason"]) == (6, 2, "frame_cap")
    assert result["talker_ms_per_frame"] > 0


def test_bench_reaches_the_end_of_the_context_and_refuses_what_is_beyond(kz: Kz) -> None:
    assert kz("bench", "--frames", 1014, "--runs", 1, "--json").json["frames"] == 1014
    assert "--frames must be at most 1014 for this bundle's context of 1024" in kz.fails("bench", "--frames", 1015)
