"""This machine as a device."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kazeia.devices.base import Channel, Device
from kazeia.errors import RunnerError

RUNNER_NAME = "kz_runner"
LOG_TAIL_BYTES = 4096


def runner_path() -> Path:
    """The runner built with this package, or `$KZ_RUNNER`.

    Raises:
        RunnerError: it is not there.
    """
    if named := os.environ.get("KZ_RUNNER"):
        candidates = [Path(named)]
    else:
        # An editable install keeps the package in the source tree and the runner in site-packages.
        beside = Path(__file__).parents[1] / "bin" / RUNNER_NAME
        candidates = [beside, Path(sysconfig.get_path("platlib")) / "kazeia" / "bin" / RUNNER_NAME]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise RunnerError(f"the runner is missing at {candidates[-1]}; install kazeia again: pip install --force-reinstall .")


class LocalChannel(Channel):
    """A child process over pipes; stderr goes to a temporary file so that it can never block."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the channel
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        except OSError as error:
            self._log.close()
            raise RunnerError(f"cannot start {command[0]}: {error.strerror}; install kazeia again") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout_fd = self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout_fd, selectors.EVENT_READ)

    def write(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(data)
            self._stdin.flush()

    def read(self, size: int, timeout_s: float) -> bytes:
        if not self._selector.select(timeout_s):
            raise TimeoutError
        return os.read(self._stdout_fd, size)

    def ready(self) -> bool:
        return bool(self._selector.select(0))

    def close(self, timeout_s: float = 5.0) -> int | None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode
        finally:
            self._release()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        if self._log.closed:
            return ""
        size_bytes = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size_bytes - LOG_TAIL_BYTES)).decode(errors="replace")

    def _release(self) -> None:
        self._selector.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


class LocalDevice(Device):
    """Runs the installed runner as a child process."""

    name = "local"

    def open_runner(self, bundle: Path, arguments: Sequence[str]) -> Channel:
        return LocalChannel([str(runner_path()), "--bundle", str(bundle), *arguments])
