"""A batch's results as one HTML page that needs nothing beside it: players, waveforms, speed and failures."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kazeia.batch_index import Index, Record
from kazeia.batch_tally import Summary
from kazeia.bundle import Bundle
from kazeia.errors import AudioError
from kazeia.files import atomic_write
from kazeia.templates import render_to

EMBEDDED_LIMIT_BYTES = 256 << 20
"""Sound a page carries; a larger page no browser opens with pleasure. What comes after has a waveform and its file's name."""

WAVEFORM_COLUMNS = 240
WAVEFORM_HEIGHT = 40
FULL_SCALE = 32768


@dataclass(frozen=True)
class Row:
    """One phrase on the page."""

    record: Record
    waveform: str | None
    """An SVG path in a box of `WAVEFORM_COLUMNS` by `WAVEFORM_HEIGHT`."""
    player: str | None
    """A data URI."""


def write_report(path: Path, index: Index, summary: Summary, bundle: Bundle) -> None:
    """Write the page; it appears whole or not at all, and one phrase at a time is in memory.

    Raises:
        AudioError: the page cannot be written.
    """
    try:
        with atomic_write(path) as file:
            render_to(
                file,
                "batch_report.html.j2",
                folder=str(index.folder),
                model=bundle.manifest.model.name,
                summary=summary,
                failures=(record for record in index.records() if record.status != "ok" and record.number <= summary.phrases),
                rows=_rows(index, summary.phrases),
                columns=WAVEFORM_COLUMNS,
                height=WAVEFORM_HEIGHT,
            )
    except OSError as error:
        raise AudioError(f"cannot write {path}: {error.strerror}; choose another place with --report") from None


def waveform(samples: NDArray[np.int16]) -> str:
    """An SVG path through the loudest samples of each of `WAVEFORM_COLUMNS` slices of `[n]`."""
    edges = np.linspace(0, len(samples), min(WAVEFORM_COLUMNS, len(samples)) + 1).astype(int)[:-1]
    low, high = (np.asarray(extreme.reduceat(samples, edges), float) for extreme in (np.minimum, np.maximum))
    middle = WAVEFORM_HEIGHT / 2
    lines = zip(middle - high / FULL_SCALE * middle, middle - low / FULL_SCALE * middle, strict=True)
    return "".join(f"M{column} {top:.1f}V{bottom + 0.5:.1f}" for column, (top, bottom) in enumerate(lines))


def _rows(index: Index, phrases: int) -> Iterator[Row]:
    embedded_bytes = 0
    for record in index.records():
        if record.number > phrases:
            return
        samples, rate = _read(index.folder / record.output) if record.status == "ok" else (None, 0)
        if samples is None or not len(samples):
            yield Row(record, None, None)
            continue
        player = None
        if embedded_bytes < EMBEDDED_LIMIT_BYTES:
            player = _data_uri(samples, rate)
            embedded_bytes += len(player)
        yield Row(record, waveform(samples), player)


def _read(path: Path) -> tuple[NDArray[np.int16] | None, int]:
    """Samples `[n]` and rate of one of our own files; None if someone took it away since."""
    try:
        with wave.open(str(path)) as sound:
            return np.frombuffer(sound.readframes(sound.getnframes()), "<i2"), sound.getframerate()
    except (OSError, EOFError, wave.Error):
        return None, 0


def _data_uri(samples: NDArray[np.int16], rate: int) -> str:
    """FLAC: every browser plays it, it loses nothing and is half as large as WAV."""
    import soundfile

    encoded = io.BytesIO()
    soundfile.write(encoded, samples, rate, format="FLAC", subtype="PCM_16")
    return "data:audio/flac;base64," + base64.b64encode(encoded.getvalue()).decode()
