"""Speaking tasks on a Dask cluster: one warm synthesizer a worker, everything about scheduling and retries left to Dask.

Workers need kazeia installed, and the bundle: the one they would choose themselves, or the given folder on their own disk.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kazeia.errors import BundleError, DeviceError, KazeiaError, UsageError
from kazeia.files import sha256
from kazeia.phrase_tasks import Outcome, PhraseSpeaker, Task
from kazeia.synthesis import DecodeOn, Synthesizer

try:
    from distributed import Client, WorkerPlugin, as_completed, get_worker
except ImportError:
    raise UsageError("speaking on a Dask cluster needs the extra dask: pip install 'kazeia[dask]'") from None

if TYPE_CHECKING:
    from distributed import Future, Worker

PLUGIN_NAME = "kazeia"
CONNECT_TIMEOUT_S = 10
DASK_RETRIES = 2
"""Dask's retries of a task whose worker could not start or restart its runners."""
WAITING_PER_WORKER = 2
"""Tasks beyond the one being spoken that a worker is sent, so that it is never idle and the list is not held in memory."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A Dask cluster by its scheduler's address (`tcp://HOST:8786`)."""

    address: str
    bundle: str | None
    """As for `Synthesizer`, but on the workers."""
    manifest_sha256: str
    """Of the bundle's manifest here; a worker with another bundle is refused."""
    threads: int | None = None
    decode_on: DecodeOn = "pc"

    def speak(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Speak `tasks`, outcomes as they come.

        Raises:
            DeviceError: no scheduler answers at the address, or it has no workers.
            BundleError: a worker has another bundle.
        """
        try:
            client = Client(self.address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise DeviceError(f"no Dask scheduler answers at {self.address} ({error}); start one with dask scheduler") from None
        with client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            if not workers:
                raise DeviceError(f"the Dask cluster at {self.address} has no workers; start them: dask worker {self.address}")
            client.register_plugin(_WarmSynthesizer(self), name=PLUGIN_NAME)
            yield from self._outcomes(client, tasks, workers * (1 + WAITING_PER_WORKER))

    def _outcomes(self, client: Client, tasks: Iterator[Task], at_once: int) -> Generator[Outcome, None, None]:
        running: dict[Future, Task] = {}

        def submit(task: Task) -> Future:
            # Pure calls of equal arguments would be one call.
            future = client.submit(_speak, task, pure=False, retries=DASK_RETRIES)
            running[future] = task
            return future

        completed = as_completed([submit(task) for task in islice(tasks, at_once)])
        try:
            for future in completed:
                yield _outcome(future, running.pop(future))
                completed.update([submit(task) for task in islice(tasks, 1)])
        finally:
            client.cancel(list(running))


def _outcome(future: Future, task: Task) -> Outcome:
    error = future.exception()
    if error is None:
        result: Outcome = future.result()
        return dataclasses.replace(result, task=task)
    if isinstance(error, BundleError):
        raise error
    return Outcome(task, "failed", None, f"the Dask cluster could not speak it: {error}", (), 0)


class _WarmSynthesizer(WorkerPlugin):  # type: ignore[misc]
    """Lives on each worker as long as the batch's settings stay the same; starts runners for its first task."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def setup(self, worker: Worker) -> None:
        self._lock = threading.Lock()
        self._address = worker.address
        self._speaker: PhraseSpeaker | None = None
        self._synthesizer: Synthesizer | None = None

    def teardown(self, worker: Worker) -> None:
        with self._lock:
            self._close()

    def speak(self, task: Task) -> Outcome:
        """Workers with several threads speak one task after the other: a runner does one thing at a time."""
        with self._lock:
            if self._speaker is None:
                self._speaker = PhraseSpeaker(self._open())
            try:
                outcome = self._speaker.outcome(task)
            except KazeiaError:
                self._close()
                raise
        if outcome.speech is None:
            return outcome
        statistics = outcome.speech.statistics
        where = dataclasses.replace(statistics, device=f"{statistics.device} of {self._address}")
        return dataclasses.replace(outcome, speech=dataclasses.replace(outcome.speech, statistics=where))

    def _open(self) -> Synthesizer:
        from kazeia.bundle import MANIFEST_NAME

        synthesizer = Synthesizer(self._cluster.bundle, None, self._cluster.threads, self._cluster.decode_on)
        if sha256(synthesizer.bundle.folder / MANIFEST_NAME) != self._cluster.manifest_sha256:
            synthesizer.close()
            raise BundleError(
                f"the Dask worker {self._address} has another bundle at {synthesizer.bundle.folder}; "
                "copy this machine's there, or name one that both have with --bundle"
            )
        self._synthesizer = synthesizer
        return synthesizer

    def _close(self) -> None:
        if self._synthesizer is not None:
            self._synthesizer.close()
        self._synthesizer = self._speaker = None


def _speak(task: Task) -> Outcome:
    """Runs on a worker."""
    plugin: Any = get_worker().plugins[PLUGIN_NAME]
    outcome: Outcome = plugin.speak(task)
    return outcome
