"""Stands in for adb's own server, to show real clients the states that only USB devices can have.

A device over TCP is never ``no permissions`` or ``authorizing``, and never has a serial number of its own; the server says
what it says about those, whatever is plugged in. So this speaks the server's side of the protocol to any client.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

#: The version of adb's client-server protocol; a client of another version would try to replace the server.
SERVER_VERSION = 41
_REASONS = {
    "unauthorized": (
        "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\nTry 'adb kill-server' if that seems wrong.\n"
        "Otherwise check for a confirmation dialog on your device."
    ),
    "authorizing": "device still authorizing",
    "offline": "device offline",
    "connecting": "device still connecting",
    "no permissions": (
        "insufficient permissions for device: missing udev rules? user is in the plugdev group\n"
        "See [http://developer.android.com/tools/device.html] for more information"
    ),
}
NO_PERMISSIONS = (
    "no permissions (missing udev rules? user is in the plugdev group); see [http://developer.android.com/tools/device.html]"
)


@dataclass(frozen=True)
class StubDevice:
    """One line of ``adb devices``; ``details`` is what ``-l`` adds."""

    serial: str
    state: str
    details: str = "usb:1-2 transport_id:1"


class AdbServerStub:
    """``with AdbServerStub([StubDevice("R52X", NO_PERMISSIONS)]) as stub:`` then set ANDROID_ADB_SERVER_PORT to ``stub.port``.

    ``requests`` lists what clients asked for. Any command for a device fails with the reason that adb's server gives. With
    another ``version`` a client says that it does not match, asks the stub to end, and starts a server of its own there.
    """

    def __init__(self, devices: Sequence[StubDevice], version: int = SERVER_VERSION) -> None:
        self.devices = list(devices)
        self.version = version
        self.requests: list[str] = []
        self.port = 0
        self._listener: socket.socket | None = None

    def __enter__(self) -> AdbServerStub:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client, client.makefile("rb") as stream:
            request = stream.read(int(stream.read(4), 16)).decode()
            self.requests.append(request)
            client.sendall(self._answer(request))
            if request.startswith("host:track-devices"):
                stream.read(1)  # until the client leaves

    def _answer(self, request: str) -> bytes:
        if request == "host:version":
            return _okay(f"{self.version:04x}")
        if request == "host:kill":
            self._end()
            return b"OKAY"
        if request in ("host:devices", "host:track-devices"):
            return _okay("".join(f"{device.serial}\t{device.state}\n" for device in self.devices))
        if request in ("host:devices-l", "host:track-devices-l"):
            return _okay("".join(f"{device.serial:<22} {device.state} {device.details}\n" for device in self.devices))
        return _framed(b"FAIL", self._reason(request))

    def _reason(self, request: str) -> str:
        for device in self.devices:
            if device.serial in request:
                return next((text for state, text in _REASONS.items() if device.state.startswith(state)), "closed")
        if not request.startswith("host:"):
            return f"device '{request.split(':')[1]}' not found"
        if len(self.devices) > 1:
            return "more than one device/emulator"
        return self._reason(f"host-serial:{self.devices[0].serial}") if self.devices else "no devices/emulators found"


def _framed(status: bytes, text: str) -> bytes:
    data = text.encode()
    return status + b"%04x" % len(data) + data


def _okay(text: str) -> bytes:
    return _framed(b"OKAY", text)
