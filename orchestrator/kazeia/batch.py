"""Speaking a list into a folder: what is there and right is skipped, the rest spoken, each result kept as it comes.

list ─► tasks not yet done ─► devices or cluster ─► outcomes ─► WAV file, then its line in the index
"""

from __future__ import annotations

import contextlib
import datetime
import os
import unicodedata
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from kazeia.audio import write_wav
from kazeia.batch_index import Index, Record
from kazeia.batch_tally import Progress, Summary, Tally
from kazeia.errors import AudioError
from kazeia.files import sha256
from kazeia.phrase_tasks import Outcome, Preparer, Task
from kazeia.phrases import Phrase, PhraseList, Survey

SLUG_LIMIT_BYTES = 64

Speaking: TypeAlias = Callable[[Iterator[Task]], Generator[Outcome, None, None]]
"""Speaks tasks somewhere, outcomes in any order; the tasks may be asked for by any thread, one at a time."""


def speak_list(
    phrases: PhraseList,
    survey: Survey,
    index: Index,
    preparer: Preparer,
    speaking: Speaking,
    progress: Callable[[Progress], None],
) -> Summary:
    """Speak what the folder does not have yet; when that is nothing, `speaking` is not called.

    Args:
        survey: of `phrases`.
        progress: called after every phrase.

    Raises:
        AudioError: a sound cannot be written.
        DeviceError, RunnerError: no device is left; what is done stays done.
    """
    tally = Tally(survey)
    tasks = _undone(phrases, index, preparer, tally)
    first = next(tasks, None)
    if first is not None:
        with contextlib.closing(speaking(chain([first], tasks))) as outcomes:
            for outcome in outcomes:
                with _writing(index.folder):
                    index.add(_keep(outcome, index))
                tally.add(outcome)
                progress(tally.progress())
    with _writing(index.folder):
        index.compact()
    return tally.summary(sum(record.number > survey.phrases for record in index.records()))


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AudioError(f"cannot write in {folder}: {error.strerror}; free some space and run the command again") from None


def output_name(phrase: Phrase) -> str:
    """`000012-` and what a file may be called of the phrase's id, or else its text: the number keeps twins apart."""
    slug = _slug(phrase.text if phrase.id is None else phrase.id)
    return f"{phrase.number:06d}-{slug}.wav" if slug else f"{phrase.number:06d}.wav"


def _undone(phrases: PhraseList, index: Index, preparer: Preparer, tally: Tally) -> Iterator[Task]:
    for phrase in phrases:
        task = preparer.task(phrase)
        if index.is_done(phrase.number, output_name(phrase), task.inputs):
            tally.skip(phrase)
        else:
            yield task


def _keep(outcome: Outcome, index: Index) -> Record:
    """Write the sound, if it is a good one, and describe what came of the phrase."""
    phrase, speech = outcome.task.phrase, outcome.speech
    record = Record(
        number=phrase.number,
        line=phrase.line,
        id=phrase.id,
        text=phrase.text,
        output=output_name(phrase),
        status=outcome.status,
        message=outcome.message,
        inputs=outcome.task.inputs,
        seed=outcome.seeds[-1] if outcome.seeds else None,
        seeds_tried=len(outcome.seeds),
        restarts=outcome.restarts,
        finished=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
    )
    if speech is not None:
        statistics = speech.statistics
        record.warning = speech.warning
        record.frames, record.audio_s, record.rtf = statistics.frames, statistics.audio_s, statistics.rtf
        record.total_ms, record.first_audio_ms = statistics.total_ms, statistics.first_audio_ms
        record.device = statistics.device
        if outcome.status == "ok":
            path = index.folder / record.output
            index.announce(record.output)
            record.clamped_samples = write_wav(path, speech.samples, speech.sample_rate)
            record.sha256, record.bytes = _settle(path)
    return record


def _settle(path: Path) -> tuple[str, int]:
    """Make sure that a file is on the disk before the index says so; its SHA-256 and size."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return sha256(path), path.stat().st_size


def _slug(text: str) -> str:
    """Letters and digits of any script in NFC, a dash for what is between, at most `SLUG_LIMIT_BYTES` of UTF-8."""
    kept: list[str] = []
    for character in unicodedata.normalize("NFC", text[: 4 * SLUG_LIMIT_BYTES]):
        kind = unicodedata.category(character)
        if kind[0] in "LN" or (kind[0] == "M" and kept and kept[-1] != "-"):
            kept.append(character)
        elif kind != "Cf" and kept and kept[-1] != "-":
            kept.append("-")
    return "".join(kept).encode()[:SLUG_LIMIT_BYTES].decode(errors="ignore").strip("-")
