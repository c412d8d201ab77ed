"""adb's own server on this machine, spoken to directly: it knows the devices and carries every byte to them.

The server outlives us and is shared with Android Studio and the like, so it is used as it is found, whatever its version;
only where none runs is one started, from `$KZ_ADB`, the `adb` on the path, or the one that adbutils brings.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kazeia.devices.remote import OPEN_TIMEOUT_S
from kazeia.errors import DeviceError, UsageError

DEFAULT_PORT = 5037
SERVER_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0
SETTLE_TIMEOUT_S = 3.0
"""How long a device may take from being plugged in to being usable."""
SETTLING = ("authorizing", "connecting")

READY = "device"
_ADVICE = {
    "unauthorized": "has not allowed this computer: unlock it and accept 'Allow USB debugging?' on its screen, then try again",
    "authorizing": "is still checking this computer's key: unlock it, then try again",
    "offline": "is offline: unplug it and plug it in again, or run adb reconnect offline",
    "connecting": "is still connecting: try again in a moment",
    "no permissions": "may not be opened by this user: install udev rules (apt-get install android-sdk-platform-tools-common), "
    "join the group plugdev and plug it in again",
    "recovery": "is in recovery mode: start Android with adb reboot, then try again",
    "sideload": "is waiting for a sideload: start Android from its menu, then try again",
    "rescue": "is in rescue mode: start Android from its menu, then try again",
    "bootloader": "is in its bootloader: start Android with fastboot reboot, then try again",
    "host": "is not in device mode: unplug it and plug it in again",
    "detached": "was detached from adb: run adb attach, or plug it in again",
}


@dataclass(frozen=True)
class Listed:
    """One line of `adb devices`."""

    serial: str
    state: str
    """`device` if it can be used."""

    @property
    def advice(self) -> str:
        """One sentence: why it cannot be used and what to do."""
        known = next((text for state, text in _ADVICE.items() if self.state.startswith(state)), None)
        return f"adb:{self.serial} {known or f'is in the state {self.state!r}: plug it in again'}"


def parse_devices(text: str) -> list[Listed]:
    """The lines `serial TAB state` of a list of devices; notices, headers and blank lines are no devices."""
    listed = []
    for line in text.replace("\r", "").split("\n"):
        serial, tab, state = line.rstrip().partition("\t")
        if tab and state and not serial.startswith("*") and " " not in serial:
            listed.append(Listed(serial, state))
    return listed


def adb_program() -> str:
    """The adb to start a server with.

    Raises:
        UsageError: `$KZ_ADB` is not a program.
        DeviceError: there is none.
    """
    if named := os.environ.get("KZ_ADB"):
        if found := shutil.which(named):
            return found
        raise UsageError(f"$KZ_ADB is {named!r}, which is not a program; name adb itself, or unset it")
    if found := shutil.which("adb"):
        return found
    package = importlib.util.find_spec("adbutils")
    for folder in package.submodule_search_locations or [] if package else []:
        if found := shutil.which("adb", path=str(Path(folder, "binaries"))):
            return found
    raise DeviceError("there is no adb; run pip install adbutils, or name one with $KZ_ADB")


class AdbServer:
    """Finds its address as adb does: `$ADB_SERVER_SOCKET`, or `$ANDROID_ADB_SERVER_ADDRESS` and `$ANDROID_ADB_SERVER_PORT`.

    Raises:
        UsageError: the address is of a kind that is not served.
    """

    def __init__(self) -> None:
        address = os.environ.get("ADB_SERVER_SOCKET", "")
        host = os.environ.get("ANDROID_ADB_SERVER_ADDRESS") or "127.0.0.1"
        port = os.environ.get("ANDROID_ADB_SERVER_PORT") or str(DEFAULT_PORT)
        if address:
            kind, _, place = address.partition(":")
            name, _, port = place.rpartition(":")
            host = name or "127.0.0.1"
            if kind != "tcp":
                raise UsageError(f"$ADB_SERVER_SOCKET is {address!r}; kz takes tcp:HOST:PORT")
        if not port.isdigit():
            raise UsageError(f"the adb server's port is {port!r}, not a number; see $ANDROID_ADB_SERVER_PORT")
        self._address = (host, int(port))

    def version(self) -> int:
        """The running server's version: 41 for adb 1.0.41."""
        return int(self._query("host:version"), 16)

    def devices(self) -> list[Listed]:
        """Every device, in any state; those that were only just plugged in are given a moment.

        Raises:
            DeviceError: there is no server and none can be started.
        """
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            listed = parse_devices(self._query("host:devices"))
            if time.monotonic() > deadline or not any(device.state.startswith(SETTLING) for device in listed):
                return listed
            time.sleep(0.2)

    def open(self, serial: str, service: str) -> socket.socket:
        """Open a service of the device `serial`.

        Raises:
            DeviceError: the device is not there, not usable, or does not answer.
        """
        connection = self._connect()
        try:
            connection.settimeout(OPEN_TIMEOUT_S)
            for request in (f"host:transport:{serial}", service):
                _send(connection, request)
                if failure := _failure(connection):
                    raise self._refusal(serial, failure)
        except TimeoutError:
            connection.close()
            raise DeviceError(f"adb:{serial} does not answer (waited {OPEN_TIMEOUT_S:.0f} s); unlock it or restart it") from None
        except OSError:
            connection.close()
            raise self._refusal(serial, "the adb server closed the connection") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _refusal(self, serial: str, reason: str) -> DeviceError:
        """Why the server refused: the device's state says it best."""
        listed = {device.serial: device for device in self.devices()}
        if serial not in listed:
            return DeviceError(f"adb:{serial} is not connected; plug it in (or run adb connect), unlock it and try again")
        if listed[serial].state != READY:
            return DeviceError(listed[serial].advice)
        first_line = reason.strip().partition("\n")[0]
        return DeviceError(f"adb:{serial} refused ({first_line}); unlock it, plug it in again and try again")

    def _query(self, request: str) -> str:
        with self._connect() as connection:
            try:
                connection.settimeout(SERVER_TIMEOUT_S)
                _send(connection, request)
                failure = _failure(connection)
                answer = failure or _block(connection)
            except (OSError, ValueError) as error:
                raise DeviceError(f"the adb server at {self._where()} does not answer ({error}); run adb kill-server") from None
        if failure:
            raise DeviceError(f"the adb server at {self._where()} refused ({failure.strip()}); run adb kill-server")
        return answer

    def _connect(self) -> socket.socket:
        try:
            return self._connect_running()
        except ConnectionRefusedError:
            self._start()
        except OSError as error:
            raise DeviceError(f"cannot reach the adb server at {self._where()} ({error}); check its address") from None
        try:
            return self._connect_running()
        except OSError as error:
            raise DeviceError(f"cannot reach the adb server at {self._where()} ({error}); run adb start-server") from None

    def _connect_running(self) -> socket.socket:
        connection = socket.create_connection(self._address, SERVER_TIMEOUT_S)
        # Small requests wait 40 ms for each other otherwise.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _start(self) -> None:
        program = adb_program()
        # A file, not a pipe: the server stays and would keep a pipe open.
        with tempfile.TemporaryFile() as errors:
            try:
                subprocess.run(
                    [program, "start-server"],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    timeout=START_TIMEOUT_S,
                )
            except (OSError, subprocess.SubprocessError):
                errors.seek(0)
                lines = errors.read().decode(errors="replace").strip().splitlines()
                said = f" ({lines[-1]})" if lines else ""
                raise DeviceError(f"{program} cannot start its server{said}; run it yourself: adb start-server") from None

    def _where(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"


def _send(connection: socket.socket, request: str) -> None:
    data = request.encode()
    connection.sendall(b"%04x%s" % (len(data), data))


def _failure(connection: socket.socket) -> str | None:
    """The reason if the server refused what was sent last."""
    answer = receive_exactly(connection, 4)
    if answer == b"OKAY":
        return None
    if answer == b"FAIL":
        return _block(connection) or "no reason given"
    raise ValueError(f"it said {answer!r}")


def _block(connection: socket.socket) -> str:
    size = int(receive_exactly(connection, 4), 16)
    return receive_exactly(connection, size).decode(errors="replace")


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """The next `size` bytes.

    Raises:
        OSError: the other side closed before, or (TimeoutError) the socket's time limit passed.
    """
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        data += piece
    return bytes(data)
