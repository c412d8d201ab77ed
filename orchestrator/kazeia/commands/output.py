"""How commands talk: results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kazeia.bundle import Model

FIRST_PROGRESS_S = 1.0
"""Quicker work shows no progress."""
PROGRESS_EVERY_S = 0.2
PLAIN_PROGRESS_EVERY_S = 5.0
"""On a log file, where a line cannot be overwritten."""


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def say(message: str) -> None:
    """A note to the person, on stderr."""
    click.echo(f"kz: {message}", err=True)


class StatusLine:
    """A line on stderr that is overwritten on a terminal, and repeated now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._due = time.monotonic() + FIRST_PROGRESS_S
        self._shown = False

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + (PROGRESS_EVERY_S if self._terminal else PLAIN_PROGRESS_EVERY_S)
        self._shown = True
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        else:
            click.echo(text, err=True)

    def clear(self) -> None:
        if self._terminal and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def status_line() -> Iterator[StatusLine]:
    """A status line that is gone at the end, whatever happens."""
    line = StatusLine()
    try:
        yield line
    finally:
        line.clear()


@contextlib.contextmanager
def frame_progress(model: Model) -> Iterator[Callable[[int], None]]:
    """Progress of a generation: call with the number of frames decoded so far."""
    started = time.monotonic()
    frame_s = model.samples_per_frame / model.sample_rate
    with status_line() as line:

        def show(frames: int) -> None:
            audio_s = frames * frame_s
            rtf = (time.monotonic() - started) / audio_s
            line.show(f"speaking: {audio_s:.1f} s of sound, {frames} frames, RTF {rtf:.2f}")

        yield show
