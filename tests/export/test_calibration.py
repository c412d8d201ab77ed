"""Calibration: what is recorded, what a run leaves when it is killed, and what an export refuses."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export import service
from kazeia.export.calibration import HELD_OUT_EVERY, Calibration, read_index, read_recording, write_index
from kazeia.export.calibration_run import PHRASES, calibrate
from kazeia.export.talker import Talker
from kazeia.files import sha256
from kazeia.phrases import PhraseList
from scripts.babble_checkpoint import write_babble_checkpoint
from tests.export.export_oracles import causal_mask
from tests.support.bundles import BABBLE
from tests.support.command import Kz

TEXTS = ("Bonjour.", "Hello you!", "Eins, zwei, drei?", "Да.", "Ciao.", "Olá.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the built-in bundle was exported from."""
    folder = tmp_path_factory.mktemp("checkpoint") / "builtin"
    write_babble_checkpoint(folder)
    return folder


@pytest.fixture(scope="module")
def phrases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("phrases") / "list.txt"
    path.write_text("\n".join(TEXTS))
    return path


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("voice") / "v.npy"
    np.save(path, np.random.default_rng(0).standard_normal(64, np.float32))
    return str(path)


def place_fp32_bundle(folder: Path, checkpoint: Path) -> None:
    """As if a run had been killed after its fp32 export: exporting would take most of a minute."""
    from kazeia import __version__
    from kazeia.checkpoint.identity import checkpoint_sha256
    from kazeia.export.calibration import FORMAT, Index, Settings

    shutil.copytree(BABBLE, folder / "fp32")
    identity = checkpoint_sha256(Checkpoint.open(checkpoint))
    write_index(folder, Index(FORMAT, __version__, "builtin", identity, Settings("", None), 0, []))


@pytest.fixture(scope="module")
def calibrated(checkpoint: Path, phrases: Path, voice: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrations") / "whole"
    folder.mkdir()
    place_fp32_bundle(folder, checkpoint)
    calibrate(checkpoint, folder, phrases, [voice], max_frames=12)
    return folder


@pytest.fixture
def copy(calibrated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(calibrated, tmp_path / "copy"))


def test_the_projects_phrases_are_five_in_each_of_ten_languages() -> None:
    with PhraseList(PHRASES) as listed:
        phrases = list(listed)
    assert len(phrases) == 50
    assert set(Counter(phrase.language for phrase in phrases).values()) == {5}
    assert len({phrase.text for phrase in phrases}) == 50
    for language in {phrase.language for phrase in phrases}:
        texts = [phrase.text for phrase in phrases if phrase.language == language]
        assert any(text.rstrip().endswith(("?", "?")) for text in texts), language
        assert any(text.rstrip().endswith(("!", "!")) for text in texts), language


def test_what_is_recorded_is_what_the_models_saw(calibrated: Path, checkpoint: Path) -> None:
    opened = Checkpoint.open(checkpoint)
    calibration = Calibration.open(calibrated, opened)
    assert [one.text for one in calibration.recorded] == list(TEXTS)
    assert calibration.frames == sum(len(codes) for codes in calibration.speech_decoder_samples()) > 12
    assert len(list(calibration.predictor_samples())) == calibration.frames
    config = opened.config.talker_config
    talker = Talker(config, opened.tensor, 64).eval()
    recording = next(iter(calibration.recordings()))
    sample = next(iter(calibration.talker_samples()))
    assert sample.embeds.shape == (sample.prompt_tokens + len(recording.codes), config.hidden_size)
    for frame in (0, len(recording.codes) - 1):
        # The hidden state that frame was predicted from, by the module that is exported, one prefix at a time.
        prefix = torch.from_numpy(sample.embeds[: sample.prompt_tokens + frame])[None]
        tokens = prefix.shape[1]
        past = [torch.zeros(1, config.num_key_value_heads, config.head_dim)] * config.num_hidden_layers
        with torch.no_grad():
            logits, hidden, *_ = talker(prefix, torch.arange(tokens), causal_mask(0, tokens), past, past)
        np.testing.assert_allclose(recording.hidden[frame], hidden[0].numpy(), atol=1e-4)
        # The code that was drawn is among the 50 likeliest.
        kept = torch.topk(logits[0, : config.code_predictor_config.vocab_size], 60).indices
        assert recording.codes[frame, 0] in kept


def test_recorded_frames_are_what_kz_speak_says_with_the_same_seed(
    calibrated: Path, voice: str, tmp_path: Path, kz: Kz, checkpoint: Path
) -> None:
    one = Calibration.open(calibrated, Checkpoint.open(checkpoint)).recorded[0]
    options = ("--bundle", BABBLE, "--voice", voice, "--seed", one.seed, "--max-frames", 12, "--codes-out", tmp_path / "c.npy")
    kz("speak", one.text, "-o", tmp_path / "a.wav", *options)
    assert np.array_equal(np.load(tmp_path / "c.npy"), read_recording(calibrated / one.file).codes)


def test_held_out_phrases_are_not_fitted_to(calibrated: Path, checkpoint: Path) -> None:
    calibration = Calibration.open(calibrated, Checkpoint.open(checkpoint))
    fitted = {one.text for one in calibration.fitting().recorded}
    held = {one.text for one in calibration.held_out().recorded}
    assert held == {TEXTS[HELD_OUT_EVERY - 1]}
    assert fitted | held == set(TEXTS)
    assert not fitted & held
    few = dataclasses.replace(calibration, recorded=calibration.recorded[:3])
    assert few.fitting() == few.held_out() == few


def test_a_killed_run_goes_on_where_it_stopped(checkpoint: Path, phrases: Path, voice: str, tmp_path: Path, kz: Kz) -> None:
    folder = tmp_path / "calibration"
    folder.mkdir()
    place_fp32_bundle(folder, checkpoint)
    arguments = ["calibrate", checkpoint, "-o", folder, "--phrases", phrases, "--voice", voice, "--max-frames", "900"]
    code = "import sys; from kazeia.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment) as process:
        while process.poll() is None and len(list(folder.glob("*.recording"))) < 2:
            pass
        process.send_signal(signal.SIGKILL)
    stored = {path.name: sha256(path) for path in folder.glob("*.recording")}
    with pytest.raises(ExportError, match=r"is partial \(\d of 6 phrases\); run kz calibrate .* to finish it"):
        Calibration.open(folder, Checkpoint.open(checkpoint))
    result = kz(*arguments, "--json").json
    assert result["phrases"] == 6
    assert 6 - len(stored) <= result["recorded_now"] < 6
    kept = {name: digest for name, digest in stored.items() if sha256(folder / name) == digest}
    assert kept == stored
    assert Calibration.open(folder, Checkpoint.open(checkpoint)).frames == result["frames"]
    assert kz(*arguments, "--json").json["recorded_now"] == 0


def test_a_damaged_recording_is_made_again(copy: Path, checkpoint: Path, phrases: Path, voice: str) -> None:
    victim = copy / "0003.recording"
    whole = sha256(victim)
    victim.write_bytes(victim.read_bytes()[:-1])
    again = calibrate(checkpoint, copy, phrases, [voice], max_frames=12)
    assert again.recorded_now == 1
    assert sha256(victim) == whole


def test_other_phrases_or_another_checkpoint_do_not_mix(
    copy: Path, checkpoint: Path, phrases: Path, voice: str, tmp_path: Path, kz: Kz
) -> None:
    message = kz.fails("calibrate", checkpoint, "-o", copy, "--phrases", phrases, "--voice", voice, "--max-frames", 11)
    assert "was begun with other phrases, voices or --max-frames" in message
    other = tmp_path / "other"
    write_random_checkpoint(other, size="tiny", kind="base", seed=9)
    message = kz.fails("calibrate", other, "-o", copy, "--phrases", phrases, "--voice", voice)
    assert "has the calibration of another checkpoint (builtin); choose another -o" in message
    with pytest.raises(ExportError, match=r"of another checkpoint \(builtin, not other\); run kz calibrate"):
        Calibration.open(copy, Checkpoint.open(other))


def test_an_empty_or_foreign_folder_is_refused(tmp_path: Path, checkpoint: Path, copy: Path, kz: Kz) -> None:
    opened = Checkpoint.open(checkpoint)
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ExportError, match=r"is not a calibration folder: it has no index\.json; run kz calibrate"):
            Calibration.open(folder, opened)
    index = read_index(copy)
    assert index is not None
    index.recorded, index.phrases = [], 0
    write_index(copy, index)
    with pytest.raises(ExportError, match="has no samples; run kz calibrate"):
        Calibration.open(copy, opened)
    (tmp_path / "mine.txt").write_text("precious")
    assert "is no part of a calibration" in kz.fails("calibrate", checkpoint, "-o", tmp_path)


