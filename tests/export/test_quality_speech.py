"""A bundle's sound next to the recordings: through the runner, with the built-in bundle as the fp32 one."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kazeia.bundle import MANIFEST_NAME, Bundle, read_manifest
from kazeia.errors import RunnerError
from kazeia.export.calibration import Calibration, Recorded
from kazeia.export.calibration_run import calibrate
from kazeia.export.quality_log import QualityLog
from kazeia.export.quality_speech import SpeechTest
from kazeia.files import sha256
from kazeia.quality import QUALITY_NAME, REPORT_NAME, Fault, read_quality
from scripts.babble_checkpoint import write_babble_checkpoint
from tests.export.test_calibration import place_fp32_bundle
from tests.support.bundles import BABBLE

FRAMES = 30


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    root = tmp_path_factory.mktemp("speech")
    write_babble_checkpoint(root / "checkpoint")
    (root / "phrases.txt").write_text("Hello.\nWhat?\nNo!\n")
    np.save(root / "v.npy", np.random.default_rng(0).standard_normal(64, np.float32))
    (root / "calibration").mkdir()
    place_fp32_bundle(root / "calibration", root / "checkpoint")
    done = calibrate(root / "checkpoint", root / "calibration", root / "phrases.txt", [str(root / "v.npy")], max_frames=FRAMES)
    return Calibration(done.folder, tuple(done.index.recorded))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BABBLE, tmp_path / "bundle"))


def damage(bundle: Path, name: str) -> None:
    """Change a table's numbers and the manifest with them, as a bad export would."""
    path = bundle / name
    table = np.fromfile(path, "<f4")
    (table * np.float32(1.3)).tofile(path)
    manifest = read_manifest(bundle)
    for file in manifest.files:
        if file.name == name:
            file.sha256 = sha256(path)
    (bundle / MANIFEST_NAME).write_bytes(msgspec.json.encode(manifest))


def test_the_same_bundle_says_the_same(calibration: Calibration, bundle: Path) -> None:
    test = SpeechTest(bundle, calibration, FRAMES, phrases=2)
    for decoded in test.decoder():
        assert (decoded.sound_db, decoded.level_db, decoded.log_mel_db) == (200.0, 0.0, 0.0)
    spoken = test.speech()
    assert len(spoken) == 2
    for one in spoken:
        assert one.frames == one.reference_frames
        assert one.first_difference is None
        assert one.eos_difference in (None, 0)
        assert (one.level_db, one.log_mel_db, one.spectrum_db) == (0.0, 0.0, 0.0)


def test_another_talker_says_something_else(calibration: Calibration, bundle: Path) -> None:
    damage(bundle, "codec_embeddings.bin")
    test = SpeechTest(bundle, calibration, FRAMES, phrases=2)
    assert [decoded.sound_db for decoded in test.decoder()] == [200.0, 200.0]
    spoken = test.speech()
    # The first frame depends on the prompt alone, and that is the recording's; its other codes may differ already.
    assert all(one.first_difference is not None and one.first_difference <= 3 for one in spoken)
    assert all(one.log_mel_db > 0 for one in spoken)


@pytest.mark.parametrize(
    ("recorded", "limit", "frames", "stop_reason", "difference"),
    [
        ((20, "eos"), 42, 25, "eos", 5),
        ((20, "eos"), 42, 11, "eos", -9),
        ((20, "eos"), 42, 42, "frame_cap", 22),
        ((200, "eos"), FRAMES, FRAMES, "frame_cap", None),
        ((200, "eos"), FRAMES, 11, "eos", 11 - FRAMES),
        ((20, "frame_cap"), 20, 20, "frame_cap", None),
        ((20, "frame_cap"), 20, 7, "eos", -13),
    ],
)
def test_where_speech_ends(
    calibration: Calibration, recorded: tuple[int, str], limit: int, frames: int, stop_reason: str, difference: int | None
) -> None:
    one = msgspec.structs.replace(calibration.recorded[0], frames=recorded[0], stop_reason=recorded[1])
    test = SpeechTest.__new__(SpeechTest)
    test._frames = FRAMES
    assert isinstance(one, Recorded)
    assert test._limit(one) == limit
    assert test._eos_difference(one, min(one.frames, FRAMES), frames, stop_reason) == difference


def test_the_log_ends_in_a_report(calibration: Calibration, bundle: Path) -> None:
    quality, manifest = QualityLog(calibration, speech_frames=FRAMES).finish(bundle, read_manifest(bundle))
    assert quality.passed, quality.failures
    assert not quality.faults
    assert len(quality.decoder) == len(quality.speech) == 2
    assert {QUALITY_NAME, REPORT_NAME} <= {file.name for file in manifest.files}
    (bundle / MANIFEST_NAME).write_bytes(msgspec.json.encode(manifest))
    assert read_quality(Bundle.open(bundle)) == quality
    again, manifest = QualityLog(calibration, speech_frames=FRAMES).finish(bundle, manifest)
    assert again == quality
    assert len({file.name for file in manifest.files}) == len(manifest.files)


def test_a_bundle_that_does_not_load_is_a_fault_not_a_crash(calibration: Calibration, bundle: Path) -> None:
    (bundle / "talker.pte").write_bytes(b"\0\0\0\0ET12")
    quality, _ = QualityLog(calibration, speech_frames=5).finish(bundle, read_manifest(bundle))
    (fault,) = quality.faults
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.where) == ("lowering", "speech")
    assert fault.message.startswith("the bundle does not speak: ")
    assert len(quality.decoder) == 2
    assert not quality.passed
    with pytest.raises(RunnerError):
        SpeechTest(bundle, calibration, 5, 1).speech()


@pytest.mark.parametrize(("frames", "note"), [(0, "no frames were asked for"), (5, "there is no calibration to compare with")])
def test_what_was_not_measured_is_said(calibration: Calibration, bundle: Path, frames: int, note: str) -> None:
    quality, _ = QualityLog(calibration if not frames else None, speech_frames=frames).finish(bundle, read_manifest(bundle))
    assert quality.notes == [f"The sound was not measured: {note}."]
    assert quality.failures == ["nothing was measured; export with --calibration DIR"]


def test_twins_are_heard_in_place_of_programs_for_a_device(calibration: Calibration, bundle: Path) -> None:
    talker = (bundle / "talker.pte").read_bytes()
    (bundle / "talker.pte").write_bytes(b"\0\0\0\0ET12 for a device")
    log = QualityLog(calibration, speech_frames=5)
    assert log.emulates
    log.twin("talker", talker)
    quality, manifest = log.finish(bundle, read_manifest(bundle))
    assert quality.passed, quality.failures
    assert [one.first_difference for one in quality.speech] == [None, None]
    assert len([file for file in manifest.files if file.name == "talker.pte"]) == 1
    assert (bundle / "talker.pte").read_bytes().endswith(b"for a device")
    assert not QualityLog(calibration, speech_frames=0).emulates
