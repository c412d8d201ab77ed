"""How a long export tells where it is: one named stage at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Progress(Protocol):
    """Called with the name of a stage; the stage lasts as long as the context it returns."""

    def __call__(self, stage: str) -> AbstractContextManager[None]: ...


def silent(stage: str) -> AbstractContextManager[None]:
    """The progress of a caller that shows none."""
    return nullcontext()
