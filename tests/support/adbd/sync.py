"""The ``sync:`` service: stat, list, send and receive files, in the first and the second form of each request."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .transport import Stream, StreamClosed

if TYPE_CHECKING:
    from .daemon import Daemon

DATA_BYTES = 64 * 1024  # the most in one DATA chunk, by adb's own limit

_REQUEST = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT_V1 = struct.Struct("<4sIIII")
_DENT_V2 = struct.Struct("<4sIQQIIIIQqqqI")
_SEND_V2 = struct.Struct("<4sII")
_RECV_V2 = struct.Struct("<4sI")
_WORD = 0xFFFFFFFF
# Characters that the shared storage of a device refuses in names.
_REFUSED_ON_SDCARD = frozenset(b'"*:<>?\\|')


class _Broken(Exception):
    """The service cannot go on after this."""


class Inbox:
    """A stream read as bytes, without copying more than needed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    def pieces(self, count: int) -> Iterator[memoryview]:
        """The next ``count`` bytes, in as few pieces as they came in."""
        while count:
            if not self._rest:
                self._rest = self._stream.read()
            piece = self._rest[:count]
            self._rest = self._rest[len(piece) :]
            count -= len(piece)
            yield piece

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        return b"".join(self.pieces(count))


def _stat_fields(found: os.stat_result) -> tuple[int, ...]:
    times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime))
    return (found.st_dev, found.st_ino, found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size, *times)


