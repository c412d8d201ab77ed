"""The services of an adb device, by the name that a host opens."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import shell, sync
from .transport import Connection, Stream, StreamClosed

if TYPE_CHECKING:
    from .daemon import Daemon

_ANSWERS = {
    b"root": b"adbd cannot run as root in production builds\n",
    b"unroot": b"adbd not running as root\n",
    b"remount": b'Not running as root. Try "adb root" first.\n',
    b"disable-verity": b"Device is locked. Please unlock the device first\n",
    b"enable-verity": b"Device is locked. Please unlock the device first\n",
}


def serve(daemon: Daemon, stream: Stream, service: bytes) -> None:
    """Run ``service`` until it ends. Returning without an answer refuses it, as an older device does."""
    name, _, rest = service.partition(b":")
    kind, *arguments = name.split(b",")
    if kind == b"shell":
        if b"v2" not in arguments or "shell_v2" in daemon.config.features:
            shell.serve(daemon, stream, arguments, rest)
    elif kind == b"exec":
        shell.serve(daemon, stream, [b"exec", b"raw"], rest)
    elif kind == b"sync":
        stream.connection.accept(stream)
        sync.SyncService(daemon, stream).run()
    elif kind in (b"tcp", b"localabstract", b"localfilesystem", b"local"):
        _forward(daemon, stream, kind, rest)
    elif kind == b"reverse":
        stream.connection.accept(stream)
        stream.write(daemon.reverse.order(stream.connection, rest.decode()))
    elif kind == b"reboot":
        stream.connection.abort()
    elif kind in _ANSWERS:
        stream.connection.accept(stream)
        stream.write(_ANSWERS[kind])


def _connect(kind: bytes, address: bytes) -> socket.socket:
    if kind == b"tcp":
        sock = socket.socket(socket.AF_INET)
        sock.connect(("127.0.0.1", int(address.partition(b":")[0])))
        return sock
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(b"\0" + address if kind == b"localabstract" else address)
    return sock


def _forward(daemon: Daemon, stream: Stream, kind: bytes, address: bytes) -> None:
    try:
        sock = _connect(kind, address)
    except OSError:
        if daemon.faults.drops_on_dead_forward:
            daemon.lose()
        return
    stream.connection.accept(stream)
    bridge(stream, sock)


def bridge(stream: Stream, sock: socket.socket) -> None:
    """Carry bytes both ways until either side closes."""

    def to_socket() -> None:
        with contextlib.suppress(StreamClosed, OSError):
            while True:
                sock.sendall(stream.read())
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=to_socket, daemon=True).start()
    with contextlib.suppress(StreamClosed, OSError), sock:
        while data := sock.recv(min(stream.max_write, 1 << 16)):
            stream.write(data)
    stream.close()


class ReverseForwards:
    """Listening ports on the device that lead to the host."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[str, str, socket.socket]] = {}

    def order(self, connection: Connection, command: str) -> bytes:
        """Answer one ``reverse:`` command in the framing of adb's own server."""
        verb, _, rest = command.partition(":")
        handlers: dict[str, Callable[[], bytes]] = {
            "forward": lambda: self._add(connection, rest),
            "list-forward": self._list,
            "killforward": lambda: self._remove(rest),
            "killforward-all": self._remove_all,
        }
        if verb not in handlers:
            return _fail(f"unknown reverse command {verb}")
        try:
            return handlers[verb]()
        except OSError as error:
            return _fail(str(error))

    def _add(self, connection: Connection, rest: str) -> bytes:
        local, _, remote = rest.removeprefix("norebind:").partition(";")
        if rest.startswith("norebind:") and local in self._listeners:
            return _fail("cannot rebind existing socket")
        matched = re.fullmatch(r"tcp:(\d+)", local)
        if not matched:
            return _fail(f"only tcp is served here, not {local}")
        self._remove(local)
        listener = socket.create_server(("127.0.0.1", int(matched[1])))
        port = listener.getsockname()[1]
        self._listeners[f"tcp:{port}"] = (connection.transport_name, remote, listener)
        threading.Thread(target=self._accept, args=(connection, listener, remote), daemon=True).start()
        return b"OKAY" + (b"%04x%d" % (len(str(port)), port) if matched[1] == "0" else b"")

    def _accept(self, connection: Connection, listener: socket.socket, remote: str) -> None:
        while True:
            try:
                sock, _address = listener.accept()
                stream = connection.open(remote.encode())
            except (OSError, StreamClosed):
                return
            if stream is None:
                sock.close()
            else:
                threading.Thread(target=bridge, args=(stream, sock), daemon=True).start()

    def _list(self) -> bytes:
        lines = "".join(f"{who} {local} {remote}\n" for local, (who, remote, _sock) in self._listeners.items())
        return b"%04x%s" % (len(lines), lines.encode())  # adbd sends no status before this one

    def _remove(self, local: str) -> bytes:
        if local not in self._listeners:
            return _fail(f"listener '{local}' not found")
        listener = self._listeners.pop(local)[2]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        return b"OKAY"

    def _remove_all(self) -> bytes:
        for local in list(self._listeners):
            self._remove(local)
        return b"OKAY"


def _fail(reason: str) -> bytes:
    return b"FAIL%04x%s" % (len(reason), reason.encode())
