"""Many requests at once: none lost, none mixed up, memory flat.

`KZ_LOAD_REQUESTS` sets how many follow while memory is watched.
"""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kazeia.audio import to_levels
from kazeia.synthesis import Options, Synthesizer
from tests.serve.service import Service
from tests.support.bundles import BABBLE

REQUESTS = 200
AT_ONCE = 16
FOLLOWING = int(os.environ.get("KZ_LOAD_REQUESTS", "100"))
MAX_FRAMES = 12
HEADER_BYTES = 44
GROWTH_BYTES = 12_000_000
"""Of server and runners together: less than 12 kB for each of 1,000 requests, the size of their sound being 4 times that."""


def text(number: int) -> str:
    return f"Phrase number {number}, said once."


def fields(number: int) -> dict[str, object]:
    return {"seed": number, "voice": ("babble", "murmur")[number % 2], "max_frames": MAX_FRAMES}


@pytest.fixture(scope="module")
def alone() -> Iterator[Synthesizer]:
    with Synthesizer(BABBLE, "local") as synthesizer:
        yield synthesizer


def expected(alone: Synthesizer, number: int) -> bytes:
    options = Options(voice=("babble", "murmur")[number % 2], seed=number, max_frames=MAX_FRAMES)
    return to_levels(alone.speak(text(number), options).samples).tobytes()


def test_two_hundred_requests_sixteen_at_a_time_are_each_answered_with_their_own_speech(
    service: Service, alone: Synthesizer
) -> None:
    wanted = [expected(alone, number) for number in range(REQUESTS)]
    assert len(set(wanted)) == REQUESTS
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = list(pool.map(lambda number: service.speak(text(number), **fields(number)), range(REQUESTS)))
    assert [reply.status for reply in replies] == REQUESTS * [200]
    assert [reply.body[HEADER_BYTES:] for reply in replies] == wanted


def test_runners_killed_under_load_cost_only_the_requests_they_were_speaking(service: Service, alone: Synthesizer) -> None:
    wanted = [expected(alone, number) for number in range(60)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = [pool.submit(service.speak, text(number), **fields(number)) for number in range(60)]
        for done in (10, 25, 40):
            replies[done].exception()
            os.kill(service.children()[0], signal.SIGKILL)
    lost = 0
    for reply, sound in zip(replies, wanted, strict=True):
        if isinstance(reply.exception(), (http.client.IncompleteRead, ConnectionError)):
            lost += 1
        elif (answer := reply.result()).status == 503:
            assert answer.error["code"] == "runner_failed"
            lost += 1
        else:
            assert answer.body[HEADER_BYTES:] == sound
    assert lost <= 3
    assert 1 <= service.metric("kazeia_runner_restarts_total") <= 3
    assert len(service.children()) == 2


def test_memory_stays_flat_over_many_more(service: Service) -> None:
    ask(service, range(50))
    before = resident_bytes(service)
    ask(service, range(FOLLOWING))
    after = resident_bytes(service)
    print(f"resident bytes over {FOLLOWING} requests, server then runners: {before} -> {after}")
    assert sum(after) - sum(before) < GROWTH_BYTES


def ask(service: Service, numbers: range) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = pool.map(lambda number: service.speak(text(number), **fields(number)), numbers)
        assert {reply.status for reply in replies} == {200}


def resident_bytes(service: Service) -> list[int]:
    pids = [service.process.pid, *sorted(service.children())]
    return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") for pid in pids]
