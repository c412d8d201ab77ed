"""Requests that cannot be spoken: always 4xx with a JSON error, and the service stays well."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kazeia.serve.limits import MAX_BODY_BYTES, MAX_INPUT_CHARACTERS
from tests.serve.service import Service, speech_body

SPEECH = "/v1/audio/speech"


@pytest.fixture(autouse=True)
def _speaks_afterwards(service: Service) -> Iterator[None]:
    yield
    assert service.speak("Hi.", seed=1).status == 200
    assert service.metric("kazeia_runner_restarts_total") == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"sead": 7}, "sead"),
        ({"input": 12}, "input"),
        ({"input": None}, "input"),
        ({"input": ["a"]}, "input"),
        ({"input": ""}, "input"),
        ({"input": "  \n"}, "input"),
        ({"input": "..."}, "input"),
        ({"input": "😄"}, "input"),
        ({"input": "a" * (MAX_INPUT_CHARACTERS + 1)}, "input"),
        ({"input": "word " * 2000}, "input"),
        ({"voice": ""}, "voice"),
        ({"voice": "nobody"}, "voice"),
        ({"voice": 3}, "voice"),
        ({"voice": {"id": "babble"}}, "voice"),
        ({"voice": "../babble"}, "voice"),
        ({"voice": "/etc/passwd.npy"}, "voice"),
        ({"voice": "babble\x00"}, "voice"),
        ({"voice": "x" * 5000}, "voice"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"response_format": "mp3"}, "response_format"),
        ({"response_format": None}, "response_format"),
        ({"speed": 1.5}, "speed"),
        ({"speed": "fast"}, "speed"),
        ({"stream_format": "sse"}, "stream_format"),
        ({"stream": "yes"}, "stream"),
        ({"language": "sp"}, "language"),
        ({"language": ""}, "language"),
        ({"language": 5}, "language"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"max_frames": 0}, "max_frames"),
        ({"temperature": -1}, "temperature"),
        ({"top_k": 0.5}, "top_k"),
        ({"top_p": 2}, "top_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"instructions": 4}, "instructions"),
    ],
)
def test_a_wrong_field_is_refused_by_name(service: Service, fields: dict[str, Any], param: str) -> None:
    reply = service.ask("POST", SPEECH, {**speech_body(), **fields})
    assert reply.status == (404 if fields == {"model": ""} else 400)
    assert reply.error["param"] == param
    assert "--" not in reply.error["message"].replace("export with a larger --context", "")


@pytest.mark.parametrize("missing", ["model", "input", "voice"])
def test_a_missing_field_is_named(service: Service, missing: str) -> None:
    body = speech_body()
    del body[missing]
    reply = service.ask("POST", SPEECH, body)
    assert (reply.status, reply.error["param"]) == (400, missing)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe{\x00}\x00",
        b'{"input": "\xff"}',
        b'{"input": "\\ud800", "model": "kazeia", "voice": "babble"}',
        b'{"model": "kazeia", "voice": "babble", "input": "a", "temperature": NaN}',
        b'{"model": "kazeia", "voice": "babble", "input": "a", "temperature": 1e999}',
        b'{"model": "kazeia", "voice": "babble", "input": "a"} trailing',
        b"[" * 100_000,
        b'{"instructions":' * 10_000,
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_the_json_wanted_is_refused(service: Service, body: bytes) -> None:
    reply = service.ask("POST", SPEECH, body)
    assert reply.status == 400
    assert reply.error["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_only_json_is_taken_so_that_no_web_page_can_make_it_speak_unasked(service: Service, kind: str) -> None:
    reply = service.ask("POST", SPEECH, json.dumps(speech_body()).encode(), Content_Type=kind)
    assert (reply.status, reply.error["code"]) == (415, "not_json")


def test_a_large_body_is_refused_without_being_read(service: Service) -> None:
    head = f"POST {SPEECH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10485760\r\n\r\n"
    reply = service.exchange(head.encode())
    assert reply is not None
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 2_000_000, 10_000_000])
def test_a_large_body_that_is_sent_all_the_same_gets_413(service: Service, size: int) -> None:
    reply = service.ask("POST", SPEECH, b" " * size)
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


def test_a_chunked_body_is_measured_while_it_comes(service: Service) -> None:
    head = f"POST {SPEECH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    reply = service.exchange(head.encode() + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 5)
    assert reply is not None
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", SPEECH, 405), ("DELETE", "/v1/voices", 405), ("OPTIONS", SPEECH, 405), ("GET", "/nowhere", 404),
    ("GET", "/v1/models/other", 404), ("GET", "/../../etc/passwd", 404), ("GET", "/%00", 404), ("POST", "/", 405),
])  # fmt: skip
def test_wrong_paths_and_methods_are_json_errors_too(service: Service, method: str, path: str, status: int) -> None:
    reply = service.ask(method, path)
    assert reply.status == status
    assert reply.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "head",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    ],
)
def test_a_broken_or_endless_head_is_refused(service: Service, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", service.port), 20) as link:
        with contextlib.suppress(ConnectionError):
            link.sendall(head)
        data = link.recv(65536)
    assert data.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")), data
    assert b'"code":"invalid_http"' in data


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:8125", "[::2]", ""]
)
def test_another_host_name_is_refused(service: Service, host: str) -> None:
    reply = service.ask("GET", "/v1/voices", Host=host)
    assert (reply.status, reply.error["code"]) == (403, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8125", "[::1]:8125"])
def test_this_machine_s_names_are_welcome(service: Service, host: str) -> None:
    assert service.ask("GET", "/healthz", Host=host).status == 200


def test_an_upgrade_is_ignored(service: Service) -> None:
    reply = service.ask("GET", "/healthz", Connection="Upgrade", Upgrade="websocket")
    assert reply.status == 200
