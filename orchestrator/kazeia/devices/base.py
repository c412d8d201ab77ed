"""The seam to a device: everything that touches one goes through `Device` and `Channel`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path


class Channel(ABC):
    """A byte stream to one running program: its stdin and stdout. Used by one thread.

    Every method may raise `DeviceError` when the device itself is lost.
    """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send all of `data`; a program that has ended is reported by the next `read`."""

    @abstractmethod
    def read(self, size: int, timeout_s: float) -> bytes:
        """At least one and at most `size` bytes; `b""` once the program has closed its output.

        Raises:
            TimeoutError: nothing came within `timeout_s`.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Would `read` return at once?"""

    @abstractmethod
    def close(self, timeout_s: float = 5.0) -> int | None:
        """Close stdin, wait for the end, kill what does not end; the exit status, negative for a signal, None if unknown."""

    @abstractmethod
    def kill(self) -> None:
        """End the program now."""

    @abstractmethod
    def log_tail(self) -> str:
        """The last lines the program wrote to stderr."""


class Stream(ABC):
    """Two-way bytes to a command on a device. Used by one thread; every wait has a limit."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send all of `data`; a command that has ended is reported by the next `read`.

        Raises:
            DeviceError: the device takes nothing for `WRITE_TIMEOUT_S`.
        """

    @abstractmethod
    def read(self, size: int, timeout_s: float) -> bytes:
        """At least one and at most `size` bytes; `b""` once the command has ended or the device is gone.

        Raises:
            TimeoutError: nothing came within `timeout_s`.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Would `read` return at once?"""

    @abstractmethod
    def close(self) -> None:
        """Hang up: the command's stdin ends. Never raises; may be called twice."""


class Device(ABC):
    """A place that can run the runner."""

    name: str
    """As the user writes it: `local`, `adb:SERIAL`, `ssh:USER@HOST`."""

    @abstractmethod
    def open_runner(self, bundle: Path, arguments: Sequence[str]) -> Channel:
        """Start `kz_runner --bundle <bundle on the device> <arguments>` and return its channel.

        Raises:
            DeviceError: the device cannot be reached or refuses.
            RunnerError: there is no runner on it.
        """
