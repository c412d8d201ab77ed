"""What can go wrong at the device, as a test orders it: plain data, sent to the running adbd as JSON."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import Any, Literal

Where = Literal["push", "pull", "shell", "link"]
Action = Literal["cut", "reset", "lose", "die", "hang", "no_space"]


@dataclass(frozen=True)
class Trip:
    """A fault that waits for ``after_bytes`` at one place and then strikes, ``times`` times (0: for ever).

    ``where``: ``push`` and ``pull`` count file content, ``shell`` counts output of shell and exec services, ``link`` every
    byte that the host sends. ``name`` restricts push and pull to device paths, and shell to commands, that contain it.

    ``action``:
    ``cut``      the connection is closed; adbd lives and listens on.
    ``reset``    the same with a TCP reset.
    ``lose``     the device is gone: connection closed and nobody listens any more, until ``Adbd.come_back()``.
    ``die``      adbd is killed like on a mode switch: nothing is cleaned up, its children die; ``Adbd.come_back()``.
    ``hang``     the service (``link``: the whole device) stops answering but stays connected.
    ``no_space`` push only: writing fails as on a full disk.
    """

    where: Where
    action: Action
    after_bytes: int = 0
    times: int = 1
    name: str = ""


@dataclass(frozen=True)
class Faults:
    """Everything wrong with a device.

    ``line_end``: what LF becomes in the output of ``shell:`` services (``"\\r\\n"`` or ``"\\r\\r\\n"`` on old devices);
    ``exec:`` stays as it is. ``stderr_noise``: bytes put before each command's own stderr (latin-1 text, as JSON has no
    bytes). ``bytes_per_s``: limit for each direction. ``latency_s``: wait before each packet from the host is handled.
    ``claims_success``: a push that ran out of space is acknowledged, the file cut short. ``keeps_stub``: a push that broke
    off leaves the half file. ``drops_on_dead_forward``: a forward to a port where nobody listens takes the device offline.
    """

    trips: tuple[Trip, ...] = ()
    line_end: str = ""
    stderr_noise: str = ""
    bytes_per_s: float = 0
    latency_s: float = 0
    claims_success: bool = False
    keeps_stub: bool = False
    drops_on_dead_forward: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the control channel."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Faults:
        """The inverse of :meth:`to_json`."""
        return Faults(**{**data, "trips": tuple(Trip(**trip) for trip in data["trips"])})


class TripMeter:
    """Counts bytes against the trips in force; shared by all of a daemon's threads."""

    def __init__(self, trips: tuple[Trip, ...]) -> None:
        self._trips = trips
        self._seen = [0] * len(trips)
        self._struck = [0] * len(trips)
        self._lock = threading.Lock()

    def watches(self, where: Where) -> bool:
        """Whether any trip is set for that place: the fast paths skip counting otherwise."""
        return any(trip.where == where for trip in self._trips)

    def pass_bytes(self, where: Where, name: str, count: int) -> tuple[int, Action | None]:
        """How many of ``count`` bytes may pass, and what happens after those."""
        allowed, action = count, None
        with self._lock:
            for index, trip in enumerate(self._trips):
                if trip.where != where or trip.name not in name or (trip.times and self._struck[index] >= trip.times):
                    continue
                left = trip.after_bytes - self._seen[index]
                if left <= allowed:
                    allowed, action = max(left, 0), trip.action
                    self._struck[index] += 1
                    self._seen[index] = 0
                else:
                    self._seen[index] += count
        return allowed, action
