"""What must fit before a deployment is worth its minutes: chip, versions, libraries, space."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

import msgspec

from kazeia.bundle import CONTRACT_VERSION, Manifest
from kazeia.device_store import SEGMENT_BYTES, Blob
from kazeia.devices.description import Description
from kazeia.devices.remote import RemoteDevice
from kazeia.devices.shell import Completed
from kazeia.errors import DeviceError, RunnerError
from kazeia.qnn_sdk import version_numbers
from kazeia.runner_client import PROTOCOL_VERSION

MARGIN_BYTES = 64 << 20
"""Left free on the device."""

QNN_LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV*Stub.so", "libQnnHtpV*Skel.so")
"""All from one SDK; without the skel the DSP cannot load anything."""
CANNOT_EXECUTE, NOT_FOUND = 126, 127


class RunnerVersion(msgspec.Struct):
    """What `kz_runner --version` prints."""

    version: str
    contract: int
    protocol: int
    executorch: str
    backends: list[str]
    qnn: str | None = None
    """Version of the QNN libraries it found."""


def check_chip(device: str, description: Description, manifest: Manifest) -> str | None:
    """Is the bundle made for the device's chip? A note if that cannot be told.

    Raises:
        DeviceError: it is for another chip.
    """
    if manifest.soc is None or manifest.soc == description.soc:
        return None
    if not description.soc:
        return f"{device} does not name its chip; the bundle is for {manifest.soc}"
    raise DeviceError(
        f"{device} has the chip {description.soc}, the bundle is for {manifest.soc}; export the checkpoint again for this chip"
    )


def check_libraries(device: RemoteDevice, description: Description, manifest: Manifest, libraries: Iterable[str]) -> None:
    """Does everything travel that the NPU needs, and will it be found?

    Raises:
        RunnerError: names the missing library.
        DeviceError: the DSP's loader cannot be told the folder.
    """
    on_npu = [name for name, program in manifest.programs.items() if program.backend == "qnn"]
    if not on_npu or description.machine != "aarch64":
        return
    names = list(libraries)
    missing = [pattern for pattern in QNN_LIBRARIES if not fnmatch.filter(names, pattern)]
    if missing:
        raise RunnerError(
            f"{on_npu[0]} of this bundle runs on the NPU of {device.name}, and {missing[0]} is not beside the runner; "
            "build it with kz build --qnn-sdk DIR"
        )
    if ";" in device.folder:
        raise DeviceError(
            f"{device.name}: the DSP's loader splits {device.folder!r} at the semicolon; choose another folder with --folder"
        )


def check_memory(device: str, description: Description, manifest: Manifest) -> str | None:
    """A note if the system would kill the runner for memory, as far as can be told from the programs' sizes."""
    programs = {program.file for program in manifest.programs.values()}
    needed_bytes = sum(file.bytes for file in manifest.files if file.name in programs)
    if description.memory_bytes is None or description.memory_bytes >= needed_bytes:
        return None
    return (
        f"{device} has {description.memory_bytes / 1e6:,.0f} MB of memory left, the programs take {needed_bytes / 1e6:,.0f} MB; "
        "close other apps there before you speak"
    )


def check_space(device: str, free_bytes: int, missing: Iterable[Blob]) -> None:
    """Is there room for the files, for a piece of the largest that is held twice, and a margin?

    Raises:
        DeviceError: there is not.
    """
    sizes = [blob.bytes for blob in missing]
    if not sizes:
        return
    needed_bytes = sum(sizes) + (SEGMENT_BYTES if max(sizes) > SEGMENT_BYTES else 0) + MARGIN_BYTES
    if free_bytes < needed_bytes:
        raise DeviceError(
            f"{device} has {free_bytes / 1e6:,.0f} MB free, the deployment needs {needed_bytes / 1e6:,.0f} MB with a margin; "
            "free some space on it, or remove older deployments with kz deploy --prune"
        )


def check_version(device: str, done: Completed, manifest: Manifest) -> RunnerVersion:
    """Does the runner run on the device, and does it run this bundle?

    Raises:
        RunnerError: it does not start there, or is of other versions.
    """
    if done.status:
        hints = {
            CANNOT_EXECUTE: "it may not be executed there",
            NOT_FOUND: "it, or its loader, is not found there: it may be built for another system (Linux, Android)",
        }
        hint = hints.get(done.status, "build it again with kz build")
        raise RunnerError(f"the runner does not start on {device} ({done.reason}); {hint}")
    try:
        version = msgspec.json.decode(done.stdout, type=RunnerVersion)
    except msgspec.DecodeError:
        raise RunnerError(f"the runner on {device} does not say its version ({done.stdout[:60]!r}); build it again") from None
    ours = (CONTRACT_VERSION, PROTOCOL_VERSION, manifest.executorch)
    theirs = (version.contract, version.protocol, version.executorch)
    if ours != theirs:
        raise RunnerError(
            f"the runner for {device} has contract {theirs[0]}, protocol {theirs[1]}, ExecuTorch {theirs[2]}; this bundle needs "
            f"{ours[0]}, {ours[1]}, {ours[2]}: build it again with kz build"
        )
    _check_backends(device, version, manifest)
    return version


def _check_backends(device: str, version: RunnerVersion, manifest: Manifest) -> None:
    for name, program in manifest.programs.items():
        if program.backend not in version.backends:
            has = ", ".join(version.backends) or "none"
            raise RunnerError(
                f"{name} of this bundle needs the backend {program.backend}, the runner for {device} has {has}; "
                "build it with that backend, or export for another"
            )
    if version.qnn and manifest.qnn and version_numbers(version.qnn) < version_numbers(manifest.qnn):
        raise RunnerError(
            f"the bundle was exported with QNN {manifest.qnn}, the libraries beside the runner are the older {version.qnn}; "
            "build it with kz build --qnn-sdk and the newer SDK"
        )
