"""Starting, who may ask, slow clients, and stopping."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.serve.scripted import Scripted
from tests.serve.scripted_runner import ENDLESS, GATED, NORMAL
from tests.serve.service import PATIENCE_S, Reply, Service, is_running, wait_until
from tests.support.bundles import BABBLE
from tests.support.command import Kz

TOKEN = "a-token-of-good-length"


def test_beyond_this_machine_a_token_is_needed(kz: Kz) -> None:
    assert "set a token with --token or $KZ_TOKEN" in kz.fails("serve", "--host", "0.0.0.0", "--port", 0)


@pytest.mark.parametrize("token", ["", "short", "with space in the middle", "ünïcödé-and-long-enough", "line\nbreak-long-enough"])
def test_a_token_that_is_short_or_cannot_be_sent_is_refused(kz: Kz, token: str) -> None:
    assert "the token must have at least 16" in kz.fails("serve", "--port", 0, "--token", token)


def test_a_port_in_use_or_a_foreign_address_is_said(kz: Kz) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in kz.fails("serve", "--port", port)
    assert "cannot listen on 192.0.2.1 port 0" in kz.fails("serve", "--host", "192.0.2.1", "--port", 0)
    assert "cannot listen on no.such.host.invalid" in kz.fails("serve", "--host", "no.such.host.invalid")


def test_a_missing_extra_is_named(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else find(name, *rest))
    assert kz.fails("serve") == "kz: kz serve needs uvicorn; install them: pip install 'kazeia[serve]'"


def test_a_bundle_that_cannot_be_loaded_ends_it(kz: Kz, tmp_path: Path) -> None:
    assert "is not a bundle" in kz.fails("serve", "--port", 0, "--bundle", tmp_path)


def test_a_runner_that_cannot_be_loaded_ends_it(kz: Kz, fake_bundle: Path) -> None:
    assert kz("serve", "--port", 0, "--bundle", fake_bundle, "--device", "local").status == 10


def test_serving_never_imports_torch(tmp_path: Path) -> None:
    with Service(tmp_path, "--bundle", BABBLE, "--device", "local") as service:
        assert service.speak().status == 200
        maps = Path(f"/proc/{service.process.pid}/maps").read_text()
    assert "libtorch" not in maps


def test_with_a_token_all_but_the_page_and_health_need_it(tmp_path: Path) -> None:
    with Service(tmp_path, "--bundle", BABBLE, "--host", "0.0.0.0", KZ_TOKEN=TOKEN) as service:
        for path in ("/v1/voices", "/v1/models", "/metrics", "/nowhere"):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}):
                reply = service.ask("GET", path, **headers)
                assert (reply.status, reply.error["code"]) == (401, "invalid_token")
                assert reply.headers["www-authenticate"] == "Bearer"
        assert service.speak().status == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert service.ask("GET", "/v1/voices", **allowed).status == 200
        assert service.ask("GET", "/healthz", Host="tablet.example").status == 200
        assert b'id="token"' in service.ask("GET", "/").body
        assert not [line for line in service.log if TOKEN in line]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_speech_end_and_leaves_no_runner(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "script"
    folder.mkdir()
    with Scripted(folder, tmp_path / "home") as scripted:
        scripted.allow(1)
        runners = scripted.children()
        assert len(runners) == 2
        with scripted.speaking(seed=GATED) as response:
            response.read(1)
            scripted.process.send_signal(number)
            wait_until(lambda: any("Shutting down" in line for line in scripted.log))
            scripted.allow(99)
            assert len(response.read()) == 44 + 6 * 3840 - 1
        assert scripted.process.wait(PATIENCE_S) == 0
        assert not [pid for pid in runners if is_running(pid)]


def test_speech_that_does_not_end_is_cancelled_by_a_second_signal(scripted: Scripted) -> None:
    runners = scripted.children()
    with scripted.speaking(seed=ENDLESS) as response:
        response.read(1)
        scripted.process.send_signal(signal.SIGTERM)
        wait_until(lambda: any("Shutting down" in line for line in scripted.log))
        scripted.process.send_signal(signal.SIGINT)
        assert scripted.process.wait(PATIENCE_S) == 0
    assert not [pid for pid in runners if is_running(pid)]
    assert any(step.startswith("done cancelled") for step in scripted.steps)


def test_runners_end_with_a_service_that_is_killed(scripted: Scripted) -> None:
    runners = scripted.children()
    os.kill(scripted.process.pid, signal.SIGKILL)
    scripted.process.wait()
    wait_until(lambda: not [pid for pid in runners if is_running(pid)])


def test_a_slow_head_and_a_slow_body_end_in_408_and_hold_nobody_up(scripted: Scripted) -> None:
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n"
    replies: list[Reply | None] = []
    slow = [head, head + b'\r\n{"model": ']
    threads = [threading.Thread(target=lambda data=data: replies.append(scripted.exchange(data))) for data in slow]
    for thread in threads:
        thread.start()
    assert scripted.speak(seed=NORMAL).status == 200
    for thread in threads:
        thread.join()
    assert [(reply.status, reply.error["code"]) for reply in replies if reply] == 2 * [(408, "request_too_slow")]


def test_too_many_connections_are_refused_and_gone_when_closed(scripted: Scripted) -> None:
    links = [socket.create_connection(("127.0.0.1", scripted.port)) for _ in range(256)]
    try:
        refused = scripted.exchange(b"")
        assert refused is not None
        assert (refused.status, refused.error["code"]) == (503, "too_many_connections")
    finally:
        for link in links:
            link.close()
    wait_until(lambda: scripted.ask("GET", "/healthz").status == 200)
