"""One JSON message a packet over a local socket, with file descriptors attached: how a test talks to its sandbox."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

_MESSAGE_BYTES = 1 << 17
_FDS = 4


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair of channels."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """One message, with file descriptors for the other side to inherit."""
    socket.send_fds(channel, [json.dumps(message).encode()], list(fds))


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its file descriptors; an empty message at the end of the channel."""
    data, fds, _flags, _address = socket.recv_fds(channel, _MESSAGE_BYTES, _FDS, socket.MSG_CMSG_CLOEXEC)
    return (json.loads(data) if data else {}), fds
