"""Which device a command uses."""

from __future__ import annotations

import os

from kazeia.devices.base import Device
from kazeia.devices.local import LocalDevice
from kazeia.errors import UsageError


def choose_device(given: str | None) -> Device:
    """`given`, then `$KZ_DEVICE`, then this machine.

    Raises:
        UsageError: a name of no known form.
    """
    name = given or os.environ.get("KZ_DEVICE") or LocalDevice.name
    if name == LocalDevice.name:
        return LocalDevice()
    raise UsageError(f"unknown device {name!r}; this version speaks on: local")
