"""The test's handle on a running adbd."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import socket
import time
from types import TracebackType
from typing import Any

from tests.support import channel
from tests.support.sandbox import SHELL_UID, Sandbox

from .config import Config
from .faults import Faults


class Adbd:
    """A device on ``serial`` (``127.0.0.1:PORT``); several may share one sandbox, as USB and Wi-Fi of one tablet do.

    Give ``config`` its ``properties`` to greet with other names than the sandbox's.
    """

    def __init__(self, sandbox: Sandbox, config: Config | None = None, faults: Faults | None = None) -> None:
        self.sandbox = sandbox
        self._config = config or Config()
        if not self._config.properties:
            self._config = dataclasses.replace(self._config, properties=dict(sandbox.properties))
        self._faults = faults or Faults()
        self._events: list[dict[str, Any]] = []
        self._control: socket.socket | None = None
        self._status_fd = -1
        self.port = 0

    @property
    def serial(self) -> str:
        """The name that adb knows the device by."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Adbd:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process, on the port of an earlier start if there was one."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        ours, theirs = channel.pair()
        ours.settimeout(30)
        status_read, status_write = os.pipe()
        settings = {"config": self._config.to_json(), "faults": self._faults.to_json()}
        with listener, theirs:
            message = {"op": "adbd", "uid": SHELL_UID, "settings": settings}
            self.sandbox.request(message, [status_write, theirs.fileno(), listener.fileno()])
        os.close(status_write)
        self._control, self._status_fd = ours, status_read

    def stop(self) -> None:
        """End the process and all that it started; idempotent."""
        if self._control is not None:
            self._control.close()
            self._control = None
            select.select([self._status_fd], [], [], 10)
            os.close(self._status_fd)

    @property
    def is_running(self) -> bool:
        """False once it was killed, by a trip or by :meth:`die`."""
        return self._control is not None and not select.select([self._status_fd], [], [], 0)[0]

    def _order(self, **message: Any) -> dict[str, Any]:
        if self._control is None:
            raise RuntimeError("this adbd was not started")
        channel.send(self._control, message)
        answer, _fds = channel.receive(self._control)
        if not answer or "error" in answer:
            raise RuntimeError(f"adbd: {answer.get('error', 'it died')}")
        return answer

    @property
    def faults(self) -> Faults:
        """What goes wrong. Setting it starts all counts anew and lifts hangs."""
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._order(op="faults", faults=faults.to_json())

    def configure(self, **changes: Any) -> None:
        """Change fields of the :class:`Config`; hosts see it when they connect next."""
        self._config = dataclasses.replace(self._config, **changes)
        self._order(op="config", config=self._config.to_json())

    def disconnect(self) -> None:
        """Cut every connection; hosts may come back at once."""
        self._order(op="disconnect")

    def lose(self) -> None:
        """The device vanishes from the network (its processes live on) until :meth:`come_back`."""
        self._order(op="lose")

    def die(self) -> None:
        """Kill adbd and everything it started, as unplugging or a mode switch does, until :meth:`come_back`."""
        if self._control is not None:
            channel.send(self._control, {"op": "die"})
            select.select([self._status_fd], [], [], 10)

    def come_back(self) -> None:
        """Undo a loss or a death, without the faults that led to it."""
        self._faults = dataclasses.replace(self._faults, trips=())
        try:
            self._order(op="faults", faults=self._faults.to_json())
            self._order(op="come_back")
        except (OSError, RuntimeError):  # dead, or just dying
            self.stop()
            self.start()

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What happened since the last :meth:`clear_events`, oldest first (a death loses what was not fetched).

        Kinds: ``connect`` (banner), ``key`` (accepted, comment), ``open`` (service, with a command's full text), ``exit``
        (command, status, hung_up), ``push`` (path, bytes, done), ``pull``, ``stat``, ``list`` (path), ``fault`` (action).
        """
        with contextlib.suppress(OSError, RuntimeError):  # dead, or just dying
            more = True
            while more:
                answer = self._order(op="events")
                self._events += answer["events"]
                more = answer["more"]
        return [event for event in self._events if kind in (None, event["kind"])]

    def clear_events(self) -> None:
        """Forget what happened so far."""
        self.events()
        self._events.clear()

    def wait_for(self, kind: str, timeout: float = 10, **fields: Any) -> dict[str, Any]:
        """The first event of that kind with those fields; raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            for event in self.events(kind):
                if all(event.get(name) == value for name, value in fields.items()):
                    return event
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {kind} event with {fields} within {timeout} s; there were {self._events}")
            time.sleep(0.02)
