"""One request to speak, on its way from the event loop to the speaking thread and back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TypeAlias

from kazeia.errors import KazeiaError
from kazeia.serve.speech_request import SpeechRequest
from kazeia.synthesis import Options, Statistics, Stream


@dataclass(frozen=True)
class Chunk:
    """Encoded sound, at least one byte, with more to come."""

    data: bytes


@dataclass(frozen=True)
class Finished:
    """The end, with the last bytes."""

    data: bytes
    statistics: Statistics


@dataclass(frozen=True)
class Failed:
    """Nothing more will come."""

    error: KazeiaError


Event: TypeAlias = Chunk | Finished | Failed


class Job:
    """Created and read in the event loop; spoken in the speaking thread."""

    def __init__(self, request: SpeechRequest, options: Options, *, stream: bool) -> None:
        self.request = request
        self.options = options
        self.stream = stream
        """Send while generating; otherwise all at once."""
        self.warning: str | None = None
        """What was asked for and could not be heeded; known before the first event."""
        self.stopped = False
        self._speech: Stream | None = None
        self._loop = asyncio.get_running_loop()
        # Not bounded: it holds at most one context of sound, and a slow reader must not hold up the speaking thread.
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def next_event(self) -> Event:
        return await self._events.get()

    def stop(self) -> None:
        """Nobody listens any more: end within a frame."""
        self.stopped = True
        if self._speech is not None:
            self._speech.stop()

    def begin(self, speech: Stream) -> None:
        """The speaking thread has started it."""
        self._speech = speech
        if self.stopped:
            speech.stop()

    def report(self, event: Event) -> None:
        """Hand an event over from the speaking thread; once the loop has ended, to nobody."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
