"""A `kz serve` process, and a client that hides nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTED_RUNNER = Path(__file__).with_name("scripted_runner.py")
KZ = [sys.executable, "-c", "from kazeia.cli import main; main()"]
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, checked to be one as OpenAI's API has it."""
        assert self.headers["content-type"] == "application/json", self
        assert set(self.json) == {"error"}, self
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert error["type"] == ("invalid_request_error" if self.status < 500 else "server_error")
        assert error["message"]
        assert "\n" not in error["message"]
        return error


class Service:
    """Running since construction; use it as a context manager."""

    def __init__(self, home: Path, *options: object, **environment: str) -> None:
        self.home = home
        command = [*KZ, "serve", "--port", "0", *map(str, options)]
        variables = {**os.environ, "KZ_HOME": str(home), **environment}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.log
        self.host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.port = int(port)
        wait_until(self._answers)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self._end()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        with contextlib.closing(self.connect()) as connection:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**kind, **{name.replace("_", "-"): value for name, value in headers.items()}})
            return read_reply(connection.getresponse())

    def speak(self, text: str = "Bonjour.", **fields: Any) -> Reply:
        return self.ask("POST", "/v1/audio/speech", speech_body(text, **fields))

    @contextlib.contextmanager
    def speaking(self, text: str = "Bonjour.", **fields: Any) -> Iterator[http.client.HTTPResponse]:
        """A reply under way; leaving closes its connection."""
        connection = self.connect()
        try:
            body = json.dumps(speech_body(text, **fields))
            connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
            yield connection.getresponse()
        finally:
            if connection.sock is not None:
                connection.sock.close()
            connection.close()

    def exchange(self, data: bytes, *, pause_s: float = 0.0) -> Reply | None:
        """Send raw bytes, and read the reply; None if there is none."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as link:
            link.sendall(data)
            time.sleep(pause_s)
            response = http.client.HTTPResponse(link)
            try:
                response.begin()
                return read_reply(response)
            except (ConnectionError, http.client.HTTPException):
                return None

    def metric(self, name: str, **labels: str) -> float:
        from prometheus_client.parser import text_string_to_metric_families

        text = self.ask("GET", "/metrics").body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        return 0.0

    def children(self) -> list[int]:
        pid = self.process.pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]

    def _end(self) -> int:
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert not [line for line in self.log if "Traceback" in line], self.log
        return status

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.ask("GET", "/healthz").status == 200
        return False

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))


def speech_body(text: str = "Bonjour.", **fields: Any) -> dict[str, Any]:
    return {"model": "kazeia", "voice": "babble", "input": text, **fields}


def read_reply(response: http.client.HTTPResponse) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
