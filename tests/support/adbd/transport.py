"""One host's connection: the handshake, and the streams that share it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING

from . import wire
from .auth import PublicKey
from .faults import Action

if TYPE_CHECKING:
    from .daemon import Daemon

Bytes = bytes | bytearray | memoryview


class StreamClosed(Exception):
    """The other side closed the stream, or the connection is gone."""


class Stream:
    """One service's two-way channel. Its thread reads and writes; the connection's thread delivers."""

    def __init__(self, connection: Connection, local_id: int, remote_id: int) -> None:
        self.connection = connection
        self.local_id = local_id
        self.remote_id = remote_id
        self._incoming: deque[memoryview] = deque()
        self._changed = threading.Condition()
        self._closed = False  # by either side
        self._close_sent = False
        self._may_write = remote_id != 0
        self.accepted = False

    @property
    def max_write(self) -> int:
        """The most bytes that travel in one packet."""
        return self.connection.max_payload

    def read(self) -> memoryview:
        """The next packet's payload; it is acknowledged only now, so a busy service slows the sender."""
        with self._changed:
            self._changed.wait_for(lambda: self._incoming or self._closed)
            if not self._incoming:
                raise StreamClosed
            payload = self._incoming.popleft()
        self.connection.send(wire.OKAY, self.local_id, self.remote_id)
        return payload

    def write(self, data: Bytes) -> None:
        """Send ``data``, packet by packet, each after the last one's acknowledgement."""
        view = memoryview(data)
        for start in range(0, len(view), self.max_write):
            with self._changed:
                self._changed.wait_for(lambda: self._may_write or self._closed)
                if self._closed:
                    raise StreamClosed
                self._may_write = False
            self.connection.send(wire.WRTE, self.local_id, self.remote_id, view[start : start + self.max_write])

    def wait_open(self) -> bool:
        """For a stream that the device opened: whether the host took it."""
        with self._changed:
            self._changed.wait_for(lambda: self._may_write or self._closed)
            return not self._closed

    def close(self) -> None:
        """Say that no more comes; afterwards the stream is forgotten."""
        with self._changed:
            if self._close_sent:
                return
            self._close_sent = True
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(StreamClosed):
            # the host knows no number of ours yet if its request was refused
            self.connection.send(wire.CLSE, self.local_id if self.accepted else 0, self.remote_id)
        self.connection.forget(self)

    def on_data(self, payload: memoryview) -> None:
        """Called by the connection."""
        with self._changed:
            self._incoming.append(payload)
            self._changed.notify_all()

    def on_okay(self, remote_id: int) -> None:
        """Called by the connection."""
        with self._changed:
            self.remote_id = remote_id
            self._may_write = True
            self._changed.notify_all()

    def on_close(self) -> None:
        """Called by the connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed."""
        return self._closed


