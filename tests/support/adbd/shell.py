"""The ``shell:`` and ``exec:`` services: a real shell, with or without the packets of shell protocol version 2."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import selectors
import signal
import struct
import subprocess
import termios
import threading
import tty
from typing import IO, TYPE_CHECKING

from tests.support import layout

from .sync import Inbox
from .transport import Bytes, Stream, StreamClosed

if TYPE_CHECKING:
    from .daemon import Daemon

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
_PACKET = struct.Struct("<BI")
_READ_BYTES = 1 << 16
SHELL = "/system/bin/sh"


def serve(daemon: Daemon, stream: Stream, arguments: list[bytes], command: bytes) -> None:
    """Run ``command`` (none: an interactive shell) for ``stream`` until it ends or the host leaves."""
    stream.connection.accept(stream)
    terminal = b"pty" in arguments or (not command and b"raw" not in arguments)
    session = _Session(daemon, stream, command, arguments, terminal)
    session.run()


class _Session:
    def __init__(self, daemon: Daemon, stream: Stream, command: bytes, arguments: list[bytes], terminal: bool) -> None:
        self._daemon = daemon
        self._stream = stream
        self._name = command.decode("utf-8", "surrogateescape")
        self._framed = b"v2" in arguments
        self._is_exec = b"exec" in arguments
        self._terminal = terminal
        self._child = self._start(command, arguments)

    def _start(self, command: bytes, arguments: list[bytes]) -> subprocess.Popen[bytes]:
        argv: list[str | bytes] = [SHELL, "-c", command] if command else [SHELL, "-"]
        term = next((item.removeprefix(b"TERM=").decode() for item in arguments if item.startswith(b"TERM=")), "dumb")
        environment = {**layout.ENVIRONMENT, "TERM": term, "ADBD_PORT": str(self._daemon.port)}
        if self._terminal:
            return self._start_on_terminal(argv, environment)
        # without version 2's packets there is one output only
        errors = subprocess.PIPE if self._framed else subprocess.STDOUT
        child = subprocess.Popen(
            argv, env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        self._input: IO[bytes] = child.stdin
        self._outputs: dict[IO[bytes], int] = {child.stdout: STDOUT}
        if child.stderr is not None:
            self._outputs[child.stderr] = STDERR
        return child

    def _start_on_terminal(self, argv: list[str | bytes], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        master, slave = pty.openpty()
        if not self._framed:
            tty.setraw(slave)
        child = subprocess.Popen(
            ["/system/bin/setsid", "-c", *argv], env=environment, cwd="/", stdin=slave, stdout=slave, stderr=slave, bufsize=0
        )
        os.close(slave)
        self._input = open(master, "rb+", buffering=0)  # noqa: SIM115
        self._outputs = {self._input: STDOUT}
        return child

    def run(self) -> None:
        """Pump both ways; then report the exit status, where the protocol can."""
        threading.Thread(target=self._pump_input, daemon=True).start()
        try:
            self._strike_if_due(0)
            noise = self._daemon.faults.stderr_noise.encode("latin-1")
            if noise:
                self._emit(STDERR if self._framed else STDOUT, noise)
            self._pump_output()
            code = self._child.wait()
            status = 0x80 | -code if code < 0 else code
            self._daemon.record(kind="exit", command=self._name, status=status)
            if self._framed:
                self._stream.write(_PACKET.pack(EXIT, 1) + bytes([status]))
        except StreamClosed:
            self._hang_up()

    def _hang_up(self) -> None:
        """The host left: like adbd, a SIGHUP to the shell itself and closed pipes, nothing more.

        Services without packets have no one to send that signal: the program sees the end of its input, after all that was
        sent. Only the first ``shell:`` ran on a terminal, whose end hangs up on every program in its foreground.
        """
        with contextlib.suppress(ProcessLookupError):
            if self._framed:
                self._child.send_signal(signal.SIGHUP)
            elif not self._is_exec:
                os.killpg(self._child.pid, signal.SIGHUP)
        for file in self._outputs:
            file.close()
        if not self._is_exec:
            self._input.close()
        code = self._child.wait()
        self._daemon.record(kind="exit", command=self._name, status=0x80 | -code if code < 0 else code, hung_up=True)

    def _pump_output(self) -> None:
        with selectors.DefaultSelector() as selector:
            for file, channel in self._outputs.items():
                selector.register(file, selectors.EVENT_READ, channel)
            while selector.get_map():
                for key, _events in selector.select(0.1):
                    try:
                        data = os.read(key.fd, _READ_BYTES)
                    except OSError:  # a terminal whose last process has ended
                        data = b""
                    if data:
                        self._emit(key.data, data)
                    else:
                        selector.unregister(key.fd)
                if self._stream.is_closed:
                    raise StreamClosed

    def _emit(self, channel: int, data: bytes) -> None:
        line_end = self._daemon.faults.line_end
        if line_end and not self._is_exec:
            data = data.replace(b"\n", line_end.encode())
        if self._daemon.meter.watches("shell"):
            allowed, action = self._daemon.meter.pass_bytes("shell", self._name, len(data))
            if action:
                self._send(channel, data[:allowed])
                self._stream.connection.strike(action)
                data = data[allowed:]
        self._send(channel, data)

    def _strike_if_due(self, count: int) -> None:
        _allowed, action = self._daemon.meter.pass_bytes("shell", self._name, count)
        if action:
            self._stream.connection.strike(action)

    def _send(self, channel: int, data: bytes) -> None:
        if data:
            self._stream.write(_PACKET.pack(channel, len(data)) + data if self._framed else data)

    def _pump_input(self) -> None:
        with contextlib.suppress(StreamClosed):
            if self._framed:
                self._unpack_input()
            else:
                while True:
                    self._feed(self._stream.read())
        self._input.close()

    def _unpack_input(self) -> None:
        inbox = Inbox(self._stream)
        while True:
            kind, length = _PACKET.unpack(inbox.take(_PACKET.size))
            if kind == STDIN:
                for piece in inbox.pieces(length):
                    self._feed(piece)
                continue
            body = inbox.take(length)
            if kind == CLOSE_STDIN and not self._terminal:
                self._input.close()
            elif kind == WINDOW_SIZE and self._terminal:
                rows, columns = body.split(b",")[0].split(b"x")
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))

    def _feed(self, data: Bytes) -> None:
        todo = memoryview(data)
        # a child that reads no more simply loses its input
        with contextlib.suppress(OSError, ValueError):
            while todo:
                todo = todo[self._input.write(todo) :]
