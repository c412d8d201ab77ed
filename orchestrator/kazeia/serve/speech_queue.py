"""A bounded queue in front of one warm synthesizer, and the thread that serves it.

The runners are replaced once after every failure. If that fails too, the service is down until the next request, which
tries again.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from kazeia.bundle import Bundle
from kazeia.errors import AudioError, DeviceError, KazeiaError, RunnerError
from kazeia.serve.encoding import make_encoder
from kazeia.serve.job import Chunk, Failed, Finished, Job
from kazeia.serve.limits import IDLE_CHECK_S, UNREAD_RESPONSES
from kazeia.serve.metrics import Metrics
from kazeia.synthesis import Stream, Synthesizer

State: TypeAlias = Literal["ok", "restarting", "down"]

RECENT = 0.2
"""Weight of the latest request in the running mean of their durations."""

logger = logging.getLogger(__name__)


class QueueFull(Exception):
    """Too many requests; `retry_after_s` is when one of them should have ended."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


class SpeechQueue:
    """Speaks jobs one at a time, first come first served. A context manager.

    Args:
        open_synthesizer: starts runners; called in the speaking thread.
        limit: jobs that may wait.

    Raises:
        KazeiaError: the first start failed (on entering).
    """

    def __init__(self, open_synthesizer: Callable[[], Synthesizer], limit: int, metrics: Metrics) -> None:
        self.state: State = "restarting"
        self._open = open_synthesizer
        self._limit = limit
        self._metrics = metrics
        self._waiting: deque[Job] = deque()
        self._open_jobs: set[Job] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._synthesizer: Synthesizer | None = None
        self._bundle: Bundle | None = None
        self._mean_s = 1.0
        self._started = threading.Event()
        self._start_error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="speaking")

    def __enter__(self) -> SpeechQueue:
        self._thread.start()
        try:
            self._started.wait()
        except BaseException:
            self.close()
            raise
        if self._start_error is not None:
            raise self._start_error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bundle(self) -> Bundle:
        """What is spoken with."""
        assert self._bundle is not None, "enter the queue first"
        return self._bundle

    def close(self) -> None:
        """Cancel what is spoken, fail what waits, end the runners."""
        with self._changed:
            self._closing = True
            for job in self._open_jobs:
                job.stop()
            self._changed.notify()
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Queue a job; `release` it whatever becomes of it.

        Raises:
            QueueFull: too many wait, or too many are still being read.
        """
        with self._changed:
            unread = len(self._open_jobs) - len(self._waiting)
            if len(self._waiting) >= self._limit or unread > UNREAD_RESPONSES:
                raise QueueFull(max(1, math.ceil(self._mean_s * len(self._waiting))))
            self._waiting.append(job)
            self._open_jobs.add(job)
            self._metrics.waiting.set(len(self._waiting))
            self._changed.notify()

    def release(self, job: Job) -> None:
        """The job's reader is done with it, or gone: what is left of it is not spoken."""
        job.stop()
        with self._changed:
            self._open_jobs.discard(job)
            if job in self._waiting:
                self._waiting.remove(job)
                self._metrics.speech.labels("cancelled").inc()
            self._metrics.waiting.set(len(self._waiting))

    def _work(self) -> None:
        try:
            self._start()
        except BaseException as error:
            self._start_error = error
            return
        finally:
            self._started.set()
        while not self._closing:
            job = self._next_job()
            if job is not None:
                self._serve(job)
            elif self.state == "ok" and not self._is_alive():
                logger.warning("a runner ended while it was idle; starting it again")
                self._restart()
        for job in self._waiting:
            job.report(Failed(RunnerError("the service is being stopped; ask again later")))
        if self._synthesizer is not None:
            self._synthesizer.close()

    def _next_job(self) -> Job | None:
        with self._changed:
            if not self._waiting and not self._closing:
                self._changed.wait(IDLE_CHECK_S)
            if not self._waiting or self._closing:
                return None
            job = self._waiting.popleft()
            self._metrics.waiting.set(len(self._waiting))
            return job

    def _serve(self, job: Job) -> None:
        """Speak one job; whatever happens, the thread lives and the job gets its end."""
        if job.stopped:
            self._metrics.speech.labels("cancelled").inc()
            return
        try:
            synthesizer = self._ready()
            stream = synthesizer.stream(job.request.input, job.options)
        except (RunnerError, DeviceError) as error:
            self._fail(job, error)
            self._restart()
        except KazeiaError as error:
            self._metrics.speech.labels("failed").inc()
            job.report(Failed(error))
        except Exception as error:
            logger.exception("a request failed before it was spoken")
            self._fail(job, KazeiaError(f"internal error: {type(error).__name__}; see the service's log"))
        else:
            self._speak(job, stream)

    def _speak(self, job: Job, stream: Stream) -> None:
        try:
            self._send(job, stream)
        except KazeiaError as error:
            # The generation may still run: only fresh runners are sure to answer the next request alone.
            self._fail(job, error)
            self._restart()
        except Exception as error:
            logger.exception("a request failed while it was spoken")
            self._fail(job, KazeiaError(f"internal error: {type(error).__name__}; see the service's log"))
            self._restart()

    def _send(self, job: Job, stream: Stream) -> None:
        job.warning = stream.prompt.warning
        job.begin(stream)
        encoder = make_encoder(job.request.response_format, self.bundle.manifest.model.sample_rate, stream=job.stream)
        heard = False
        held = b""  # until something is heard: a reply that is silent throughout must fail before its first byte
        for samples in stream:
            heard = heard or bool(samples.any())
            held += encoder.encode(samples)
            if heard and held:
                job.report(Chunk(held))
                held = b""
        statistics = stream.statistics()
        self._metrics.ended(statistics)
        self._mean_s += RECENT * (statistics.total_ms / 1000 - self._mean_s)
        if statistics.stop_reason == "cancelled":
            job.report(Failed(RunnerError("cancelled")))
        elif not heard:
            job.report(Failed(AudioError("the speech decoder gave nothing but silence; export the bundle again")))
        else:
            job.report(Finished(held + encoder.finish(), statistics))

    def _fail(self, job: Job, error: KazeiaError) -> None:
        self._metrics.speech.labels("failed").inc()
        logger.error("request failed: %s", error)
        job.report(Failed(error))

    def _ready(self) -> Synthesizer:
        """The synthesizer, replaced first if its runners have died since the last job.

        Raises:
            KazeiaError: they cannot be started.
        """
        if not self._is_alive():
            self._restart()
        if self._synthesizer is None:
            raise RunnerError("the runner cannot be started; see the service's log")
        return self._synthesizer

    def _is_alive(self) -> bool:
        try:
            return self._synthesizer is not None and self._synthesizer.is_idle()
        except KazeiaError:
            return False

    def _start(self) -> None:
        self._synthesizer = self._open()
        self._bundle = self._synthesizer.bundle
        self.state = "ok"
        self._metrics.runner_up.set(1)

    def _restart(self) -> None:
        """Replace the runners, once; afterwards the state says whether it worked."""
        self.state = "restarting"
        self._metrics.runner_up.set(0)
        self._metrics.restarts.inc()
        old, self._synthesizer = self._synthesizer, None
        try:
            if old is not None:
                old.close()
        except (KazeiaError, OSError) as error:
            logger.warning("ending the old runner: %s", error)
        try:
            self._start()
        except (KazeiaError, OSError) as error:
            self.state = "down"
            logger.error("the runner cannot be started: %s", error)
