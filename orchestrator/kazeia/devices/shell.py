"""Scripts for a device's shell, and what they answered.

Neither adb nor ssh can be trusted with an exit status (old adb always says 0, a cut connection looks like an end), so a
script's own last words carry it: a mark that nothing else can print, the status, then what went to stderr, then the mark.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass

SHELL = "sh"
"""The command that reads a framed script from its stdin: nothing of it is on a command line, and no length limit is met."""


@dataclass(frozen=True)
class Completed:
    """A script that ran to its end."""

    status: int
    stdout: str
    """Without carriage returns; bytes that are not UTF-8 are replaced."""
    stderr: str

    @property
    def reason(self) -> str:
        """The last line of stderr, for a message."""
        lines = self.stderr.strip().splitlines()
        return lines[-1].strip() if lines else f"exit status {self.status}"


def quote(text: str) -> str:
    """`text` as one word of a device's shell."""
    return shlex.quote(text)


class Frame:
    """One script on its way: `text` is what `SHELL` has to read, `result` understands what it printed."""

    def __init__(self, script: str) -> None:
        self._mark = f"kz-{secrets.token_hex(8)}"
        # The script runs in the command substitution: its stderr is caught, its stdout goes past it through descriptor 3,
        # `exit` ends only it, and it cannot eat the rest of this text, which is the outer shell's stdin.
        self.text = (
            f"exec 3>&1\necho {self._mark} >&3\n"
            f"e=$( {{\n{script}\n}} </dev/null 2>&1 >&3 3>&- )\n"
            f's=$?\nprintf \'\\n%s %d\\n%s\\n%s\\n\' {self._mark} "$s" "$e" {self._mark} >&3\nexit 0\n'
        ).encode()

    def result(self, output: bytes) -> Completed | None:
        """The result once `output` is complete, None before that. What came before the first mark is noise of the way."""
        if output.count(self._mark.encode()) < 3:
            return None
        text = output.decode(errors="replace").replace("\r", "")
        _, stdout, rest, *_ = text.split(self._mark)
        status, _, stderr = rest.partition("\n")
        return Completed(int(status), stdout[1:-1], stderr.rstrip("\n"))
