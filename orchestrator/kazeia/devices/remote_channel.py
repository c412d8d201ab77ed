"""A runner on a remote device: its bytes on one stream, its end and its log learned afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kazeia.devices import layout
from kazeia.devices.base import Channel, Stream
from kazeia.devices.shell import quote
from kazeia.errors import DeviceError, RunnerError

if TYPE_CHECKING:
    from kazeia.devices.remote import RemoteDevice

START_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
"""How long a device that no longer answers is waited for."""
LOG_TAIL_BYTES = 4096
NOISE_BYTES = 1 << 16
"""The most that a device prints before the launch script's first line."""
HOW_LONG_TO_END = "0.05"
"""Seconds between two looks at a runner that is ending."""


class RemoteChannel(Channel):
    """The launch script has printed the run id; from there on every byte is the runner's."""

    def __init__(self, device: RemoteDevice, stream: Stream, run_id: str) -> None:
        """Wait for the launch script.

        Raises:
            RunnerError: it did not start.
            DeviceError: the device was lost or hangs.
        """
        self._device = device
        self._stream = stream
        self._run = run_id
        self._status: int | None = None
        self._log = ""
        self._over = False
        self._early = self._skip_to_start()

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def read(self, size: int, timeout_s: float) -> bytes:
        if self._early:
            data, self._early = self._early[:size], self._early[size:]
            return data
        data = self._stream.read(size, timeout_s)
        if not data and not self._over:
            self._explain_end()
        return data

    def ready(self) -> bool:
        return bool(self._early) or self._stream.ready()

    def close(self, timeout_s: float = 5.0) -> int | None:
        self._stream.close()
        if not self._over:
            try:
                self._learn_end(timeout_s)
            except DeviceError:
                self._status = None
        return self._status

    def kill(self) -> None:
        if not self._over:
            self._learn_end(0.0)
        self._stream.close()

    def log_tail(self) -> str:
        return self._log

    def _skip_to_start(self) -> bytes:
        """Read up to and including the launch script's line; what follows it already is the runner's."""
        mark = f"\n{self._run}\n".encode()
        deadline = time.monotonic() + START_TIMEOUT_S
        seen = bytearray(b"\n")
        while mark not in seen and len(seen) < NOISE_BYTES:
            try:
                data = self._stream.read(1 << 12, max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise self._device.lost(f"did not start the runner in {START_TIMEOUT_S:.0f} s") from None
            if not data:
                break
            seen += data
        before, found, after = bytes(seen).partition(mark)
        if not found:
            lines = before.decode(errors="replace").split("\n")
            said = next((line.strip() for line in reversed(lines) if line.strip()), "the connection was cut")
            raise RunnerError(f"the runner on {self._device.name} did not start ({said[:200]}); run kz deploy again")
        return after

    def _explain_end(self) -> None:
        """The stream has ended: did the runner, or the connection?

        Raises:
            DeviceError: the connection did.
        """
        try:
            self._learn_end(1.0)
        except DeviceError as error:
            raise DeviceError(f"{error} (it was lost while the runner worked)") from None
        if self._status in (None, 0):  # it ends well only when its input ends, which was not our doing
            raise self._device.lost("cut the connection to the runner, which ended with it")

    def _learn_end(self, patience_s: float) -> None:
        """Give the runner `patience_s` to end, end it, and learn its status and last words.

        Raises:
            DeviceError: the device is lost.
        """
        self._over = True
        script = f"""cd {quote(self._device.folder)}/{layout.RUNS}/{self._run} || exit 1
i={int(patience_s / float(HOW_LONG_TO_END))}
while [ ! -f status ] && [ $i -gt 0 ]; do sleep {HOW_LONG_TO_END}; i=$((i - 1)); done
if [ ! -f status ] && tr '\\0' ' ' <"/proc/$(cat pid)/cmdline" | grep -q {layout.RUNNER}; then
  kill -9 "$(cat pid)"
  echo ours
else
  cat status 2>/dev/null || echo none
fi
tail -c {LOG_TAIL_BYTES} log"""
        said = self._device.run(script, timeout_s=patience_s + KILL_TIMEOUT_S).stdout
        status, _, self._log = said.partition("\n")
        self._status = int(status) if status.strip().isdigit() else None
