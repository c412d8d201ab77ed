"""A device that adb knows."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kazeia.devices.adb_server import READY, AdbServer, receive_exactly
from kazeia.devices.base import Stream
from kazeia.devices.remote import WRITE_TIMEOUT_S, RemoteDevice
from kazeia.errors import DeviceError, UsageError

WORKSPACE = "/data/local/tmp/kazeia"
"""Where adb's user may write and execute."""
NAME = "adb"

PUSH_ANSWER_TIMEOUT_S = 120.0
"""From the last byte sent until the device has written everything down."""
CHUNK_BYTES = 64 * 1024
"""The most in one DATA message of the sync service."""
CHUNKS = 16
"""Sent at once: system calls and adb's own packets are what a fast link waits for."""
_MESSAGE = struct.Struct("<4sI")


class AdbDevice(RemoteDevice):
    """One device, by its serial, which goes with every single request.

    Commands run through the raw `exec:` service, which is binary-safe on devices old and new.
    """

    def __init__(self, server: AdbServer, serial: str, folder: str | None = None) -> None:
        super().__init__(f"{NAME}:{serial}", folder or WORKSPACE)
        if not self.folder.startswith("/"):
            raise UsageError(f"{self.folder!r} cannot be Kazeia's folder on {self.name}; name a full path such as {WORKSPACE}")
        self._server = server
        self._serial = serial

    def open(self, command: str) -> Stream:
        return AdbStream(self.name, self._server.open(self._serial, f"exec:{command}"))

    def push(self, source: Path, offset: int, size: int, target: str, progress: Callable[[int], None]) -> None:
        with self._server.open(self._serial, "sync:") as connection:
            try:
                self._send_file(connection, source, offset, size, target, progress)
            except TimeoutError:
                raise self.lost("stopped taking data") from None
            except OSError as error:
                if error.filename is not None:
                    raise DeviceError(f"cannot read {source}: {error.strerror}; export the bundle again") from None
                raise self.lost("was lost while files were sent") from None

    def _send_file(
        self, connection: socket.socket, source: Path, offset: int, size: int, target: str, progress: Callable[[int], None]
    ) -> None:
        path = f"{target},{stat.S_IFREG | 0o644}".encode()
        connection.settimeout(WRITE_TIMEOUT_S)
        connection.sendall(_MESSAGE.pack(b"SEND", len(path)) + path)
        with source.open("rb", buffering=0) as file:
            file.seek(offset)
            buffer = memoryview(bytearray(CHUNKS * (CHUNK_BYTES + _MESSAGE.size)))
            left = size
            while left:
                filled, taken = _fill(buffer, file.readinto, left)
                if not taken:
                    raise DeviceError(f"{source} became shorter while it was sent; export the bundle again")
                connection.sendall(buffer[:filled])
                left -= taken
                progress(taken)
                if select.select([connection], [], [], 0)[0]:
                    break  # a refusal; nothing else is said before the end
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(_MESSAGE.pack(b"DONE", int(time.time()) & 0xFFFFFFFF))
        connection.settimeout(PUSH_ANSWER_TIMEOUT_S)
        answer, length = _MESSAGE.unpack(receive_exactly(connection, _MESSAGE.size))
        if answer != b"OKAY":
            reason = receive_exactly(connection, length).decode(errors="replace")
            raise DeviceError(f"{self.name} cannot write {target}: {reason}; {_remedy(reason)}")


def _fill(buffer: memoryview, read_into: Callable[[memoryview], int | None], left: int) -> tuple[int, int]:
    """Fill `buffer` with DATA messages; how much of it is filled, and how many bytes of the file that is."""
    filled = taken = 0
    while filled < len(buffer) and taken < left:
        start = filled + _MESSAGE.size
        count = read_into(buffer[start : start + min(CHUNK_BYTES, left - taken)])
        if not count:
            break
        _MESSAGE.pack_into(buffer, filled, b"DATA", count)
        filled = start + count
        taken += count
        if count < CHUNK_BYTES:
            break
    return filled, taken


def _remedy(reason: str) -> str:
    if "space" in reason:
        return "free some space on it, or remove older deployments with kz deploy --prune"
    return "choose another folder with --folder"


class AdbStream(Stream):
    """The `exec:` service. Hanging up closes both ways: adb cannot close one alone."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        self._name = name
        self._connection = connection

    def write(self, data: bytes) -> None:
        self._connection.settimeout(WRITE_TIMEOUT_S)
        try:
            self._connection.sendall(data)
        except TimeoutError:
            raise DeviceError(f"{self._name} takes no data (waited {WRITE_TIMEOUT_S:.0f} s); unlock it or restart it") from None
        except OSError:
            return  # the next read tells

    def read(self, size: int, timeout_s: float) -> bytes:
        self._connection.settimeout(timeout_s)
        try:
            return self._connection.recv(size)
        except TimeoutError:
            raise
        except OSError:
            return b""

    def ready(self) -> bool:
        return bool(select.select([self._connection], [], [], 0)[0])

    def close(self) -> None:
        self._connection.close()


def find_adb_device(serial: str | None, folder: str | None = None, folders: Mapping[str, str] | None = None) -> AdbDevice:
    """The device `serial`; without it `$ANDROID_SERIAL`, or the only one there is.

    Its folder is `folder`, or else what `folders` has for its name.

    Raises:
        DeviceError: none or several match, or the one cannot be used; says which or why.
    """
    server = AdbServer()
    listed = server.devices()
    serial = serial or os.environ.get("ANDROID_SERIAL") or None
    matching = [device for device in listed if serial in (None, device.serial)]
    if len(matching) > 1:
        names = ", ".join(f"adb:{device.serial} ({device.state.partition(' (')[0]})" for device in matching)
        raise DeviceError(f"several devices are connected: {names}; choose one with --device")
    if not matching:
        wanted = f"adb:{serial} is not connected" if serial else "no device is connected to adb"
        raise DeviceError(f"{wanted}; plug it in with USB debugging on (or run adb connect HOST), then see kz devices")
    if matching[0].state != READY:
        raise DeviceError(matching[0].advice)
    found = matching[0].serial
    return AdbDevice(server, found, folder or (folders or {}).get(f"{NAME}:{found}"))
