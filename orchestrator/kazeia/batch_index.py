"""The index of a batch's results: `index.jsonl` in their folder, one line a phrase, appended as each one ends.

Every line is on the disk before the next phrase's is written. A later line about a phrase replaces an earlier one, and a line
that a crash cut short is dropped. Only places of lines are held in memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from kazeia.errors import UsageError
from kazeia.files import atomic_write, sha256
from kazeia.phrase_tasks import Status

INDEX_NAME = "index.jsonl"
LOCK_NAME = ".lock"
OUTPUT_NAME = re.compile(r"\d{6,}(-[^/\0]*)?\.wav")
LEFT_OVER = re.compile(r"\.(index\.jsonl|\d{6,}.*)\.part")
LOCK_BYTES = 512
"""The lock's content: the process, and the file it is writing, filled up with line feeds."""
NOTHING = -1
NUMBER_LIMIT = 10_000_000
"""Phrases a list may have; each takes 8 bytes of memory."""


class Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One line of the index: what came of one phrase."""

    number: int
    """Place in the list, from 1, blank lines not counted."""
    line: int
    """In the list's file, from 1."""
    id: str | None
    text: str
    output: str
    """Name of the WAV file; there is one only if the status is `ok`."""
    status: Status
    message: str | None
    inputs: str
    """SHA-256 of text, options, bundle and version."""
    sha256: str | None = None
    """Of the WAV file."""
    bytes: int | None = None
    seed: int | None = None
    """The one that made the sound: `kz speak --seed` makes it again."""
    seeds_tried: int = 0
    restarts: int = 0
    frames: int | None = None
    audio_s: float | None = None
    rtf: float | None = None
    total_ms: float | None = None
    first_audio_ms: float | None = None
    device: str | None = None
    warning: str | None = None
    clamped_samples: int = 0
    finished: str = ""
    """UTC, ISO 8601."""


class Index:
    """The results in one folder, locked against a second batch until it is closed or its process ends. A context manager.

    Raises:
        UsageError: the folder cannot be made or written, is in use by another batch, or holds an index of something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / INDEX_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UsageError(f"cannot write in {folder}: {error.strerror}; choose another folder with -o") from None
        try:
            unfinished = self._take_lock()
            self._file = self.path.open("ab", buffering=0)
            self._offsets = array("q")
            self._superseded = self._load()
            self._remove_left_overs(unfinished)
            self.compact()
        except OSError as error:
            os.close(self._lock)
            raise UsageError(f"cannot write {self.path}: {error.strerror}; choose another folder with -o") from None
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Index:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
        os.close(self._lock)

    def get(self, number: int) -> Record | None:
        """The newest record of the phrase `number`."""
        if number >= len(self._offsets) or self._offsets[number] == NOTHING:
            return None
        # A descriptor of its own, as other threads read and write.
        with self.path.open("rb") as file:
            file.seek(self._offsets[number])
            return msgspec.json.decode(file.readline(), type=Record)

    def is_done(self, number: int, output: str, inputs: str) -> bool:
        """Is the phrase's sound there, made from these inputs, and still what was written?"""
        record = self.get(number)
        if record is None or record.status != "ok" or (record.output, record.inputs) != (output, inputs):
            return False
        path = self.folder / output
        try:
            return path.stat().st_size == record.bytes and sha256(path) == record.sha256
        except OSError:
            return False

    def announce(self, output: str) -> None:
        """Say that a WAV file is about to be written, so that it is known as ours should its record never come."""
        os.pwrite(self._lock, f"{os.getpid()}\n{output}\n".encode().ljust(LOCK_BYTES, b"\n"), 0)

    def add(self, record: Record) -> None:
        """Write a record to the disk; whatever file of the phrase it does not account for goes first.

        Raises:
            OSError: the disk is full; the record does not count.
        """
        before = self.get(record.number)
        if before is not None and (record.status != "ok" or before.output != record.output):
            self._remove_output(before.output)
        if record.status != "ok":
            self._remove_output(record.output)
        offset = self._file.seek(0, os.SEEK_END)
        line = msgspec.json.encode(record) + b"\n"
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(self._file.fileno())
        self._superseded += self._note(record.number, offset)

    def records(self) -> Iterator[Record]:
        """The newest records in the list's order."""
        with self.path.open("rb") as file:
            for offset in self._offsets:
                if offset != NOTHING:
                    file.seek(offset)
                    yield msgspec.json.decode(file.readline(), type=Record)

    def compact(self) -> None:
        """Rewrite the index in the list's order, without what was superseded."""
        places = [offset for offset in self._offsets if offset != NOTHING]
        if not self._superseded and places == sorted(places):
            return
        with atomic_write(self.path) as file:
            for record in self.records():
                file.write(msgspec.json.encode(record) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._file.close()
        self._file = self.path.open("ab", buffering=0)
        self._offsets = array("q")
        self._superseded = self._load()

    def _take_lock(self) -> str:
        """Lock the folder; the file that the batch before was writing last."""
        process, _, unfinished = os.pread(self._lock, LOCK_BYTES, 0).decode(errors="replace").strip().partition("\n")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another kz batch (process {process or 'unknown'}) is writing to {self.folder}; "
                "wait for it, or choose another folder with -o"
            ) from None
        self.announce("")
        return unfinished

    def _remove_left_overs(self, unfinished: str) -> None:
        """What a batch that was killed left: temporary files, and a result whose record never came."""
        number = OUTPUT_NAME.fullmatch(unfinished) and int(unfinished[:-4].partition("-")[0])
        if number:
            record = self.get(number)
            if record is None or (record.status, record.output) != ("ok", unfinished):
                self._remove_output(unfinished)
        for entry in os.scandir(self.folder):
            if LEFT_OVER.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)

    def _remove_output(self, name: str) -> None:
        # The index is a file that anyone may have changed.
        if OUTPUT_NAME.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()

    def _load(self) -> int:
        """Note where the records are; drop a torn last line. How many records were superseded."""
        superseded = offset = 0
        with self.path.open("rb") as file:
            for line_number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    self._file.truncate(offset)
                    break
                try:
                    record = msgspec.json.decode(line, type=Record)
                except msgspec.DecodeError as error:
                    raise UsageError(
                        f"{self.path}, line {line_number} is not a result of this kz ({error}); "
                        "choose another folder with -o, or move the index away to speak the list anew"
                    ) from None
                superseded += self._note(record.number, offset)
                offset += len(line)
        return superseded

    def _note(self, number: int, offset: int) -> int:
        """Remember a record's place; 1 if there was an older one."""
        if not 0 < number <= NUMBER_LIMIT:
            raise UsageError(f"phrase number {number} in {self.path}: there may be {NUMBER_LIMIT:,}; speak a long list in parts")
        while len(self._offsets) <= number:
            self._offsets.append(NOTHING)
        replaced = self._offsets[number] != NOTHING
        self._offsets[number] = offset
        return int(replaced)
