"""How a long export tells where it is: one named stage at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TextIO


class Progress(Protocol):
    """Called with the name of a stage; the stage lasts as long as the context it returns."""

    def __call__(self, stage: str) -> AbstractContextManager[None]: ...


def silent(stage: str) -> AbstractContextManager[None]:
    """The progress of a caller that shows none."""
    return nullcontext()


class LineProgress:
    """A line a stage: its name when it starts, its time when it ends."""

    def __init__(self, stream: TextIO) -> None:
        """Writes to `stream` even while `sys.stderr` is redirected."""
        self._stream = stream

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            self._write(f"{stage} ...")
            yield
        except BaseException:
            self._write(" stopped\n")
            raise
        self._write(f" {time.monotonic() - started:.1f} s\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
