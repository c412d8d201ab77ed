"""Phrase lists: one phrase a line, or TSV, CSV and JSONL with columns. Read line by line, checked before anything is spoken.

A list is UTF-8, with or without a byte order mark; a line ends with a line feed, and a carriage return before it is dropped.
Blank lines are counted and skipped. Beyond that:

    plain   the line is the phrase, every byte of it: quotes, tabs, commas and spaces at its ends mean nothing special
    tsv     the first line names the columns; cells are what stands between tabs, quotes mean nothing special
    csv     the first line names the columns; RFC 4180 quoting, but a quoted cell ends on its own line
    jsonl   one object a line

An empty cell counts as not given. Unknown columns, broken rows and bytes that are not UTF-8 refuse the whole list.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, NoReturn, TypeAlias

import msgspec

from kazeia.errors import UsageError
from kazeia.prompt import TextMode
from kazeia.sampling import SEED_LIMIT

Format: TypeAlias = Literal["plain", "tsv", "csv", "jsonl"]

SUFFIXES: dict[str, Format] = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""Every other name is a plain list."""

LINE_LIMIT_BYTES = 1 << 20
"""A longer line is no phrase; it would be read into memory whole."""

TWIN_KEY_BYTES = 8
MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
"""Byte order marks of encodings a list must not have."""


