"""The order of things while speech is under way: when bytes come, what breaks it off, what comes after."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.serve.scripted import Scripted
from tests.serve.scripted_runner import (
    CAPPED,
    DIES_AT_ONCE,
    DIES_LATER,
    ENDLESS,
    FAILS_LATER,
    GATED,
    LONG,
    NORMAL,
    REFUSES,
    SILENT,
)
from tests.serve.service import PATIENCE_S, speech_body, wait_until

FRAME_BYTES = 2 * 1920
HEADER_BYTES = 44


@pytest.mark.parametrize(("audio_format", "least"), [("wav", HEADER_BYTES + FRAME_BYTES), ("pcm", FRAME_BYTES), ("flac", 90)])
def test_the_first_sound_arrives_before_the_second_frame_is_generated(scripted: Scripted, audio_format: str, least: int) -> None:
    scripted.allow(1)
    with scripted.speaking(seed=GATED, response_format=audio_format) as response:
        assert response.status == 200
        first = response.read(least)
        assert len(first) == least
        assert "frame 1" not in scripted.steps
        scripted.allow(99)
        rest = response.read()
    if audio_format != "flac":
        assert len(first + rest) == least + 5 * FRAME_BYTES


def test_nothing_is_sent_before_there_is_sound(scripted: Scripted) -> None:
    body = json.dumps(speech_body(seed=GATED)).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", scripted.port)) as link:
        link.sendall(head % len(body) + body)
        wait_until(lambda: f"generate {GATED}" in scripted.steps)
        link.settimeout(0.5)
        with pytest.raises(TimeoutError):
            link.recv(1)
        scripted.allow(99)
        link.settimeout(PATIENCE_S)
        assert link.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("seed", "code", "says"),
    [
        (DIES_AT_ONCE, "runner_failed", "killed (signal 9)"),
        (REFUSES, "runner_failed", "logits are NaN"),
        (SILENT, "bad_sound", "silence"),
    ],
)
def test_a_failure_before_the_first_byte_is_an_error_and_the_next_request_is_well(
    scripted: Scripted, seed: int, code: str, says: str, stream: bool
) -> None:
    reply = scripted.speak(seed=seed, stream=stream)
    assert reply.status == (500 if seed == SILENT else 503)
    assert reply.error["code"] == code
    assert says in reply.error["message"]
    assert len(scripted.speak(seed=NORMAL).body) == HEADER_BYTES + 6 * FRAME_BYTES


@pytest.mark.parametrize("seed", [DIES_LATER, FAILS_LATER])
def test_a_failure_after_the_first_byte_breaks_the_connection_off(scripted: Scripted, seed: int) -> None:
    with scripted.speaking(seed=seed) as response:
        assert response.status == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
    assert scripted.metric("kazeia_responses_cut_off_total", reason="failed") == 1
    assert len(scripted.speak(seed=NORMAL).body) == HEADER_BYTES + 6 * FRAME_BYTES


@pytest.mark.parametrize("seed", [DIES_LATER, FAILS_LATER])
def test_a_failure_of_a_whole_reply_is_always_an_error(scripted: Scripted, seed: int) -> None:
    reply = scripted.speak(seed=seed, stream=False)
    assert reply.status == 503
    assert reply.error["code"] == "runner_failed"


def test_a_dead_runner_is_started_again_once(scripted: Scripted) -> None:
    assert scripted.speak(seed=DIES_AT_ONCE).status == 503
    assert scripted.speak(seed=NORMAL).status == 200
    assert scripted.steps.count("start generate") == 2
    assert scripted.metric("kazeia_runner_restarts_total") == 1


@pytest.mark.parametrize("role", ["generate", "decode"])
def test_a_runner_that_dies_while_idle_costs_no_request(scripted: Scripted, role: str) -> None:
    os.kill(scripted.pid(role), signal.SIGKILL)
    assert scripted.speak(seed=NORMAL).status == 200
    assert scripted.ask("GET", "/healthz").json == {"status": "ok"}
    assert scripted.metric("kazeia_runner_restarts_total") == 1


def test_a_runner_that_dies_while_idle_is_replaced_without_a_request(scripted: Scripted) -> None:
    os.kill(scripted.pid("decode"), signal.SIGKILL)
    wait_until(lambda: scripted.steps.count("start decode") == 2)
    wait_until(lambda: scripted.ask("GET", "/healthz").status == 200)


def test_a_runner_that_cannot_be_started_again_is_down_until_it_can(scripted: Scripted) -> None:
    (scripted.folder / "broken").touch()
    assert scripted.speak(seed=DIES_AT_ONCE).status == 503
    wait_until(lambda: scripted.ask("GET", "/healthz").json == {"status": "down"})
    assert scripted.ask("GET", "/healthz").status == 503
    assert scripted.metric("kazeia_runner_up") == 0
    reply = scripted.speak(seed=NORMAL)
    assert reply.status == 503
    assert "cannot be started" in reply.error["message"]
    (scripted.folder / "broken").unlink()
    assert scripted.speak(seed=NORMAL).status == 200
    assert scripted.ask("GET", "/healthz").status == 200


def test_a_client_that_leaves_cancels_within_a_few_frames_and_the_next_reply_is_prompt(scripted: Scripted) -> None:
    with scripted.speaking(seed=ENDLESS) as response:
        response.read(HEADER_BYTES + 40 * FRAME_BYTES)
        frames_when_left = sum(step.startswith("frame") for step in scripted.steps)
    assert scripted.speak(seed=NORMAL).status == 200
    cancelled = next(step for step in scripted.steps if step.startswith("done cancelled"))
    assert int(cancelled.split()[2]) <= frames_when_left + 10
    assert scripted.metric("kazeia_speech_total", end="cancelled") == 1
    assert scripted.steps.count("start generate") == 1


def test_a_client_that_leaves_while_it_waits_is_never_spoken_to(scripted: Scripted) -> None:
    scripted.allow(1)
    with scripted.speaking(seed=GATED) as response:
        response.read(1)
        waiting = scripted.connect()
        waiting.request("POST", "/v1/audio/speech", json.dumps(speech_body(seed=LONG)), {"Content-Type": "application/json"})
        wait_until(lambda: scripted.metric("kazeia_requests_waiting") == 1)
        waiting.close()
        wait_until(lambda: scripted.metric("kazeia_requests_waiting") == 0)
        scripted.allow(99)
        response.read()
    assert scripted.speak(seed=NORMAL).status == 200
    assert f"generate {LONG}" not in scripted.steps


def test_one_request_too_many_gets_429_with_retry_after_and_the_others_are_spoken(tmp_path: Path) -> None:
    folder = tmp_path / "script"
    folder.mkdir()
    with Scripted(folder, tmp_path / "home", "--queue", 2) as scripted:
        scripted.allow(1)
        with scripted.speaking(seed=GATED) as response:
            response.read(1)
            statuses: list[int] = []
            threads = [threading.Thread(target=lambda: statuses.append(scripted.speak(seed=NORMAL).status)) for _ in range(2)]
            for thread in threads:
                thread.start()
            wait_until(lambda: scripted.metric("kazeia_requests_waiting") == 2)
            refused = scripted.speak(seed=NORMAL)
            assert refused.status == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.error["code"] == "queue_full"
            scripted.allow(99)
            response.read()
        for thread in threads:
            thread.join()
        assert statuses == [200, 200]


def test_a_reader_that_takes_nothing_holds_nobody_up(scripted: Scripted) -> None:
    with scripted.speaking(seed=LONG) as stuck:
        stuck.read(1)
        started = time.monotonic()
        assert scripted.speak(seed=NORMAL).status == 200
        assert time.monotonic() - started < 20
        assert len(stuck.read()) == HEADER_BYTES + 800 * FRAME_BYTES - 1


def test_a_frame_cap_is_told_by_header_metrics_and_log(scripted: Scripted) -> None:
    reply = scripted.speak(seed=CAPPED, max_frames=3, stream=False)
    assert (reply.status, reply.headers["x-kazeia-stop-reason"], reply.headers["x-kazeia-frames"]) == (200, "frame_cap", "3")
    assert scripted.speak(seed=CAPPED, max_frames=3).status == 200
    assert scripted.metric("kazeia_speech_total", end="frame_cap") == 2
    assert sum("CUT OFF by the frame cap" in line for line in scripted.log) == 2


def test_http_1_0_gets_a_length_so_that_an_early_end_shows(scripted: Scripted) -> None:
    body = json.dumps(speech_body(seed=NORMAL)).encode()
    head = b"POST /v1/audio/speech HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    reply = scripted.exchange(head % len(body) + body)
    assert reply is not None
    assert int(reply.headers["content-length"]) == len(reply.body) == HEADER_BYTES + 6 * FRAME_BYTES


def test_requests_sent_ahead_on_one_connection_are_answered_in_order(scripted: Scripted) -> None:
    bodies = [json.dumps(speech_body(seed=seed, stream=False)).encode() for seed in (NORMAL, REFUSES, NORMAL)]
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", scripted.port), PATIENCE_S) as link:
        link.sendall(b"".join(head % len(body) + body for body in bodies))
        statuses = []
        file = link.makefile("rb")
        for _ in bodies:
            statuses.append(int(file.readline().split()[1]))
            length = 0
            while (line := file.readline().strip().lower()) != b"":
                length = int(line.split(b":")[1]) if line.startswith(b"content-length") else length
            assert len(file.read(length)) == length > 0
    assert statuses == [200, 503, 200]
