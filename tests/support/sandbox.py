"""A folder that looks and behaves like an Android device: its own root, mounts, users and processes, real programs.

``with Sandbox(folder) as sandbox:`` starts it. Commands run in it for real, with ``/`` in the sandbox folder, ``/system/bin``
holding Android's shell and toybox, ``/data/local/tmp`` writable, ``/sdcard`` without execution and everything else read-only.
Host programs run in it as they are; aarch64 ones run under qemu where ``qemu-user-static`` is installed. Nothing on the
host is touched: it is a set of namespaces of its own, and ends with :meth:`Sandbox.stop` or with the test process.

It needs the right to make user and mount namespaces (root in a plain container or virtual machine has it, an ordinary user
mostly too). Where that is missing the tests are skipped loudly, and fail if ``CI`` is ``true``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from . import aarch64, channel, layout, toolbox
from .needs import unavailable

ROOT_UID = 0
SHELL_UID = 2000
WORKSPACE = "/data/local/tmp"

_TABLET = {
    "ro.product.model": "OPD2413",
    "ro.product.manufacturer": "OnePlus",
    "ro.product.brand": "OnePlus",
    "ro.product.name": "OPD2413",
    "ro.product.device": "OP615EL1",
    "ro.product.cpu.abi": "arm64-v8a",
    "ro.product.cpu.abilist": "arm64-v8a",
    "ro.soc.model": "SM8750",
    "ro.soc.manufacturer": "QTI",
    "ro.board.platform": "sun",
    "ro.hardware": "qcom",
    "ro.build.version.release": "15",
    "ro.build.version.sdk": "35",
    "ro.build.type": "user",
    "ro.debuggable": "0",
    "ro.secure": "1",
    "ro.serialno": "kz0test0",
    "ro.boot.serialno": "kz0test0",
}


@dataclass(frozen=True)
class Profile:
    """What a sandbox pretends to be.

    ``properties``: what getprop answers. ``machine``: what ``uname -m`` answers. ``data_bytes``: size of ``/data``; without
    it the folder's own disk is the limit and :meth:`Sandbox.fill` does not work. ``cores``: entries of /sys/devices/system/cpu.
    """

    properties: Mapping[str, str] = field(default_factory=lambda: dict(_TABLET))
    machine: str = "aarch64"
    data_bytes: int | None = None
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    def with_properties(self, **changes: str) -> Profile:
        """This profile with other properties; ``__`` in a name stands for a dot: ``ro__soc__model="SM8650"``."""
        changed = {name.replace("__", "."): value for name, value in changes.items()}
        return dataclasses.replace(self, properties={**self.properties, **changed})


TABLET = Profile()
#: The same tablet with the host's processor, as the emulator is: host-built programs are the right ones for it.
HOST_CPU = dataclasses.replace(
    TABLET.with_properties(**{"ro.product.cpu.abi": platform.machine(), "ro.product.cpu.abilist": platform.machine()}),
    machine=platform.machine(),
)


@dataclass
class Process:
    """A process in a sandbox. ``pid`` is its number there; ``returncode`` is negative where a signal ended it."""

    sandbox: Sandbox
    pid: int
    status_fd: int
    returncode: int | None = None

    def wait(self, timeout: float | None = 30) -> int:
        """Exit code; raises TimeoutError after ``timeout`` seconds."""
        if self.returncode is None:
            if not select.select([self.status_fd], [], [], timeout)[0]:
                raise TimeoutError(f"process {self.pid} of the sandbox still runs after {timeout} s")
            text = os.read(self.status_fd, 16)
            os.close(self.status_fd)
            # No status at the end of the pipe: the whole sandbox was stopped.
            self.returncode = int(text) if text else -signal.SIGKILL
        return self.returncode

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; a process that has ended already is fine."""
        if self.returncode is None:
            with contextlib.suppress(RuntimeError):
                self.sandbox.request({"op": "kill", "pid": self.pid, "signal": int(number)})


