"""Checks before anyone waits: this machine's, then a device's. Each has a name, a result and, if it is bad, a fix."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from kazeia import __version__
from kazeia.bundle import CONTRACT_VERSION, EXECUTORCH_VERSION, Bundle
from kazeia.bundle_choice import open_bundle
from kazeia.deployment_checks import RunnerVersion
from kazeia.devices.adb_server import AdbServer, adb_program
from kazeia.devices.local import runner_path
from kazeia.errors import KazeiaError, RunnerError
from kazeia.home import home
from kazeia.qnn_sdk import PACKAGE, PACKAGE_VERSION, ROOT_VARIABLE, find_qnn_sdk
from kazeia.runner_client import PROTOCOL_VERSION

Result: TypeAlias = Literal["ok", "note", "bad"]

EXPORT_PACKAGES = {"torch": "2.13.0", "torchao": "0.18.0"}
TOOL_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Check:
    """One finding."""

    name: str
    result: Result
    """`note`: fine unless you want what it is about."""
    detail: str
    fix: str | None = None


def run_checks(checks: dict[str, Callable[[], Check]]) -> Iterator[Check]:
    """Make every check; one that raises one of our errors has found something bad."""
    for name, check in checks.items():
        try:
            yield check()
        except KazeiaError as error:
            detail, _, fix = str(error).partition("; ")
            yield Check(name, "bad", detail, fix or None)


def host_checks(bundle: str | None) -> Iterator[Check]:
    """Everything about this machine."""
    return run_checks(
        {
            "python": _python,
            "home folder": _home,
            "executorch": _executorch,
            "runner": _runner,
            "bundle": lambda: _bundle(bundle),
            "exporting": _exporting,
            "QNN": _qnn,
            "adb": _adb,
            "adb server": _adb_server,
        }
    )


def _python() -> Check:
    found = sys.version_info[:3]
    text = ".".join(map(str, found))
    if (3, 10) <= found[:2] <= (3, 13):
        return Check("python", "ok", text)
    return Check("python", "bad", f"{text} is not supported", "use Python 3.10 to 3.13")


def _home() -> Check:
    folder = home()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(existing, os.W_OK):
        return Check("home folder", "ok", str(folder))
    return Check("home folder", "bad", f"{folder} cannot be written", "set $KZ_HOME to a folder you can write")


def _executorch() -> Check:
    found = _installed("executorch")
    if found == EXECUTORCH_VERSION:
        return Check("executorch", "ok", found)
    return Check("executorch", "bad", f"{found or 'none'} is installed, kz needs {EXECUTORCH_VERSION}", "install kazeia again")


def _runner() -> Check:
    path = runner_path()
    theirs = runner_version(path)
    ours = (__version__, CONTRACT_VERSION, PROTOCOL_VERSION, EXECUTORCH_VERSION)
    found = (theirs.version, theirs.contract, theirs.protocol, theirs.executorch)
    if found != ours:
        names = ("version", "contract", "protocol", "ExecuTorch")
        wrong = next(f"{name} {its}, kz needs {our}" for name, its, our in zip(names, found, ours, strict=True) if its != our)
        return Check("runner", "bad", f"{path} has {wrong}", "install kazeia again")
    return Check("runner", "ok", f"{path}, backends {', '.join(theirs.backends)}")


def runner_version(path: Path) -> RunnerVersion:
    """What a runner of this machine says of itself.

    Raises:
        RunnerError: it does not start, or says something else.
    """
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=TOOL_TIMEOUT_S, check=True)
        return msgspec.json.decode(done.stdout, type=RunnerVersion)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {error.returncode}"]
        raise RunnerError(f"{path} does not start ({lines[-1]}); install kazeia again") from None
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        raise RunnerError(f"{path} does not say its version ({type(error).__name__}); install kazeia again") from None


def _bundle(given: str | None) -> Check:
    bundle: Bundle = open_bundle(given)
    manifest = bundle.manifest
    if manifest.builtin:
        return Check(
            "bundle", "note", f"{bundle.folder}: {manifest.builtin.partition(';')[0]}", "export a checkpoint with kz export"
        )
    return Check("bundle", "ok", f"{bundle.folder}: {manifest.model.name}, {len(manifest.files)} files, whole")


def _exporting() -> Check:
    found = {name: _installed(name) for name in EXPORT_PACKAGES}
    wrong = {name: have for name, have in found.items() if have is None or have.partition("+")[0] != EXPORT_PACKAGES[name]}
    if not wrong:
        return Check("exporting", "ok", ", ".join(f"{name} {have}" for name, have in found.items()))
    missing = all(have is None for have in wrong.values())
    detail = ", ".join(f"{name} {have or 'is missing'}, kz needs {EXPORT_PACKAGES[name]}" for name, have in wrong.items())
    return Check("exporting", "note" if missing else "bad", detail, "pip install 'kazeia[export]'")


def _qnn() -> Check:
    if _installed(PACKAGE) is None and not os.environ.get(ROOT_VARIABLE):
        return Check("QNN", "note", "no compiler and emulator for the NPU", f"pip install {PACKAGE}=={PACKAGE_VERSION}")
    sdk = find_qnn_sdk()
    return Check("QNN", "ok", f"{sdk.version} of {sdk.source}")


def _adb() -> Check:
    program = adb_program()
    return Check("adb", "ok", f"{program}, version 1.0.{_adb_version(program)}")


def _adb_version(program: str) -> int:
    """41 for `Android Debug Bridge version 1.0.41`."""
    try:
        done = subprocess.run([program, "version"], capture_output=True, timeout=TOOL_TIMEOUT_S, check=True, text=True)
        return int(done.stdout.split("version", 1)[1].split()[0].rsplit(".", 1)[1])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        raise RunnerError(f"{program} does not say its version; set $KZ_ADB to an adb that runs") from None


def _adb_server() -> Check:
    """An adb of another version kills the server that everyone else uses, and with it their connections."""
    program = adb_program()
    ours, server = _adb_version(program), AdbServer().version()
    if ours == server:
        return Check("adb server", "ok", f"version 1.0.{server}")
    detail = f"the running server has version 1.0.{server}, {program} has 1.0.{ours}: they will end each other's servers"
    return Check("adb server", "note", detail, "set $KZ_ADB to the adb that started the server")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
