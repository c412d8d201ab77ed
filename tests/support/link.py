"""A bad network in front of a server: carries one TCP port to another and cuts, stalls or slows it on order."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Literal

Direction = Literal["up", "down"]


class Link:
    """Listens on ``port`` of the loopback interface and carries everything to ``target_port``; ``up`` is towards it."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.bytes_per_s = 0.0
        self.carried = {"up": 0, "down": 0}
        self._limits: dict[str, int] = {}
        self._going = threading.Event()
        self._going.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Link:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.lose()
        self._going.set()

    def cut_after(self, count: int, direction: Direction = "up") -> None:
        """Close all connections once, when ``count`` more bytes have gone in that direction; at most those arrive."""
        with self._lock:
            self._limits[direction] = self.carried[direction] + count

    def cut(self, reset: bool = False) -> None:
        """Close all connections, or ``reset`` them, which loses what is under way; new ones are taken."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for sock in sockets:
            with contextlib.suppress(OSError):
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # this frees the thread that reads it, so that the close takes effect
                sock.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            sock.close()

    def lose(self) -> None:
        """Close all connections and listen no more."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def come_back(self) -> None:
        """Undo :meth:`lose`."""
        self.__enter__()

    def stall(self) -> None:
        """Carry nothing, connections stay open, until :meth:`flow`."""
        self._going.clear()

    def flow(self) -> None:
        """Undo :meth:`stall`."""
        self._going.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._sockets |= {client, server}
            for source, target, direction in ((client, server, "up"), (server, client, "down")):
                threading.Thread(target=self._carry, args=(source, target, direction), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, direction: Direction) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._going.wait()
                if self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
                allowed, due = self._count(direction, len(data))
                target.sendall(data[:allowed])
                if due:
                    self.cut()
                    return
            target.shutdown(socket.SHUT_WR)

    def _count(self, direction: Direction, count: int) -> tuple[int, bool]:
        with self._lock:
            limit = self._limits.get(direction)
            allowed = count if limit is None else min(count, max(limit - self.carried[direction], 0))
            self.carried[direction] += allowed
            due = limit is not None and self.carried[direction] >= limit
            if due:
                del self._limits[direction]
        return allowed, due
