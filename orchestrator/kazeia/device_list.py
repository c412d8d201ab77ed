"""Every device that adb and ssh offer, in whatever state."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from kazeia.devices import adb, ssh
from kazeia.devices.adb_server import READY, AdbServer, Listed
from kazeia.devices.choice import open_device
from kazeia.devices.description import Description
from kazeia.devices.remote import RemoteDevice
from kazeia.errors import DeviceError
from kazeia.home import load_state

UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Entry:
    """One device."""

    name: str
    """As `--device` takes it."""
    state: str
    """`device` if it can be used; else adb's word for it, or `unreachable`."""
    advice: str | None = None
    """Why it cannot be used and what to do."""
    folder: str | None = None
    """Kazeia's folder on it."""
    description: Description | None = None
    """Only of a device that can be used."""

    def as_dict(self) -> dict[str, Any]:
        """One flat object."""
        flat = dataclasses.asdict(self)
        description = flat.pop("description") or {}
        return {**flat, **{key: value for key, value in description.items() if key not in ("core_khz", "machine")}}


def list_devices() -> list[Entry]:
    """adb's devices, then the ssh hosts that were deployed to or that `$KZ_DEVICE` names.

    Raises:
        DeviceError: adb's server does not run and cannot be started, and there is no ssh host to show either.
    """
    hosts = {name for name in load_state().device_folders if name.startswith(f"{ssh.NAME}:")}
    named = os.environ.get("KZ_DEVICE", "")
    if named.startswith(f"{ssh.NAME}:"):
        hosts.add(named)
    try:
        entries = [_adb_entry(listed) for listed in AdbServer().devices()]
    except DeviceError as error:
        if not hosts:
            raise
        entries = [Entry(adb.NAME, UNREACHABLE, str(error))]
    return entries + [_entry(name) for name in sorted(hosts)]


def _adb_entry(listed: Listed) -> Entry:
    name = f"{adb.NAME}:{listed.serial}"
    return _entry(name) if listed.state == READY else Entry(name, listed.state.partition(" (")[0], listed.advice)


def _entry(name: str) -> Entry:
    try:
        device = open_device(name)
        assert isinstance(device, RemoteDevice)
        return Entry(name, READY, None, device.folder, device.describe())
    except DeviceError as error:
        return Entry(name, UNREACHABLE, str(error))
