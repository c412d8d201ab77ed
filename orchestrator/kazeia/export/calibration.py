"""What the models saw while the fp32 models spoke: a folder of recorded phrases, which static quantisation is calibrated with.

    index.json      which checkpoint, which settings, and every recorded phrase with its file's hash
    NAME.recording  one phrase (safetensors): the talker's whole input, the code predictor's inputs, the codes
    fp32/           the bundle that spoke them

The index is written after each phrase, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Strict
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.identity import checkpoint_sha256
from kazeia.errors import ExportError
from kazeia.files import sha256, write_atomically

FORMAT = 1
INDEX_NAME = "index.json"
SUFFIX = ".recording"
FP32_BUNDLE = "fp32"
HELD_OUT_EVERY = 5
"""One phrase in five is kept from calibrating: quality is measured on phrases the scales were not fitted to."""

Floats = NDArray[np.float32]
Codes = NDArray[np.int16]


class Recorded(Strict):
    """One phrase of the index."""

    file: str
    sha256: str
    text: str
    language: str
    voice: str
    seed: int
    prompt_tokens: int
    frames: int
    stop_reason: str


class Settings(Strict):
    """What must stay the same when a run is taken up again."""

    phrases_sha256: str
    """Of the texts with all their columns and voices."""
    max_frames: int | None


class Index(Strict):
    """`index.json`"""

    format: int
    kazeia: str
    checkpoint: str
    """Its name, for people."""
    checkpoint_sha256: str
    """See `checkpoint.identity`."""
    settings: Settings
    phrases: int
    """How many there are to record."""
    recorded: list[Recorded]


@dataclass(frozen=True)
class Recording:
    """One phrase as the models met it. T prompt tokens, F frames, N tokens of trailing text, G codebooks, D wide."""

    embeds: Floats
    """`[T + F, D]`: every input of the talker in order, the prompt and then what each frame became."""
    prompt_tokens: int
    hidden: Floats
    """`[F, D]`: the talker's hidden state each frame was predicted from; with codebook 0, the code predictor's input."""
    codes: Codes
    """`[F, G]`"""
    trailing: Floats
    """`[N, D]`"""
    pad: Floats
    """`[D]`"""

    def encoded(self) -> bytes:
        """The bytes of a recording's file."""
        from safetensors.numpy import save

        names = ("embeds", "hidden", "codes", "trailing", "pad")
        arrays: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(getattr(self, name)) for name in names}
        return save(arrays, {"prompt_tokens": str(self.prompt_tokens)})

    def not_finite(self) -> str | None:
        """The name of a field with NaN or infinite values."""
        fields = ("embeds", "hidden", "trailing", "pad")
        return next((name for name in fields if not np.isfinite(getattr(self, name)).all()), None)


class TalkerSample(NamedTuple):
    """A whole teacher-forced sequence: `embeds` [T + F, D], of which the first `prompt_tokens` are the prompt."""

    embeds: Floats
    prompt_tokens: int


class PredictorSample(NamedTuple):
    """One frame: the talker's hidden state `[D]` and the codes `[G]` that were drawn."""

    hidden: Floats
    codes: Codes