class Connection:
    """A host on the other end of ``sock``."""

    def __init__(self, daemon: Daemon, sock: socket.socket) -> None:
        self.daemon = daemon
        self.max_payload = wire.MAX_PAYLOAD_V1
        self._sock = sock
        self._packets = wire.PacketSocket(sock)
        self._streams: dict[int, Stream] = {}
        self._lock = threading.Lock()
        self._next_id = 1
        self._token = b""
        self.closed = threading.Event()
        self.transport_name = f"host-{sock.getpeername()[1]}"

    def run(self) -> None:
        """Handle packets until the connection ends."""
        try:
            while True:
                packet = self._packets.read()
                size = 24 + len(packet.payload)
                self._pace(size)
                _allowed, action = self.daemon.meter.pass_bytes("link", "", size)
                if action:
                    self.strike(action)
                self._handle(packet)
        except (EOFError, OSError, StreamClosed):
            pass
        except (wire.WireError, ValueError) as error:
            print(f"adbd: {self.transport_name}: {error}", file=sys.stderr)
        finally:
            self.abort()

    def send(self, command: int, arg0: int, arg1: int, payload: Bytes = b"") -> None:
        """Send a packet; raises StreamClosed once the connection is gone."""
        self._pace(len(payload), waits=False)
        try:
            self._packets.write(command, arg0, arg1, payload)
        except OSError as error:
            raise StreamClosed from error

    def _pace(self, count: int, waits: bool = True) -> None:
        faults = self.daemon.faults
        delay = (faults.latency_s if waits else 0) + (count / faults.bytes_per_s if faults.bytes_per_s else 0)
        if delay:
            time.sleep(delay)

    def abort(self, reset: bool = False) -> None:
        """Close the connection with everything on it."""
        with contextlib.suppress(OSError):
            if reset:  # a linger time of zero turns the close into a reset; the reader must let go of the socket first
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._sock.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
        self.closed.set()
        self._sock.close()
        with self._lock:
            streams = list(self._streams.values())
            self._streams.clear()
        for stream in streams:
            stream.on_close()
        self.daemon.forget(self)

    def strike(self, action: Action) -> None:
        """Do what a trip orders; returns only after a hang that was lifted."""
        self.daemon.record(kind="fault", action=action)
        if action == "hang":
            self.daemon.hang(self)
            return
        if action == "lose":
            self.daemon.lose()
        elif action == "die":
            self.daemon.die()
        else:
            self.abort(reset=action == "reset")
        raise StreamClosed

    def _handle(self, packet: wire.Packet) -> None:
        if packet.command == wire.CNXN:
            self._on_connect(packet)
        elif packet.command == wire.AUTH:
            self._on_auth(packet)
        elif packet.command == wire.OPEN:
            self._on_open(packet)
        elif packet.command in (wire.OKAY, wire.WRTE, wire.CLSE):
            stream = self._streams.get(packet.arg1)
            if stream is None:
                if packet.command == wire.WRTE:
                    self.send(wire.CLSE, 0, packet.arg0)
            elif packet.command == wire.OKAY:
                stream.on_okay(packet.arg0)
            elif packet.command == wire.WRTE:
                stream.on_data(packet.payload)
            else:
                stream.on_close()
                if packet.arg0 == 0:  # the host refused a stream of ours
                    self.forget(stream)

    def _on_connect(self, packet: wire.Packet) -> None:
        config = self.daemon.config
        self.daemon.record(kind="connect", banner=bytes(packet.payload).decode("latin-1"))
        self._host_version = packet.arg0
        self.max_payload = min(packet.arg1, config.max_payload)
        if config.state == "offline":
            return
        if config.auth == "none":
            self._greet()
        else:
            self._challenge()

    def _challenge(self) -> None:
        self._token = os.urandom(20)
        self.send(wire.AUTH, wire.AUTH_TOKEN, 0, self._token)

    def _on_auth(self, packet: wire.Packet) -> None:
        if packet.arg0 == wire.AUTH_SIGNATURE:
            signature = bytes(packet.payload)
            if any(PublicKey(key.encode()).verifies(self._token, signature) for key in self.daemon.trusted_keys):
                self._greet()
            else:
                self._challenge()
        elif packet.arg0 == wire.AUTH_PUBLIC_KEY:
            key = bytes(packet.payload).rstrip(b"\0").decode()
            PublicKey(key.encode())
            accepted = self.daemon.config.auth == "accept"
            self.daemon.record(kind="key", accepted=accepted, comment=key.partition(" ")[2])
            if accepted:
                self.daemon.trusted_keys.append(key)
                self._greet()

    def _greet(self) -> None:
        config = self.daemon.config
        # the greeting itself always has its checksum: the host does not know our version yet
        self.send(wire.CNXN, config.version, config.max_payload, config.banner())
        self._packets.check = min(config.version, self._host_version) < wire.VERSION_SKIP_CHECKSUM

    def _on_open(self, packet: wire.Packet) -> None:
        service = bytes(packet.payload).rstrip(b"\0")
        stream = self._new_stream(packet.arg0)
        threading.Thread(target=self._serve, args=(stream, service), daemon=True).start()

    def _new_stream(self, remote_id: int) -> Stream:
        with self._lock:
            stream = Stream(self, self._next_id, remote_id)
            self._next_id += 1
            self._streams[stream.local_id] = stream
        return stream

    def _serve(self, stream: Stream, service: bytes) -> None:
        try:
            self.daemon.serve(stream, service)
        except (StreamClosed, OSError):
            pass
        except Exception:
            traceback.print_exc(file=sys.stderr)
        finally:
            stream.close()

    def accept(self, stream: Stream) -> None:
        """Tell the host that its service is there. A service that returns without it was refused."""
        stream.accepted = True
        self.send(wire.OKAY, stream.local_id, stream.remote_id)

    def open(self, destination: bytes) -> Stream | None:
        """Open a service at the host (reverse forwards); None if it refuses."""
        stream = self._new_stream(0)
        stream.accepted = True
        self.send(wire.OPEN, stream.local_id, 0, destination + b"\0")
        return stream if stream.wait_open() else None

    def forget(self, stream: Stream) -> None:
        """Called by a stream that is closed on both sides."""
        with self._lock:
            self._streams.pop(stream.local_id, None)
