"""The adbd process: listens, keeps the device's state, takes the test's orders over a control channel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support import channel

from . import services
from .config import Config
from .faults import Faults, TripMeter
from .transport import Connection, Stream

#: In the environment of everything a daemon started, so that its death can take them along as init's does.
MARK = "ADBD_PORT"
_ANSWER_BYTES = 1 << 15  # the control channel's messages are small; a longer list goes in parts
_SERVICE_CHARACTERS = 1 << 14


class Daemon:
    """State shared by all connections."""

    def __init__(self, port: int, config: Config, faults: Faults) -> None:
        self.port = port
        self.config = config
        self.faults = faults
        self.meter = TripMeter(faults.trips)
        self.trusted_keys = list(config.trusted_keys)
        self.reverse = services.ReverseForwards()
        self._events: list[dict[str, Any]] = []
        self._connections: list[Connection] = []
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self._release = threading.Event()  # lifts the hangs of the faults in force

    def listen(self, listener: socket.socket | None = None) -> None:
        """Accept hosts, on ``listener`` or the port of old."""
        if listener is None:
            listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _address = listener.accept()
                connection = Connection(self, sock)
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
            threading.Thread(target=connection.run, daemon=True).start()

    def forget(self, connection: Connection) -> None:
        """Called by a connection that ended."""
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)

    def serve(self, stream: Stream, service: bytes) -> None:
        """Run one service to its end, in its own thread."""
        self.record(kind="open", service=service.decode("utf-8", "surrogateescape")[:_SERVICE_CHARACTERS])
        services.serve(self, stream, service)

    def record(self, **event: Any) -> None:
        """Note an event for the test."""
        with self._lock:
            self._events.append(event)

    def _take_events(self) -> dict[str, Any]:
        with self._lock:
            taken, size = 0, 0
            while taken < len(self._events) and size < _ANSWER_BYTES:
                size += len(json.dumps(self._events[taken]))
                taken += 1
            events, self._events = self._events[:taken], self._events[taken:]
            return {"events": events, "more": bool(self._events)}

    def hang(self, connection: Connection) -> None:
        """Wait until the faults change or the connection is gone."""
        release = self._release
        while not release.wait(0.05) and not connection.closed.is_set():
            pass

    def disconnect(self) -> None:
        """Close every connection."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.abort()

    def lose(self) -> None:
        """Be gone from the network."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.disconnect()

    def die(self) -> None:
        """End at once, and everything that ever came out of this daemon with it."""
        mark = f"{MARK}={self.port}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)
        os._exit(0)

    def set_faults(self, faults: Faults) -> None:
        """Replace the faults, start their counts, lift old hangs."""
        release, self._release = self._release, threading.Event()
        self.faults, self.meter = faults, TripMeter(faults.trips)
        release.set()

    def order(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the test asks for."""
        operation = message["op"]
        if operation == "events":
            return self._take_events()
        if operation == "faults":
            self.set_faults(Faults.from_json(message["faults"]))
        elif operation == "config":
            self.config = Config.from_json(message["config"])
        elif operation == "disconnect":
            self.disconnect()
        elif operation == "lose":
            self.lose()
        elif operation == "come_back":
            if self._listener is None:
                self.listen()
        elif operation == "die":
            self.die()
        else:
            raise ValueError(f"unknown order {operation}")
        return {"done": True}


def run(control: socket.socket, listener: socket.socket, settings: dict[str, Any]) -> None:
    """The process's life: until the control channel closes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    config, faults = Config.from_json(settings["config"]), Faults.from_json(settings["faults"])
    daemon = Daemon(listener.getsockname()[1], config, faults)
    daemon.listen(listener)
    while True:
        message, _fds = channel.receive(control)
        if not message:
            daemon.die()
        try:
            answer = daemon.order(message)
        except Exception as error:
            print(f"adbd: {error}", file=sys.stderr)
            answer = {"error": f"{type(error).__name__}: {error}"}
        channel.send(control, answer)