@dataclass(frozen=True)
class Calibration:
    """An opened calibration folder, or a part of its phrases."""

    folder: Path
    recorded: tuple[Recorded, ...]

    @classmethod
    def open(cls, folder: Path, checkpoint: Checkpoint) -> Calibration:
        """Open and check a calibration folder: complete, whole, finite, and of this checkpoint.

        Raises:
            ExportError: says what is wrong with it, and the remedy.
        """
        index = read_index(folder)
        again = f"run kz calibrate {checkpoint.path} -o {folder}"
        if index is None:
            raise ExportError(f"{folder} is not a calibration folder: it has no {INDEX_NAME}; {again}")
        if index.checkpoint_sha256 != checkpoint_sha256(checkpoint):
            raise ExportError(
                f"the calibration in {folder} is of another checkpoint ({index.checkpoint}, not {checkpoint.name}); "
                f"run kz calibrate {checkpoint.path} -o ANOTHER_FOLDER"
            )
        if not sum(one.frames for one in index.recorded):
            raise ExportError(f"the calibration in {folder} has no samples; {again}")
        if len(index.recorded) < index.phrases:
            raise ExportError(
                f"the calibration in {folder} is partial ({len(index.recorded)} of {index.phrases} phrases); {again} to finish it"
            )
        calibration = cls(folder, tuple(index.recorded))
        for one in index.recorded:
            check_recording(folder, one, again)
        return calibration

    @property
    def frames(self) -> int:
        """Of all phrases together."""
        return sum(one.frames for one in self.recorded)

    def fitting(self) -> Calibration:
        """The phrases that scales are fitted to: all but the held-out ones."""
        if len(self.recorded) < HELD_OUT_EVERY:
            return self
        return self._part([one for number, one in enumerate(self.recorded, 1) if number % HELD_OUT_EVERY])

    def held_out(self) -> Calibration:
        """The phrases that quality is measured on; all of them when there are too few to part with any."""
        if len(self.recorded) < HELD_OUT_EVERY:
            return self
        return self._part(self.recorded[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY])

    def recordings(self) -> Iterator[Recording]:
        """One phrase at a time is in memory."""
        return (read_recording(self.folder / one.file) for one in self.recorded)

    def talker_samples(self) -> Iterator[TalkerSample]:
        """Whole teacher-forced sequences."""
        return (TalkerSample(recording.embeds, recording.prompt_tokens) for recording in self.recordings())

    def predictor_samples(self) -> Iterator[PredictorSample]:
        """Every frame of every phrase."""
        for recording in self.recordings():
            yield from map(PredictorSample, recording.hidden, recording.codes)

    def speech_decoder_samples(self) -> Iterator[Codes]:
        """`[F, G]` a phrase."""
        return (recording.codes for recording in self.recordings() if len(recording.codes))

    def _part(self, recorded: Sequence[Recorded]) -> Calibration:
        return Calibration(self.folder, tuple(recorded))


def frozen_fields(calibration: Calibration) -> list[str]:
    """Fields of the recordings that are the same in every frame of every phrase: nothing can be calibrated with them."""
    first: dict[str, NDArray[Any]] = {}
    alive: set[str] = set()
    for recording in calibration.recordings():
        frames: dict[str, NDArray[Any]] = {
            "embeds": recording.embeds[recording.prompt_tokens :],
            "hidden": recording.hidden,
            "codes": recording.codes,
        }
        for name, rows in frames.items():
            if len(rows) and np.any(rows != first.setdefault(name, rows[0])):
                alive.add(name)
    return sorted(first.keys() - alive)


def read_index(folder: Path) -> Index | None:
    """The folder's index; None if there is none.

    Raises:
        ExportError: it cannot be read or is of another format.
    """
    path = folder / INDEX_NAME
    try:
        index = msgspec.json.decode(path.read_bytes(), type=Index)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ExportError(f"cannot read {path}: {error.strerror}; give a folder that kz calibrate wrote") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(f"{path} is no calibration index ({error}); remove {folder} and calibrate again") from None
    if index.format != FORMAT:
        raise ExportError(f"{folder} has calibration format {index.format}, not {FORMAT}; remove it and calibrate again")
    return index


def write_index(folder: Path, index: Index) -> None:
    """Whole or not at all."""
    write_atomically(folder / INDEX_NAME, msgspec.json.format(msgspec.json.encode(index)) + b"\n")


def read_recording(path: Path) -> Recording:
    """Read one phrase back.

    Raises:
        ExportError: missing, or no recording.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = path.read_bytes()
        header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return Recording(**load(data), prompt_tokens=int(header["__metadata__"]["prompt_tokens"]))
    except OSError as error:
        raise ExportError(f"cannot read {path}: {error.strerror}; run kz calibrate again") from None
    except (SafetensorError, msgspec.DecodeError, ValueError, KeyError, TypeError):
        raise ExportError(f"{path} is no recording of kz calibrate; remove it and run kz calibrate again") from None


def check_recording(folder: Path, recorded: Recorded, again: str) -> None:
    """Is the phrase's file there, whole and finite? `again` is what to run otherwise.

    Raises:
        ExportError: names the file.
    """
    path = folder / recorded.file
    try:
        whole = sha256(path) == recorded.sha256
    except OSError:
        raise ExportError(f"the calibration in {folder} is partial: {recorded.file} is missing; {again}") from None
    if not whole:
        raise ExportError(f"{path} is not what was recorded (SHA-256 differs); remove it and {again}")
    if field := read_recording(path).not_finite():
        raise ExportError(f"{path} has values that are not numbers in {field}; remove {folder} and {again}")
