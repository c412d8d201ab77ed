"""Which device a command uses."""

from __future__ import annotations

import os

from kazeia.devices import adb, ssh
from kazeia.devices.base import Device
from kazeia.devices.local import LocalDevice
from kazeia.devices.remote import RemoteDevice
from kazeia.errors import DeviceError, UsageError
from kazeia.home import load_state

FORMS = "local, adb, adb:SERIAL or ssh:USER@HOST[:PORT]"


def choose_device(given: str | None) -> Device:
    """`given`, then `$KZ_DEVICE`, then the device of the last deploy, then this machine.

    Raises:
        UsageError: a name of no known form.
        DeviceError: adb has no such device, or several, or one that cannot be used.
    """
    named = given or os.environ.get("KZ_DEVICE")
    if named:
        return open_device(named)
    last = load_state().last_device
    if not last:
        return LocalDevice()
    try:
        return open_device(last)
    except DeviceError as error:
        raise DeviceError(f"{error} (it is the device of the last deploy; --device local speaks on this machine)") from None


def choose_remote(given: str | None, folder: str | None = None) -> RemoteDevice:
    """As `choose_device`, for what only makes sense on another device; without any name, the one adb device there is.

    Raises:
        UsageError: this machine was named, or a name of no known form.
        DeviceError: see `choose_device`.
    """
    name = given or os.environ.get("KZ_DEVICE") or load_state().last_device or adb.NAME
    device = open_device(name, folder)
    if not isinstance(device, RemoteDevice):
        raise UsageError(
            f"{name} runs bundles where they are, without a deployment; name a device: adb, adb:SERIAL or ssh:USER@HOST"
        )
    return device


def open_device(name: str, folder: str | None = None) -> Device:
    """The device called `name`; its folder is `folder`, `$KZ_DEVICE_FOLDER`, the one of its last deploy, or the usual one.

    Raises:
        UsageError: a name of no known form.
        DeviceError: adb has no such device, or several, or one that cannot be used.
    """
    kind, _, rest = name.partition(":")
    if name == LocalDevice.name:
        return LocalDevice()
    if kind not in (adb.NAME, ssh.NAME) or (kind == ssh.NAME and not rest):
        raise UsageError(f"unknown device {name!r}; name one of these: {FORMS}")
    folder = folder or os.environ.get("KZ_DEVICE_FOLDER")
    folders = load_state().device_folders
    if kind == ssh.NAME:
        return ssh.SshDevice(rest, folder or folders.get(name))
    return adb.find_adb_device(rest or None, folder, folders)
