"""This machine as a device."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kazeia.bundle import MANIFEST_NAME, read_manifest
from kazeia.devices.base import Channel, Device
from kazeia.errors import BundleError, RunnerError

RUNNER_NAME = "kz_runner"
LOG_TAIL_BYTES = 4096

ROLE_PROGRAMS = {"generate": ("talker", "code_predictor"), "decode": ("speech_decoder",), "embed": ("speaker_encoder",)}
"""Beginnings of the names of programs that the runner loads for a role."""


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

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """environment: None for this process's."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the channel
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment
            )
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
        return LocalChannel([str(runner_path()), "--bundle", str(bundle), *arguments], _environment(bundle, arguments))


def _environment(bundle: Path, arguments: Sequence[str]) -> dict[str, str] | None:
    """What the runner needs to find the NPU's emulator; None when its role has nothing for the NPU.

    Raises:
        BundleError: this machine cannot run the bundle.
        UsageError: there is no emulator.
    """
    if not (bundle / MANIFEST_NAME).is_file():
        return None  # the runner says what is wrong
    manifest = read_manifest(bundle)
    role = arguments[arguments.index("--role") + 1]
    if not any(program.backend == "qnn" for name, program in manifest.programs.items() if name.startswith(ROLE_PROGRAMS[role])):
        return None
    if manifest.built_for == "device":
        raise BundleError(
            f"{bundle} is for a device with a {manifest.soc}: its programs share weights, which the emulator of this machine "
            "cannot load; give --device, or export with --for emulator"
        )
    from kazeia.qnn_sdk import find_qnn_sdk, version_numbers  # asks the packages installed, which costs 10 ms

    sdk = find_qnn_sdk()
    if manifest.qnn is not None and version_numbers(manifest.qnn) > version_numbers(sdk.version):
        raise BundleError(
            f"{bundle} was exported with QNN {manifest.qnn}, this machine has the older {sdk.version} ({sdk.source}); "
            "install the newer one, or export the checkpoint again here"
        )
    folders = [str(sdk.folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(folders)}