class Sandbox:
    """See the module. ``folder`` is empty or missing; ``files`` under it live until the test removes them."""

    def __init__(self, folder: Path, profile: Profile = TABLET) -> None:
        self.folder = folder
        self.profile = profile
        self.properties = dict(profile.properties)
        self._pid = 0
        self._channel: socket.socket | None = None
        self._outer: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Build the root and start process 1; skips the test where the machine forbids it."""
        root = self.folder.resolve()
        layout.make_root(root, self.profile.cores)
        toolbox.install(root / "system", self.properties, self.profile.machine)
        ours, theirs = channel.pair()
        command = [sys.executable, "-S", "-B", "-m", "tests.support.init", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        self._outer = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        ours.settimeout(60)
        self._channel = ours
        self._greet(ours, layout.plan(root, self.profile.data_bytes))

    def _greet(self, ours: socket.socket, plan: dict[str, Any]) -> None:
        assert self._outer is not None
        answer = self._answer(ours)
        layout.map_users(self._outer.pid)
        channel.send(ours, plan)
        answer = self._answer(ours) | self._answer(ours)
        self._pid = answer["pid"]

    def _answer(self, ours: socket.socket) -> dict[str, Any]:
        answer, _fds = channel.receive(ours)
        if not answer or "error" in answer:
            self.stop()
            unavailable(f"no sandbox: {answer.get('error', 'its first process died')}")
        return answer

    def stop(self) -> None:
        """End every process in the sandbox. The files in ``folder`` stay; a sized ``/data`` is lost."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._outer is not None:
            try:
                self._outer.wait(10)
            except subprocess.TimeoutExpired:
                self._outer.kill()  # process 1 dies with it
                self._outer.wait(10)
            self._outer = None

    def request(self, message: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        """Ask process 1 for something; raises RuntimeError with its answer if it could not."""
        with self._lock:
            if self._channel is None:
                raise RuntimeError("the sandbox is not running")
            channel.send(self._channel, message, list(fds))
            answer, _fds = channel.receive(self._channel)
        if not answer or "error" in answer:
            raise RuntimeError(f"sandbox: {answer.get('error', 'process 1 died')}")
        return answer

    def path(self, device_path: str) -> Path:
        """Where the test finds the device's ``device_path`` while the sandbox runs (absolute links lead astray)."""
        return Path(f"/proc/{self._pid}/root") / device_path.lstrip("/")

    def spawn(
        self, argv: Sequence[str], *, uid: int = SHELL_UID, env: Mapping[str, str] | None = None, cwd: str = "/",
        stdin: int | None = None, stdout: int | None = None, stderr: int | None = None,
    ) -> Process:  # fmt: skip
        """Start a program with the given file descriptors (default: /dev/null) and Android's environment."""
        status_read, status_write = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        fds = [status_write, *(null if fd is None else fd for fd in (stdin, stdout, stderr))]
        message = {"op": "spawn", "argv": list(argv), "uid": uid, "cwd": cwd, "env": {**layout.ENVIRONMENT, **(env or {})}}
        try:
            answer = self.request(message, fds)
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(status_write)
            os.close(null)
        return Process(self, answer["pid"], status_read)

    def run(
        self, argv: Sequence[str] | str, *, uid: int = SHELL_UID, input: bytes = b"", timeout: float = 30,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
        """Run a program, or a shell script given as one string, to its end, around adb and ssh."""
        arguments = ["/system/bin/sh", "-c", argv] if isinstance(argv, str) else list(argv)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(input)
            given.seek(0)
            process = self.spawn(arguments, uid=uid, env=env, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno())
            try:
                code = process.wait(timeout)
            except TimeoutError:
                process.kill()
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def processes(self) -> list[tuple[int, list[str]]]:
        """Number and arguments of every process in the sandbox but process 1 and the daemons it forked itself."""
        found = []
        for entry in self.path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    arguments = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
                    if arguments and (entry / "comm").read_text().strip() not in ("init", "adbd"):
                        found.append((int(entry.name), arguments))
        return found

    def wait_gone(self, word: str, timeout: float = 5) -> bool:
        """Whether every process with ``word`` in an argument ends within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while any(word in argument for _pid, arguments in self.processes() for argument in arguments):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def restrict(self, device_path: str, *flags: str) -> None:
        """Make a folder ``ro`` and / or ``noexec`` from now on: a mount of its own. Undo with :meth:`release`."""
        step = {"kind": "bind", "source": device_path, "target": device_path, "flags": list(flags)}
        self.request({"op": "mount", "step": step})

    def release(self, device_path: str) -> None:
        """Take back the last :meth:`restrict` of that folder."""
        self.request({"op": "mount", "step": {"kind": "unmount", "target": device_path}})

    def fill(self, leave_bytes: int = 0) -> None:
        """Fill ``/data`` until ``leave_bytes`` are left; needs ``Profile.data_bytes``."""
        if self.profile.data_bytes is None:
            raise ValueError("give the profile data_bytes: without it /data is the host's own disk")
        ballast = self.path("/data/.ballast")
        ballast.unlink(missing_ok=True)
        space = os.statvfs(self.path("/data"))
        surplus = space.f_bavail * space.f_frsize - leave_bytes
        if surplus > 0:
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, surplus)

    def free_up(self) -> None:
        """Take back :meth:`fill`."""
        self.path("/data/.ballast").unlink(missing_ok=True)

    def set_properties(self, properties: Mapping[str, str | None]) -> None:
        """Change what getprop answers; None removes a property."""
        for name, value in properties.items():
            if value is None:
                self.properties.pop(name, None)
            else:
                self.properties[name] = value
        toolbox.write_properties(self.folder.resolve(), self.properties)

    def set_logcat(self, text: bytes) -> None:
        """What ``logcat`` prints."""
        (self.folder / toolbox.LOGCAT.lstrip("/")).write_bytes(text)

    def kill(self, word: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to every process with ``word`` in an argument, as Android does when memory is short; answers how many."""
        pids = [pid for pid, arguments in self.processes() if any(word in argument for argument in arguments)]
        for pid in pids:
            with contextlib.suppress(RuntimeError):  # ended meanwhile
                self.request({"op": "kill", "pid": pid, "signal": int(number)})
        return len(pids)

    @property
    def runs_aarch64(self) -> bool:
        """Whether aarch64 programs run in here, on such a host or under qemu: found out by running one."""
        probe = self.path(WORKSPACE) / ".aarch64"
        probe.write_bytes(aarch64.probe_program())
        probe.chmod(0o755)
        try:
            return self.run([f"{WORKSPACE}/.aarch64"]).returncode == aarch64.PROBE_EXIT
        finally:
            probe.unlink()

    def need_aarch64(self) -> None:
        """Skip the test, or fail it in CI, where aarch64 programs do not run."""
        if not self.runs_aarch64:
            unavailable("aarch64 programs do not run; run: apt-get install qemu-user-static (and Linux 6.7 or later)")
