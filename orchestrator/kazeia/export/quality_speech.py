"""How a finished bundle sounds next to the fp32 recordings: its speech decoder on the same codes, and speaking freely.

Both go through the runner, as `kz speak` does; programs for the NPU run in its emulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from kazeia.bundle import Bundle, Manifest, read_manifest
from kazeia.devices.local import LocalDevice
from kazeia.export.calibration import FP32_BUNDLE, Calibration, Codes, Floats, Recorded, Recording, read_recording
from kazeia.export.quality_measures import (
    first_difference,
    level_difference_db,
    log_mel_distance_db,
    spectrum_distance_db,
    sqnr_db,
)
from kazeia.generation import Generation
from kazeia.prompt import Prompt
from kazeia.quality import DecoderQuality, SpeechQuality
from kazeia.runner_client import RunnerClient
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.speech_decoder import SpeechDecoder

LATER_END = 1.5
SPARE_FRAMES = 12
"""How much longer than the recording the bundle may speak, so that an end that comes late is seen."""


class SpeechTest:
    """Compares the bundle in `folder` with recordings of its checkpoint.

    Args:
        folder: a bundle, whole but for the files of the report.
        frames: most frames of a phrase.
        phrases: how many held-out phrases.
    """

    def __init__(self, folder: Path, calibration: Calibration, frames: int, phrases: int) -> None:
        self._folder = folder
        self._manifest = read_manifest(folder)
        self._reference = Bundle.open(calibration.folder / FP32_BUNDLE)
        self._frames = frames
        held_out = calibration.held_out()
        self._chosen = [one for one in held_out.recorded if one.frames][:phrases]
        self._recordings = [read_recording(calibration.folder / one.file) for one in self._chosen]
        self._codes = [recording.codes[:frames] for recording in self._recordings]
        self._sounds = list(_decode(self._reference.folder, self._reference.manifest, self._codes))

    def decoder(self) -> list[DecoderQuality]:
        """The bundle's speech decoder on the recorded codes.

        Raises:
            RunnerError: the runner cannot load or run it.
            AudioError: it gave values that are not numbers.
        """
        ours = _decode(self._folder, self._manifest, self._codes)
        return [
            DecoderQuality(
                text=one.text,
                frames=len(codes),
                sound_db=sqnr_db(sound, wanted),
                level_db=level_difference_db(sound, wanted),
                log_mel_db=log_mel_distance_db(sound, wanted),
            )
            for one, codes, sound, wanted in zip(self._chosen, self._codes, ours, self._sounds, strict=True)
        ]

    def speech(self) -> list[SpeechQuality]:
        """The bundle speaking freely, with the recordings' prompts and seeds, heard through its own speech decoder.

        Raises:
            RunnerError, AudioError: see `decoder`.
        """
        spoken = list(self._speak())
        sounds = _decode(self._folder, self._manifest, [codes for codes, _ in spoken])
        results = zip(self._chosen, self._codes, self._sounds, spoken, sounds, strict=True)
        return [
            SpeechQuality(
                text=one.text,
                seed=one.seed,
                reference_frames=len(wanted),
                frames=len(codes),
                first_difference=first_difference(codes, wanted),
                eos_difference=self._eos_difference(one, len(wanted), len(codes), stop_reason),
                level_db=level_difference_db(sound, wanted_sound),
                log_mel_db=log_mel_distance_db(sound, wanted_sound),
                spectrum_db=spectrum_distance_db(sound, wanted_sound),
            )
            for one, wanted, wanted_sound, (codes, stop_reason), sound in results
        ]

    def _speak(self) -> Iterator[tuple[Codes, str]]:
        sampling = resolve_sampling(self._reference.manifest.sampling, Overrides())
        model = self._manifest.model
        with RunnerClient(LocalDevice(), self._folder, "generate") as client:
            client.wait_ready()
            for one, recording in zip(self._chosen, self._recordings, strict=True):
                limit = min(self._limit(one), model.context_length - recording.prompt_tokens)
                generation = Generation(client, model, _prompt(one, recording), sampling, one.seed, limit)
                frames = list(generation)
                assert generation.done is not None
                yield np.array(frames, np.int16).reshape(len(frames), model.code_groups), generation.done.stop_reason

    def _limit(self, one: Recorded) -> int:
        """Frames asked for: a recording that is compared to its end may be spoken for longer."""
        if one.frames > self._frames or one.stop_reason != "eos":
            return min(one.frames, self._frames)
        return int(one.frames * LATER_END) + SPARE_FRAMES

    def _eos_difference(self, one: Recorded, wanted: int, frames: int, stop_reason: str) -> int | None:
        """An end that did not come within the limit counts as coming right there."""
        ends_here = one.stop_reason == "eos" and wanted == one.frames
        return frames - wanted if ends_here or stop_reason == "eos" else None


def _prompt(one: Recorded, recording: Recording) -> Prompt:
    """What was recorded, as the runner gets it."""
    none = np.zeros((0, recording.codes.shape[1]), np.int16)
    return Prompt(one.text, recording.embeds[: recording.prompt_tokens], recording.trailing, recording.pad, none)


def _decode(folder: Path, manifest: Manifest, each: Iterable[Codes]) -> Iterator[Floats]:
    """The sound of several code sequences through a bundle's speech decoder; no codes, no sound."""
    with RunnerClient(LocalDevice(), folder, "decode") as client:
        client.wait_ready()
        decoder = SpeechDecoder(client, manifest.model)
        for codes in each:
            decoder.start(codes[:0])
            yield decoder.decode(codes) if len(codes) else np.zeros(0, np.float32)
