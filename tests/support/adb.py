"""The real adb: a server of the test's own, on its own port, with its own home and keys."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from types import TracebackType

from . import linux
from .adbd import Adbd
from .needs import unavailable


def adb_program() -> str:
    """The adb that adbutils brings, or else the one on the path."""
    try:
        import adbutils

        bundled = Path(adbutils.__file__).parent / "binaries" / "adb"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    except ImportError:
        pass
    found = shutil.which("adb")
    if found is None:
        unavailable("no adb; run: pip install adbutils")
    return found


@cache
def _key_pair() -> tuple[bytes, bytes]:
    """A key for all test hosts of this process: making one takes a second on a busy machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adbkey")
        subprocess.run([adb_program(), "keygen", str(path)], check=True, capture_output=True, timeout=60)
        return path.read_bytes(), Path(folder, "adbkey.pub").read_bytes()


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Adb:
    """``adb("-s", device.serial, "shell", "id")`` runs the real client against a server of its own.

    Without :meth:`start` the first client starts a server, with its notices, as on a person's machine.

    ``environment`` holds what other clients need to find that server (``ANDROID_ADB_SERVER_PORT``) and to leave the user's
    keys alone (``HOME``, ``ANDROID_USER_HOME``); set it in tests of programs that start adb or talk to its server.
    """

    def __init__(self, home: Path) -> None:
        self.program = adb_program()
        self.home = home
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self.environment = {
            "HOME": str(home),
            "ANDROID_USER_HOME": str(home / ".android"),
            "ANDROID_ADB_SERVER_PORT": str(self.port),
            "ADB_VENDOR_KEYS": "",
            # only what is connected by name: no USB (whose set-up takes 3 s in a container), emulators or network search
            "ADB_USB": "0",
            "ADB_EMU": "0",
            "ADB_MDNS": "0",
        }

    def __enter__(self) -> Adb:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server in the foreground, so that stopping it stops exactly this one."""
        keys = self.home / ".android"
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in zip(("adbkey", "adbkey.pub"), _key_pair(), strict=True):
            (keys / name).write_bytes(content)
            (keys / name).chmod(0o600)
        command = [self.program, "-P", str(self.port), "nodaemon", "server"]
        log = (self.home / "adb.log").open("ab")
        with log:
            self._server = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: linux.die_with_parent(signal.SIGKILL),  # a test run that is killed leaves no server
            )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.is_running:
                return
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the adb server did not start; see {self.home / 'adb.log'}")

    def stop(self) -> None:
        """End the server, and the one that a client may have started on its port after a ``kill-server``."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait(5)
            self._server = None
        self._ask("host:kill")

    def _ask(self, request: str) -> bytes:
        """The start of the server's answer, empty if none listens."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as sock:
                sock.sendall(f"{len(request):04x}{request}".encode())
                return sock.recv(16)
        except OSError:
            return b""

    @property
    def is_running(self) -> bool:
        """Whether a server answers on the port."""
        return self._ask("host:version").startswith(b"OKAY")

    @property
    def public_key(self) -> str:
        """What a device needs to know this host."""
        return (self.home / ".android/adbkey.pub").read_text(encoding="ascii")

    def __call__(
        self, *arguments: str, input: bytes = b"", timeout: float = 60, check: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one client command to its end."""
        return subprocess.run(
            [self.program, *arguments],
            env={**os.environ, **self.environment},
            input=input,
            capture_output=True,
            timeout=timeout,
            check=check,
        )

    def popen(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one client command with pipes."""
        pipe = subprocess.PIPE
        environment = {**os.environ, **self.environment}
        return subprocess.Popen([self.program, *arguments], env=environment, stdin=pipe, stdout=pipe, stderr=pipe)

    def connect(self, device: Adbd) -> str:
        """``adb connect``; answers what it printed."""
        return self("connect", device.serial).stdout.decode().strip()

    def state(self, serial: str) -> str:
        """The state that ``adb devices`` shows, or an empty text."""
        for line in self("devices").stdout.decode().splitlines():
            name, _, state = line.partition("\t")
            if name == serial:
                return state.strip()
        return ""

    def wait_state(self, serial: str, state: str, timeout: float = 20) -> None:
        """Wait until ``adb devices`` shows that state; raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while self.state(serial) != state:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{serial} is {self.state(serial) or 'not listed'}, not {state}, after {timeout} s")
            time.sleep(0.05)
