"""Speaking tasks on one or several devices: a thread and a warm synthesizer for each, tasks handed out as they are free."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from kazeia.errors import DeviceError, KazeiaError, RunnerError
from kazeia.phrase_tasks import Outcome, Task, speak_each
from kazeia.synthesis import Synthesizer

POLL_S = 0.1
END_TIMEOUT_S = 10.0
"""A device that hangs is not waited for longer when everything ends."""


class _Stopped(Exception):
    """Nobody wants the outcome any more."""


class _Ended:
    """A device has no more to say; `error` is why, unless there were no more tasks."""

    def __init__(self, device: str, error: BaseException | None) -> None:
        self.device = device
        self.error = error


def open_synthesizers(openers: Sequence[Callable[[], Synthesizer]]) -> list[Synthesizer]:
    """Start all at once; if one cannot, none stays.

    Raises:
        KazeiaError: the first one's error.
    """
    with ThreadPoolExecutor(len(openers)) as pool:
        futures = [pool.submit(opener) for opener in openers]
    failed = [error for future in futures if (error := future.exception())]
    opened = [future.result() for future in futures if not future.exception()]
    if failed:
        for synthesizer in opened:
            synthesizer.close()
        raise failed[0]
    return opened


def speak_on_devices(
    synthesizers: Sequence[Synthesizer], tasks: Iterator[Task], say: Callable[[str], None]
) -> Generator[Outcome, None, None]:
    """Speak `tasks`, each on the next synthesizer that is free; closes the synthesizers at the end, also at an early one.

    A device that is lost hands its task to the others.

    Raises:
        DeviceError, RunnerError: the last device was lost; tasks are left.
    """
    feed, stopped = _Feed(tasks), threading.Event()
    outcomes: queue.Queue[Outcome | _Ended] = queue.Queue(len(synthesizers))
    arguments = [(synthesizer, feed, outcomes, stopped) for synthesizer in synthesizers]
    threads = [threading.Thread(target=_work, args=each, daemon=True) for each in arguments]
    running, lost = len(threads), None
    try:
        for thread in threads:
            thread.start()
        while running:
            item = outcomes.get()
            if isinstance(item, Outcome):
                yield item
                continue
            running -= 1
            if item.error is not None:
                if not isinstance(item.error, (DeviceError, RunnerError)):
                    raise item.error
                lost = item.error
                if running:
                    say(f"going on without {item.device}: {lost}")
        if lost is not None and feed.has_more():
            raise lost
    finally:
        stopped.set()
        for thread in threads:
            thread.join(END_TIMEOUT_S)


class _Feed:
    """Hands tasks out to several threads, and takes back what one could not finish."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks = tasks
        self._returned: deque[Task] = deque()
        self._lock = threading.Lock()

    def next(self) -> Task | None:
        with self._lock:
            return self._returned.popleft() if self._returned else next(self._tasks, None)

    def take_back(self, task: Task) -> None:
        with self._lock:
            self._returned.append(task)

    def has_more(self) -> bool:
        task = self.next()
        if task is not None:
            self.take_back(task)
        return task is not None


def _work(synthesizer: Synthesizer, feed: _Feed, outcomes: queue.Queue[Outcome | _Ended], stopped: threading.Event) -> None:
    """What each thread does."""
    under_way: Task | None = None

    def tasks() -> Iterator[Task]:
        nonlocal under_way
        while not stopped.is_set() and (under_way := feed.next()) is not None:
            yield under_way

    def check(frames: int) -> None:
        if stopped.is_set():
            raise _Stopped

    error: BaseException | None = None
    try:
        with synthesizer:
            for outcome in speak_each(synthesizer, tasks(), check):
                _put(outcomes, outcome, stopped)
    except _Stopped:
        pass
    except BaseException as caught:
        error = caught
        if under_way is not None and isinstance(caught, KazeiaError):
            feed.take_back(under_way)
    _put(outcomes, _Ended(synthesizer.device.name, error), stopped)


def _put(outcomes: queue.Queue[Outcome | _Ended], item: Outcome | _Ended, stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            outcomes.put(item, timeout=POLL_S)
            return
        except queue.Full:
            continue
