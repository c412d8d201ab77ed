"""Speaking tasks on a Dask cluster: one warm synthesizer a worker, everything about scheduling and retries left to Dask.

Workers need kazeia installed, and the bundle: the one they would choose themselves, or the given folder on their own disk.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Generator, Iterator
from itertools import islice

from kazeia.bundle import MANIFEST_NAME
from kazeia.errors import BundleError, DeviceError, KazeiaError, UsageError
from kazeia.files import sha256
from kazeia.phrase_tasks import Outcome, PhraseSpeaker, Task
from kazeia.synthesis import DecodeOn, Synthesizer

try:
    from distributed import Client, Future, as_completed, get_worker
except ImportError:
    raise UsageError("speaking on a Dask cluster needs the extra dask: pip install 'kazeia[dask]'") from None

CONNECT_TIMEOUT_S = 10

DASK_RETRIES = 2
"""Dask's retries of a task whose worker could not start or restart its runners."""

TASKS_PER_WORKER = 3
"""Sent at once: a worker is never idle, and the list is never in memory as a whole."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A Dask cluster by its scheduler's address (`tcp://HOST:8786`), and what its workers speak with."""

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
            BundleError: a worker has another bundle, or none.
        """
        try:
            client = Client(self.address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise DeviceError(f"no Dask scheduler answers at {self.address} ({error}); start one: dask scheduler") from None
        with client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            if not workers:
                raise DeviceError(f"the Dask cluster at {self.address} has no workers; start them: dask worker {self.address}")
            yield from self._outcomes(client, tasks, workers * TASKS_PER_WORKER)

    def _outcomes(self, client: Client, tasks: Iterator[Task], at_once: int) -> Generator[Outcome, None, None]:
        running: dict[Future, Task] = {}

        def submit(task: Task) -> Future:
            # Pure calls of equal arguments would be one call.
            future = client.submit(_speak, self, task, pure=False, retries=DASK_RETRIES)
            running[future] = task
            return future

        completed = as_completed([submit(task) for task in islice(tasks, at_once)], loop=client.loop)
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
        return result
    if isinstance(error, BundleError):
        raise error
    return Outcome(task, "failed", None, f"the Dask cluster could not speak it: {error}", (), 0)


def _speak(cluster: Cluster, task: Task) -> Outcome:
    """Runs on a worker."""
    outcome = _WARM.speak(cluster, task)
    if outcome.speech is None:
        return outcome
    statistics = outcome.speech.statistics
    where = dataclasses.replace(statistics, device=f"{statistics.device} of {get_worker().address}")
    return dataclasses.replace(outcome, speech=dataclasses.replace(outcome.speech, statistics=where))


class _Warm:
    """The worker's synthesizer: stays from task to task and batch to batch, until the worker ends or other settings come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._synthesizer: Synthesizer | None = None
        self._speaker: PhraseSpeaker | None = None

    def speak(self, cluster: Cluster, task: Task) -> Outcome:
        """Workers with several threads speak one task after the other: a runner does one thing at a time."""
        with self._lock:
            if self._speaker is None or self._cluster != cluster:
                self._close()
                self._speaker = PhraseSpeaker(self._open(cluster))
            try:
                return self._speaker.outcome(task)
            except KazeiaError:
                self._close()
                raise

    def _open(self, cluster: Cluster) -> Synthesizer:
        synthesizer = Synthesizer(cluster.bundle, None, cluster.threads, cluster.decode_on)
        if sha256(synthesizer.bundle.folder / MANIFEST_NAME) != cluster.manifest_sha256:
            synthesizer.close()
            raise BundleError(
                f"the Dask worker {get_worker().address} has another bundle at {synthesizer.bundle.folder}; "
                "copy this machine's there, or name one that both have with --bundle"
            )
        self._cluster, self._synthesizer = cluster, synthesizer
        return synthesizer

    def _close(self) -> None:
        if self._synthesizer is not None:
            self._synthesizer.close()
        self._synthesizer = self._speaker = self._cluster = None


_WARM = _Warm()