def test_missing_changed_and_non_finite_recordings_are_refused(copy: Path, checkpoint: Path) -> None:
    opened, path = Checkpoint.open(checkpoint), copy / "0002.recording"
    recording = read_recording(path)
    path.unlink()
    with pytest.raises(ExportError, match=r"is partial: 0002\.recording is missing; run kz calibrate"):
        Calibration.open(copy, opened)
    recording.hidden[1, 2] = np.nan
    path.write_bytes(recording.encoded())
    with pytest.raises(ExportError, match=r"0002\.recording is not what was recorded"):
        Calibration.open(copy, opened)
    index = read_index(copy)
    assert index is not None
    index.recorded[1].sha256 = sha256(path)
    write_index(copy, index)
    with pytest.raises(ExportError, match=r"0002\.recording has values that are not numbers in hidden; remove .* and run"):
        Calibration.open(copy, opened)


def test_a_base_model_without_a_voice_says_how_to_make_one(copy: Path, checkpoint: Path, phrases: Path, kz: Kz) -> None:
    message = kz.fails("calibrate", checkpoint, "-o", copy, "--phrases", phrases)
    assert f"kz voice add NAME RECORDING --bundle {copy / 'fp32'}" in message


def test_the_fp32_models_are_exported_first(
    checkpoint: Path, phrases: Path, voice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kz: Kz
) -> None:
    exported = []

    def export(path: Path, output: Path, options: object, progress: object) -> None:
        exported.append((path, options))
        shutil.copytree(BABBLE, output)

    monkeypatch.setattr(service, "export_bundle", export)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / ".fp32.0123.part").mkdir()
    outcome = kz("calibrate", checkpoint, "-o", tmp_path / "c", "--phrases", phrases, "--voice", voice, "--max-frames", 4)
    assert outcome.status == 0, outcome
    assert outcome.out.startswith(f"{tmp_path / 'c'}: 6 phrases of builtin in 1 language, ")
    ((path, options),) = exported
    assert (path, msgspec.to_builtins(options)["quant"]) == (checkpoint, "fp32")
    assert not (tmp_path / "c" / ".fp32.0123.part").exists()