class SyncService:
    """One ``sync:`` stream."""

    def __init__(self, daemon: Daemon, stream: Stream) -> None:
        self._daemon = daemon
        self._stream = stream
        self._inbox = Inbox(stream)
        self._chunk: Iterator[memoryview] = iter(())
        self._time = 0

    def run(self) -> None:
        """Serve requests until the host quits or a transfer fails."""
        handlers = {
            b"STAT": self._stat_v1, b"STA2": self._stat_v2, b"LST2": self._stat_v2, b"LIST": self._list, b"LIS2": self._list,
            b"SEND": self._send_v1, b"SND2": self._send_v2, b"RECV": self._receive, b"RCV2": self._receive,
        }  # fmt: skip
        with contextlib.suppress(StreamClosed, _Broken):
            while True:
                kind, length = _REQUEST.unpack(self._inbox.take(_REQUEST.size))
                if kind == b"QUIT":
                    return
                if kind not in handlers or length > 1024:
                    self._fail(f"unknown command {kind!r}" if kind not in handlers else "path too long")
                handlers[kind](kind, self._inbox.take(length))

    def _fail(self, reason: str) -> None:
        text = reason.encode()
        self._stream.write(_REQUEST.pack(b"FAIL", len(text)) + text)
        raise _Broken(reason)

    def _stat_v1(self, kind: bytes, path: bytes) -> None:
        self._daemon.record(kind="stat", path=os.fsdecode(path))
        try:
            found = os.lstat(path)
        except OSError:
            self._stream.write(_STAT_V1.pack(kind, 0, 0, 0))
            return
        # 32 bits: above 4 GiB the size wraps, as it does on devices with only this form
        self._stream.write(_STAT_V1.pack(kind, found.st_mode, found.st_size & _WORD, int(found.st_mtime) & _WORD))

    def _stat_v2(self, kind: bytes, path: bytes) -> None:
        self._daemon.record(kind="stat", path=os.fsdecode(path))
        try:
            found = os.stat(path) if kind == b"STA2" else os.lstat(path)
        except OSError as error:
            self._stream.write(_STAT_V2.pack(kind, error.errno or 0, *[0] * 10))
            return
        self._stream.write(_STAT_V2.pack(kind, 0, *_stat_fields(found)))

    def _list(self, kind: bytes, path: bytes) -> None:
        self._daemon.record(kind="list", path=os.fsdecode(path))
        new = kind == b"LIS2"
        answer = bytearray()
        try:
            names = [b".", b"..", *os.listdir(path)]
        except OSError:
            names = []
        for name in names:
            try:
                found = os.lstat(os.path.join(path, name))
            except OSError as error:
                if new:
                    answer += _DENT_V2.pack(b"DNT2", error.errno or 0, *[0] * 10, len(name)) + name
                continue
            if new:
                answer += _DENT_V2.pack(b"DNT2", 0, *_stat_fields(found), len(name))
            else:
                answer += _DENT_V1.pack(b"DENT", found.st_mode, found.st_size & _WORD, int(found.st_mtime) & _WORD, len(name))
            answer += name
        answer += _DENT_V2.pack(b"DONE", *[0] * 12) if new else _DENT_V1.pack(b"DONE", 0, 0, 0, 0)
        self._stream.write(answer)

    def _send_v1(self, _kind: bytes, request: bytes) -> None:
        path, _, mode = request.rpartition(b",")
        self._send(path, int(mode))

    def _send_v2(self, _kind: bytes, path: bytes) -> None:
        _again, mode, flags = _SEND_V2.unpack(self._inbox.take(_SEND_V2.size))
        if flags:
            self._fail(f"unknown flags {flags:#x}")
        self._send(path, mode)

    def _send(self, path: bytes, mode: int) -> None:
        event = {"kind": "push", "path": os.fsdecode(path), "bytes": 0, "done": False}
        try:
            self._refuse_name(path)
            # a file or link is replaced, so that a running program can be; a folder or device is not removed
            is_file = not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode) or os.path.islink(path)
            if is_file:
                with contextlib.suppress(OSError):  # creating it will tell
                    os.unlink(path)
            if stat.S_ISLNK(mode):
                self._receive_link(path)
            else:
                self._receive_file(path, mode, is_file, event)
            event["done"] = True
        finally:
            self._daemon.record(**event)
        self._stream.write(_REQUEST.pack(b"OKAY", 0))

    def _refuse_name(self, path: bytes) -> None:
        shared = os.path.realpath(os.path.dirname(path)).startswith(b"/storage/")
        if shared and _REFUSED_ON_SDCARD & set(os.path.basename(path)):
            self._drain(f"couldn't create file: {os.strerror(errno.EPERM)}")

    def _receive_link(self, path: bytes) -> None:
        target = b"".join(b"".join(pieces) for pieces in self._chunks()).rstrip(b"\0")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        except OSError as error:
            self._fail(f"symlink failed: {error.strerror}")

    def _receive_file(self, path: bytes, mode: int, is_file: bool, event: dict[str, object]) -> None:
        mode &= 0o777
        mode |= mode >> 3 & 0o070  # others may do what the owner may, as adbd has it
        mode |= mode >> 3 & 0o007
        try:
            fd = self._create(path, mode)
        except OSError as error:
            self._drain(f"couldn't create file: {error.strerror}")
        keep = False
        try:
            self._write_chunks(fd, os.fsdecode(path), event)
            keep = True
        except OSError as error:
            if self._daemon.faults.claims_success:
                keep = True
                for _pieces in self._chunks():
                    pass
                return
            self._drain(f"write failed: {error.strerror}")
        finally:
            os.close(fd)
            if not keep and is_file and not self._daemon.faults.keeps_stub:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        os.utime(path, (self._time, self._time), follow_symlinks=False)

    @staticmethod
    def _create(path: bytes, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            fd = os.open(path, flags | os.O_EXCL, mode)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, flags | os.O_EXCL, mode)
        except FileExistsError:
            fd = os.open(path, flags, mode)
        with contextlib.suppress(OSError):
            os.fchmod(fd, mode)
        return fd

    def _chunks(self) -> Iterator[Iterator[memoryview]]:
        """The DATA chunks up to DONE, whose time is kept. What a caller leaves of a chunk is skipped, by the next call too."""
        while True:
            for _piece in self._chunk:
                pass
            kind, size = _REQUEST.unpack(self._inbox.take(_REQUEST.size))
            if kind == b"DONE":
                self._time = size
                return
            if kind != b"DATA" or size > DATA_BYTES:
                self._fail(f"unexpected {kind!r} of {size} bytes in a push")
            self._chunk = self._inbox.pieces(size)
            yield self._chunk

    def _write_chunks(self, fd: int, name: str, event: dict[str, object]) -> None:
        written = 0
        watched = self._daemon.meter.watches("push")
        for pieces in self._chunks():
            for piece in pieces:
                allowed, action = self._daemon.meter.pass_bytes("push", name, len(piece)) if watched else (len(piece), None)
                todo = piece[:allowed] if action else piece
                while todo:
                    count = os.write(fd, todo)
                    written += count
                    event["bytes"] = written
                    todo = todo[count:]
                if action == "no_space":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if action:
                    self._stream.connection.strike(action)
                    os.write(fd, piece[allowed:])

    def _drain(self, reason: str) -> None:
        """Report a failed push, then swallow what the host still sends: older hosts read the report only at the end."""
        text = reason.encode()
        self._stream.write(_REQUEST.pack(b"FAIL", len(text)) + text)
        for _pieces in self._chunks():
            pass
        raise _Broken(reason)

    def _receive(self, kind: bytes, path: bytes) -> None:
        if kind == b"RCV2":
            _again, flags = _RECV_V2.unpack(self._inbox.take(_RECV_V2.size))
            if flags:
                self._fail(f"unknown flags {flags:#x}")
        self._daemon.record(kind="pull", path=os.fsdecode(path))
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._fail(f"open failed: {error.strerror}")
        try:
            self._send_chunks(fd, os.fsdecode(path))
        except OSError as error:
            self._fail(f"read failed: {error.strerror}")
        finally:
            os.close(fd)
        self._stream.write(_REQUEST.pack(b"DONE", 0))

    def _send_chunks(self, fd: int, name: str) -> None:
        step = DATA_BYTES + _REQUEST.size
        buffer = memoryview(bytearray(max(self._stream.max_write // step, 1) * step))
        watched = self._daemon.meter.watches("pull")
        while True:
            filled = 0
            while filled < len(buffer):
                start = filled + _REQUEST.size
                count = os.readv(fd, [buffer[start : start + DATA_BYTES]])
                if count == 0:
                    break
                _REQUEST.pack_into(buffer, filled, b"DATA", count)
                filled = start + count
            if filled == 0:
                return
            allowed, action = self._daemon.meter.pass_bytes("pull", name, filled) if watched else (filled, None)
            self._stream.write(buffer[:allowed] if action else buffer[:filled])
            if action:
                self._stream.connection.strike(action)
                self._stream.write(buffer[allowed:filled])
