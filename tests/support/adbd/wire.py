"""adb's transport packets: a header of six little-endian words, then the payload."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass

CNXN = 0x4E584E43
AUTH = 0x48545541
OPEN = 0x4E45504F
OKAY = 0x59414B4F
CLSE = 0x45534C43
WRTE = 0x45545257

AUTH_TOKEN = 1
AUTH_SIGNATURE = 2
AUTH_PUBLIC_KEY = 3

VERSION_CHECKSUM = 0x01000000
VERSION_SKIP_CHECKSUM = 0x01000001
#: What every adb understands before versions are agreed on, and the most that any sends.
MAX_PAYLOAD_V1 = 4096
MAX_PAYLOAD = 1 << 20

_HEADER = struct.Struct("<6I")
_WORD = 0xFFFFFFFF


class WireError(Exception):
    """The other side does not speak adb."""


@dataclass(frozen=True)
class Packet:
    """One packet as it came."""

    command: int
    arg0: int
    arg1: int
    payload: memoryview


def _receive_exactly(sock: socket.socket, count: int) -> memoryview:
    buffer = memoryview(bytearray(count))
    have = 0
    while have < count:
        got = sock.recv_into(buffer[have:])
        if got == 0:
            raise EOFError("connection closed")
        have += got
    return buffer


class PacketSocket:
    """Packets over a TCP connection. ``check`` is on until both sides agree that checksums are skipped."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._send_lock = threading.Lock()
        self.check = True

    def read(self) -> Packet:
        """The next packet; raises EOFError at the end, WireError for what is no adb packet."""
        header = _receive_exactly(self._sock, _HEADER.size)
        command, arg0, arg1, length, check, magic = _HEADER.unpack(header)
        if magic != command ^ _WORD or length > MAX_PAYLOAD:
            raise WireError(f"no adb packet: {bytes(header).hex()}")
        payload = _receive_exactly(self._sock, length)
        # a host that knew us already greets without a checksum, before anything was agreed on
        greets_anew = command == CNXN and arg0 >= VERSION_SKIP_CHECKSUM and check == 0
        if self.check and not greets_anew and check != sum(payload) & _WORD:
            raise WireError("checksum differs")
        return Packet(command, arg0, arg1, payload)

    def write(self, command: int, arg0: int, arg1: int, payload: bytes | bytearray | memoryview = b"") -> None:
        """Send one packet whole; raises OSError once the connection is gone."""
        check = sum(payload) & _WORD if self.check else 0
        header = _HEADER.pack(command, arg0, arg1, len(payload), check, command ^ _WORD)
        with self._send_lock:
            if not payload:
                self._sock.sendall(header)
                return
            sent = self._sock.sendmsg([header, payload])
            if sent < len(header):
                self._sock.sendall(header[sent:])
                sent = len(header)
            if sent - len(header) < len(payload):
                self._sock.sendall(memoryview(payload)[sent - len(header) :])
