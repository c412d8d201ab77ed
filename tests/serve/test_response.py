"""Time limits of a reply, without waiting for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from kazeia.bundle import Bundle
from kazeia.serve import speech_response
from kazeia.serve.job import Chunk, Job
from kazeia.serve.limits import UNREAD_RESPONSES
from kazeia.serve.metrics import Metrics
from kazeia.serve.speech_queue import QueueFull, SpeechQueue
from kazeia.serve.speech_request import SpeechRequest
from kazeia.serve.speech_response import SpeechResponse
from kazeia.synthesis import Options, Synthesizer
from tests.serve.service import speech_body
from tests.support.bundles import BABBLE


class Client:
    """The other side of one reply; it hears everything, or takes nothing after the head."""

    def __init__(self, *, takes_nothing: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self.aborted = asyncio.Event()
        self._takes_nothing = takes_nothing

    async def receive(self) -> dict[str, Any]:
        await self.aborted.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        if self._takes_nothing and message["type"] == "http.response.body":
            await asyncio.Event().wait()

    def abort(self) -> None:
        self.aborted.set()


class UnreadQueue(SpeechQueue):
    """A queue whose thread never runs: jobs stay where they are."""

    def __init__(self, limit: int = 1) -> None:
        super().__init__(_never, limit, Metrics())
        self._bundle = Bundle.open(BABBLE)

    @property
    def jobs(self) -> int:
        return len(self._open_jobs)

    def start_next(self) -> None:
        assert self._next_job() is not None


def _never() -> Synthesizer:
    raise NotImplementedError


def make_job() -> Job:
    request = msgspec.convert(speech_body(), SpeechRequest)
    request.seed = 1
    return Job(request, Options(), stream=True)


async def answer(queue: UnreadQueue, client: Client, metrics: Metrics, monkeypatch: pytest.MonkeyPatch, *chunks: bytes) -> Job:
    monkeypatch.setattr(speech_response, "connection_of", lambda scope: client)
    job = make_job()
    queue.submit(job)
    for chunk in chunks:
        job.report(Chunk(chunk))
    await SpeechResponse(queue, job, metrics)({"type": "http"}, client.receive, client.send)
    return job


def test_a_reader_that_takes_nothing_is_cut_off_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_response, "WRITE_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        queue, metrics, client = UnreadQueue(), Metrics(), Client(takes_nothing=True)
        job = await answer(queue, client, metrics, monkeypatch, b"sound")
        assert job.stopped
        assert client.aborted.is_set()
        assert queue.jobs == 0
        assert metrics.registry.get_sample_value("kazeia_responses_cut_off_total", {"reason": "slow reader"}) == 1

    asyncio.run(scenario())


def test_a_request_that_waits_too_long_gets_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_response, "REQUEST_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        queue, client = UnreadQueue(), Client()
        job = await answer(queue, client, Metrics(), monkeypatch)
        assert job.stopped
        assert queue.jobs == 0
        assert client.messages[0]["status"] == 503
        assert json.loads(client.messages[1]["body"])["error"]["code"] == "timed_out"

    asyncio.run(scenario())


def test_speech_that_takes_too_long_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_response, "REQUEST_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        metrics, client = Metrics(), Client()
        await answer(UnreadQueue(), client, metrics, monkeypatch, b"sound")
        assert [message["type"] for message in client.messages] == ["http.response.start", "http.response.body"]
        assert client.messages[1]["more_body"]
        assert client.aborted.is_set()
        assert metrics.registry.get_sample_value("kazeia_responses_cut_off_total", {"reason": "time limit"}) == 1

    asyncio.run(scenario())


def test_a_full_queue_says_when_to_ask_again_and_has_room_once_a_job_is_released() -> None:
    async def scenario() -> None:
        queue = UnreadQueue(limit=2)
        jobs = [make_job() for _ in range(3)]
        queue.submit(jobs[0])
        queue.submit(jobs[1])
        with pytest.raises(QueueFull) as full:
            queue.submit(jobs[2])
        assert full.value.retry_after_s >= 1
        queue.release(jobs[0])
        queue.submit(jobs[2])

    asyncio.run(scenario())


def test_too_many_replies_that_nobody_reads_are_refused_too() -> None:
    async def scenario() -> None:
        queue = UnreadQueue()
        for _ in range(UNREAD_RESPONSES + 1):
            queue.submit(make_job())
            queue.start_next()
        with pytest.raises(QueueFull):
            queue.submit(make_job())

    asyncio.run(scenario())
