"""Collects what is measured while a bundle is exported, and ends it with `quality.json` and `quality.html`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from kazeia import __version__
from kazeia.bundle import File, Manifest
from kazeia.errors import KazeiaError
from kazeia.export.bundle_writer import write_manifest
from kazeia.export.calibration import Calibration, frozen_fields
from kazeia.export.progress import Progress, silent
from kazeia.export.qnn_quantize import Recipe
from kazeia.export.quality_case import Case, measure, trace
from kazeia.export.quality_faults import find_faults
from kazeia.export.quality_report import write_report
from kazeia.export.quality_speech import SpeechTest
from kazeia.files import sha256, write_atomically
from kazeia.quality import (
    QUALITY_NAME,
    REPORT_NAME,
    AutoRound,
    DecoderQuality,
    Fault,
    Gates,
    MethodQuality,
    Quality,
    SpeechQuality,
    Stage,
    judge,
)

SPEECH_FRAMES = 25
"""Frames of a phrase spoken freely: two seconds. The full-size models take minutes a frame in the emulator."""
SPEECH_PHRASES = 2

ANY_LAYER = "*"


class QualityLog:
    """Everything measured of one export.

    Args:
        calibration: None when the export has none: then only what needs no recording is measured.
        speech_frames: frames to speak freely; 0 leaves the sound unmeasured.
    """

    def __init__(
        self,
        calibration: Calibration | None,
        gates: Gates | None = None,
        speech_frames: int = SPEECH_FRAMES,
        speech_phrases: int = SPEECH_PHRASES,
    ) -> None:
        self.gates = gates or Gates()
        self._calibration = calibration
        self._speech_frames = speech_frames
        self._speech_phrases = speech_phrases
        self._methods: list[MethodQuality] = []
        self._faults: list[Fault] = _recording_faults(calibration)
        self._stages: list[Stage] = []
        self._recipes: dict[str, dict[str, str]] = {}
        self._auto: list[AutoRound] = []
        self._notes: list[str] = []
        self._emulated = False
        self._twins = TemporaryDirectory(prefix="kz-twins-")

    def add(self, case: Case, progress: Progress = silent) -> MethodQuality:
        """Measure one method of a program."""
        with progress(f"{case.program}: measure {case.method}"):
            traces = trace(case)
            measured = measure(case, traces)
            self._methods.append(measured)
            self._faults += find_faults(case, traces, measured, self.gates)
            self._emulated |= case.emulated is not None
        return measured

    @property
    def emulates(self) -> bool:
        """Whether programs for a device should have twins that the emulator can load."""
        return self._calibration is not None and self._speech_frames > 0

    def twin(self, program: str, content: bytes) -> None:
        """Keep a program's twin for the emulator, to listen to it at the end."""
        Path(self._twins.name, f"{program}.pte").write_bytes(content)

    def stages(self, stages: list[Stage]) -> None:
        """Where the parts of a model run."""
        self._stages += stages

    def recipe(self, program: str, recipe: Recipe, rounds: list[AutoRound] | None = None) -> None:
        """The precision of a program's layers, and how `--auto` came to it."""
        self._recipes[program] = {ANY_LAYER: recipe.precision, **dict(recipe.overrides)}
        self._auto += rounds or []

    def note(self, text: str) -> None:
        """Something a reader must know, such as what was not measured and why."""
        self._notes.append(text)

    def finish(self, folder: Path, manifest: Manifest, progress: Progress = silent) -> tuple[Quality, Manifest]:
        """Listen to the bundle in `folder`, which has its manifest already, and write the report's two files.

        Returns:
            The report, and the manifest with its files; the caller writes it.

        Raises:
            OSError: the folder cannot be written.
        """
        decoder, speech = self._listen(self._audible(folder, manifest), progress)
        quality = Quality(
            kazeia=__version__,
            model=manifest.model.name,
            emulated=self._emulated or bool(speech),
            gates=self.gates,
            methods=self._methods,
            decoder=decoder,
            speech=speech,
            stages=self._stages,
            recipes=self._recipes,
            auto=self._auto,
            faults=self._faults,
            failures=[],
            notes=self._notes,
        )
        quality.failures = judge(quality)
        write_atomically(folder / QUALITY_NAME, msgspec.json.format(msgspec.json.encode(quality)) + b"\n")
        write_report(folder / REPORT_NAME, quality)
        files = [file for file in manifest.files if file.name not in (QUALITY_NAME, REPORT_NAME)]
        for path in (folder / REPORT_NAME, folder / QUALITY_NAME):
            files.append(File(name=path.name, bytes=path.stat().st_size, sha256=sha256(path)))
        return quality, msgspec.structs.replace(manifest, files=sorted(files, key=lambda file: file.name))

    def _audible(self, folder: Path, manifest: Manifest) -> Path:
        """The bundle itself, or one whose programs for a device are replaced by their twins."""
        heard = Path(self._twins.name)
        twins = {path.name for path in heard.iterdir()}
        if not twins:
            return folder
        files = []
        for file in manifest.files:
            path = heard / file.name
            if file.name in twins:
                file = File(name=file.name, bytes=path.stat().st_size, sha256=sha256(path))
            else:
                path.symlink_to(folder / file.name)
            files.append(file)
        write_manifest(heard, msgspec.structs.replace(manifest, files=files, built_for="emulator"))
        return heard

    def _listen(self, folder: Path, progress: Progress) -> tuple[list[DecoderQuality], list[SpeechQuality]]:
        if self._calibration is None or not self._speech_frames:
            why = "there is no calibration to compare with" if self._calibration is None else "no frames were asked for"
            self.note(f"The sound was not measured: {why}.")
            return [], []
        decoder: list[DecoderQuality] = []
        try:
            test = SpeechTest(folder, self._calibration, self._speech_frames, self._speech_phrases)
            with progress("quality: speech decoder"):
                decoder = test.decoder()
            with progress("quality: speak"):
                return decoder, test.speech()
        except KazeiaError as error:
            self._faults.append(Fault("lowering", "speech", f"the bundle does not speak: {error}"))
            return decoder, []


def _recording_faults(calibration: Calibration | None) -> list[Fault]:
    """What is wrong with the recordings themselves."""
    if calibration is None or calibration.frames < 2:
        return []
    again = "calibrate again into another folder"
    frames, phrases = calibration.frames, len(calibration.recorded)
    return [
        Fault("calibration", name, f"constant: the same in all {frames} frames of the {phrases} recorded phrases; {again}")
        for name in frozen_fields(calibration)
    ]