class Phrase(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One phrase; the fields of a list's columns. None means the batch's own option."""

    text: str
    id: str | None = None
    """Part of the result's name, and what the seed is derived from in place of the text."""
    voice: str | None = None
    speaker: str | None = None
    instruct: str | None = None
    language: str | None = None
    text_mode: TextMode | None = None
    seed: int | None = None
    max_frames: int | None = None
    number: int = 0
    """Place in the list, from 1, blank lines not counted; 0 outside a list."""
    line: int = 0


COLUMNS = tuple(name for name in Phrase.__struct_fields__ if name not in ("number", "line"))


@dataclass(frozen=True)
class Survey:
    """What a whole list holds."""

    phrases: int
    characters: int
    blank_lines: int
    twin_ids: int
    """Ids that came before, after NFC and case folding."""
    first_twin: str | None
    """The first such id."""
    names_voices: bool
    """Some phrase names a voice or a speaker of its own."""


class PhraseList:
    """A list, copied when it is opened, so that changing it later changes nothing. A context manager.

    Args:
        path: the list; `-` is standard input.
        format: None to go by the name's ending.

    Raises:
        UsageError: it cannot be read.
    """

    def __init__(self, path: Path, format: Format | None = None) -> None:
        self.name = "standard input" if str(path) == "-" else str(path)
        self._format: Format = format or SUFFIXES.get(path.suffix.lower(), "plain")
        self._copy: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the list
        try:
            if str(path) == "-":
                shutil.copyfileobj(sys.stdin.buffer, self._copy)
            else:
                with path.open("rb") as file:
                    shutil.copyfileobj(file, self._copy)
        except OSError as error:
            self._copy.close()
            raise UsageError(f"cannot read {path}: {error.strerror}; give a file with one phrase a line") from None

    def __enter__(self) -> PhraseList:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._copy.close()

    def __iter__(self) -> Iterator[Phrase]:
        """The phrases in order.

        Raises:
            UsageError: names the first line that is not as the format wants it, and why.
        """
        parse: Callable[[int, str], Phrase] | None = _PLAIN_PARSERS.get(self._format)
        number = 0
        for line, text in self._lines():
            if not text.strip():
                continue
            try:
                if parse is None:
                    parse = _Table(text, self._format).phrase
                    continue
                phrase = parse(line, text)
                _check(phrase)
            except ValueError as error:
                self._refuse(line, str(error))
            number += 1
            phrase.number, phrase.line = number, line
            yield phrase

    def survey(self) -> Survey:
        """Read the list once, to its end.

        Raises:
            UsageError: see `__iter__`; or there is no phrase in it.
        """
        phrases = characters = twins = voices = 0
        first_twin = None
        seen: set[bytes] = set()
        for phrase in self:
            phrases += 1
            characters += len(phrase.text)
            voices += phrase.voice is not None or phrase.speaker is not None
            if phrase.id is not None:
                key = _twin_key(phrase.id)
                if key in seen:
                    twins += 1
                    first_twin = first_twin or phrase.id
                seen.add(key)
        if not phrases:
            raise UsageError(f"{self.name} has no phrase; write one a line")
        return Survey(phrases, characters, self._blank_lines(), twins, first_twin, voices > 0)

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Line numbers from 1 and lines without their ends."""
        self._copy.seek(0)
        number = 0
        while data := self._copy.readline(LINE_LIMIT_BYTES + 1):
            number += 1
            if number == 1:
                self._refuse_foreign(data)
                data = data.removeprefix(b"\xef\xbb\xbf")
            if len(data) > LINE_LIMIT_BYTES:
                self._refuse(number, f"is longer than {LINE_LIMIT_BYTES:,} bytes; write one phrase a line")
            if b"\0" in data:
                self._refuse(number, "has a NUL byte: it is UTF-16 or no text; convert the list with iconv -f UTF-16 -t UTF-8")
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError as error:
                self._refuse(
                    number,
                    f"is not UTF-8 (byte 0x{data[error.start]:02x} at {error.start + 1}); "
                    "convert the list with iconv -f ITS-ENCODING -t UTF-8",
                )
            yield number, text.removesuffix("\n").removesuffix("\r")

    def _blank_lines(self) -> int:
        return sum(not text.strip() for _, text in self._lines())

    def _refuse_foreign(self, head: bytes) -> None:
        for mark, name in MARKS:
            if head.startswith(mark):
                raise UsageError(f"{self.name} is {name}, not UTF-8; convert it with iconv -f {name} -t UTF-8")

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise UsageError(f"{self.name}, line {line}: {problem}")


def _plain(line: int, text: str) -> Phrase:
    return Phrase(text=text)


def _object(line: int, text: str) -> Phrase:
    if text.lstrip().startswith("["):
        raise ValueError("starts an array; write one object a line")
    try:
        raw = msgspec.json.decode(text)
        if isinstance(raw, dict):
            _check_columns(list(raw))
            # Numbers are fine ids.
            if isinstance(raw.get("id"), int) and not isinstance(raw["id"], bool):
                raw["id"] = str(raw["id"])
        phrase = msgspec.convert(raw, Phrase)
    except msgspec.DecodeError as error:
        raise ValueError(f"is not right: {error}; write one JSON object with at least a text") from None
    phrase.id = phrase.id or None
    return phrase


_PLAIN_PARSERS: dict[str, Callable[[int, str], Phrase]] = {"plain": _plain, "jsonl": _object}
"""Parsers of formats without a line of column names."""


class _Table:
    """Rows under a line of column names."""

    def __init__(self, header: str, format: Format) -> None:
        self._split = _csv_cells if format == "csv" else _tsv_cells
        self._columns = [name.strip().lower() for name in self._split(header)]
        _check_columns(self._columns)
        twice = {name for name in self._columns if self._columns.count(name) > 1}
        if twice:
            raise ValueError(f"names the column {min(twice)!r} twice")
        if "text" not in self._columns:
            raise ValueError(f"does not name a column text; the first line names the columns: {', '.join(COLUMNS)}")

    def phrase(self, line: int, text: str) -> Phrase:
        cells = self._split(text)
        if len(cells) != len(self._columns):
            raise ValueError(f"has {len(cells)} cells, but there are {len(self._columns)} columns")
        row = {name: cell for name, cell in zip(self._columns, cells, strict=True) if cell}
        try:
            return msgspec.convert({"text": "", **row}, Phrase, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"is not right: {error}") from None


def _tsv_cells(line: str) -> list[str]:
    return line.split("\t")


def _csv_cells(line: str) -> list[str]:
    try:
        (cells,) = csv.reader([line], strict=True)
    except csv.Error as error:
        reason = "a quoted cell does not end on its line" if "unexpected end" in str(error) else str(error)
        raise ValueError(f"is not CSV ({reason}); double a quote inside quotes, or use TSV, where quotes mean nothing") from None
    return cells


def _check_columns(names: Sequence[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"names an unknown column {name!r}; known: {', '.join(COLUMNS)}")


def _check(phrase: Phrase) -> None:
    if phrase.seed is not None and not 0 <= phrase.seed < SEED_LIMIT:
        raise ValueError(f"has seed {phrase.seed}; seeds are between 0 and {SEED_LIMIT - 1}")
    if phrase.max_frames is not None and phrase.max_frames < 1:
        raise ValueError(f"has max_frames {phrase.max_frames}; it must be at least 1")


def _twin_key(name: str) -> bytes:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return hashlib.blake2b(folded.encode(), digest_size=TWIN_KEY_BYTES).digest()
