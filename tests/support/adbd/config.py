"""What kind of device an adbd is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import wire

State = Literal["device", "recovery", "sideload", "rescue", "bootloader", "offline"]
Auth = Literal["none", "accept", "refuse"]

FEATURES = (
    "shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir", "fixed_push_symlink_timestamp", "sendrecv_v2",
)  # fmt: skip
#: A device before Android 7: commands without exit status, 32-bit sizes.
FEATURES_V1: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """``state``: as ``adb devices`` shows it (``offline``: connects, but never greets). ``auth``: trust every host, trust
    whoever sends a key (the person at the tablet said yes), or never answer a key (``unauthorized``). ``features``,
    ``version``, ``max_payload``: what the greeting offers. ``properties``: the ``ro.product.*`` of the greeting.
    ``trusted_keys``: contents of ``adbkey.pub`` files known from the start."""

    state: State = "device"
    auth: Auth = "none"
    features: tuple[str, ...] = FEATURES
    version: int = wire.VERSION_SKIP_CHECKSUM
    max_payload: int = wire.MAX_PAYLOAD
    trusted_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def banner(self) -> bytes:
        """The greeting's text."""
        names = ("ro.product.name", "ro.product.model", "ro.product.device")
        pairs = [f"{name}={self.properties[name]}" for name in names if name in self.properties]
        if self.features:
            pairs.append("features=" + ",".join(self.features))
        return f"{self.state}::{';'.join(pairs)}".encode()

    def to_json(self) -> dict[str, Any]:
        """For the control channel."""
        return {**dataclasses.asdict(self), "properties": dict(self.properties)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Config:
        """The inverse of :meth:`to_json`."""
        return Config(**{**data, "features": tuple(data["features"]), "trusted_keys": tuple(data["trusted_keys"])})
