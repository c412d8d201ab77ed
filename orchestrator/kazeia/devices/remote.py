"""What adb and ssh devices have in common: everything but the way there."""

from __future__ import annotations

import contextlib
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from kazeia.bundle import MANIFEST_NAME
from kazeia.devices import description, layout
from kazeia.devices.base import Channel, Device, Stream
from kazeia.devices.description import Description
from kazeia.devices.remote_channel import RemoteChannel
from kazeia.devices.shell import SHELL, Completed, Frame, quote
from kazeia.errors import DeviceError, UsageError

COMMAND_TIMEOUT_S = 30.0
"""A script that touches no large file."""
OPEN_TIMEOUT_S = 15.0
"""Until a device takes a new command."""
WRITE_TIMEOUT_S = 30.0
"""A device that takes no byte for so long hangs."""

READ_BYTES = 1 << 16
LONGEST_FOLDER = 512
"""Bytes; adb refuses paths beyond 1,024, and ours are at most 100 longer."""

NOT_DEPLOYED, INCOMPLETE, CHANGED = 3, 4, 5
"""Exit statuses of the script that looks for a deployment."""


class RemoteDevice(Device):
    """A device with a shell. `folder` is Kazeia's folder on it: everything is inside."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = _checked_folder(folder)

    @abstractmethod
    def open(self, command: str) -> Stream:
        """Start `command` (one line for the device's shell); its stdin and stdout are the stream.

        Raises:
            DeviceError: the device is missing, unreachable, refuses, or does not answer in `OPEN_TIMEOUT_S`.
        """

    @abstractmethod
    def push(self, source: Path, offset: int, size: int, target: str, progress: Callable[[int], None]) -> None:
        """Write `size` bytes of `source` from `offset` on into the new file `target`; `progress` gets the bytes of each step.

        What arrived must still be checked: some devices report success on a full disk.

        Raises:
            DeviceError: it did not work; a part may be left.
        """

    def lost(self, what: str) -> DeviceError:
        """An error for a device that is gone or hangs."""
        return DeviceError(f"{self.name} {what}; check that it is on, unlocked and connected, then try again")

    def run(self, script: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Completed:
        """Run a shell script to its end. Its stdin is empty.

        Raises:
            DeviceError: the device cannot be reached, was lost, or took longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        frame = Frame(script)
        with contextlib.closing(self.open(SHELL)) as stream:
            stream.write(frame.text)
            output = bytearray()
            while (result := frame.result(bytes(output))) is None:
                try:
                    data = stream.read(READ_BYTES, max(deadline - time.monotonic(), 0.001))
                except TimeoutError:
                    raise self.lost(f"does not answer (waited {timeout_s:.0f} s)") from None
                if not data:
                    raise self.lost("was lost in the middle of a command")
                output += data
        return result

    def describe(self) -> Description:
        """What the device is and what is deployed on it.

        Raises:
            DeviceError: it cannot be reached, or does not say.
        """
        return description.parse(self.name, self.run(description.script(self.folder)).stdout)

    def open_runner(self, bundle: Path, arguments: Sequence[str]) -> Channel:
        deployment = self.deployment_folder(bundle)
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        script = f"{deployment}/{layout.LAUNCH_SCRIPT}"
        command = [SHELL, script, run_id, "--hash-files", *arguments]
        stream = self.open(" ".join(quote(word) for word in command))
        try:
            return RemoteChannel(self, stream, run_id)
        except BaseException:
            stream.close()
            raise

    def deployment_folder(self, bundle: Path) -> str:
        """Where the newest deployment of `bundle` is.

        Raises:
            DeviceError: there is none, or its files were changed.
        """
        return f"{self.folder}/{layout.DEPLOYMENTS}/{self._find_deployment(bundle)}"

    def _find_deployment(self, bundle: Path) -> str:
        """The id of the newest deployment of `bundle`, whose files are those whose hashes were checked.

        Raises:
            DeviceError: there is none, or its files were changed.
        """
        manifest_id = layout.content_id((bundle / MANIFEST_NAME).read_bytes())
        found = self.run(
            f"cd {quote(self.folder)} 2>/dev/null || exit {NOT_DEPLOYED}\n"
            f"id=$(cat {layout.CURRENT}/{manifest_id} 2>/dev/null) || exit {NOT_DEPLOYED}\n"
            f'cd {layout.DEPLOYMENTS}/"$id" 2>/dev/null || exit {INCOMPLETE}\n'
            f'now=$({layout.FINGERPRINT}) && [ "$now" = "$(cat {layout.VERIFIED})" ] || exit {CHANGED}\n'
            'echo "$id"'
        )
        problems = {
            NOT_DEPLOYED: f"{bundle.name} is not deployed there",
            INCOMPLETE: f"the deployment of {bundle.name} is not whole",
            CHANGED: f"files of {bundle.name} were changed after the deployment",
        }
        if found.status:
            problem = problems.get(found.status, f"cannot look for {bundle.name} ({found.reason})")
            raise DeviceError(f"{self.name}: {problem}; run kz deploy {quote(str(bundle))} --device {self.name}")
        return found.stdout.strip()


def _checked_folder(folder: str) -> str:
    """A folder that fits into every command and path.

    Raises:
        UsageError: it does not.
    """
    folder = folder.removeprefix("~/").rstrip("/")
    if not folder or not folder.isprintable() or len(folder.encode()) > LONGEST_FOLDER:
        raise UsageError(
            f"{folder[:60]!r} cannot be Kazeia's folder on a device; name one of at most {LONGEST_FOLDER} printable bytes"
        )
    return f"./{folder}" if folder.startswith("-") else folder
