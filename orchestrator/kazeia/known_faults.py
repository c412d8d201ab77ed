"""Lines of a runner's log whose cause is known, and those that look bad and are not.

From ExecuTorch's and Qualcomm's trackers; the numbers are QNN's error codes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFault:
    """What a line means and what to do."""

    pattern: re.Pattern[str]
    cause: str
    cure: str


def _fault(pattern: str, cause: str, cure: str) -> KnownFault:
    return KnownFault(re.compile(pattern, re.IGNORECASE), cause, cure)


FAULTS: Sequence[KnownFault] = (
    _fault(
        r"14001|failed to create device|error \D*4000\b",
        "QNN libraries of several SDKs are mixed",
        "build the runner again with kz build --qnn-sdk and one SDK, then kz deploy",
    ),
    _fault(
        r"0x80000406|\b1008\b|skel.*(not found|failed)|failed.*skel",
        "the DSP does not find its skel library",
        "see that libQnnHtpV*Skel.so is beside the runner, then kz deploy",
    ),
    _fault(
        r"newer context binary|\b5000\b.*(context|version)",
        "the bundle was exported with a newer QNN than the device has",
        "build the runner again with the newer SDK: kz build --qnn-sdk, then kz deploy",
    ),
    _fault(
        r"vtcm size|\b5005\b", "the bundle was exported for another chip", "export the checkpoint again with --soc of this device"
    ),
    _fault(
        r"no available PD|\b1002\b",
        "the NPU's memory is taken, or one context is too large for it",
        "end other programs that use the NPU (kz devices shows our runners), or export with a smaller --context",
    ),
    _fault(
        r"stub.*(mismatch|version)|mismatch.*stub",
        "another QNN library is found before ours",
        "run kz deploy again: the launch script puts our libraries first",
    ),
    _fault(
        r"CANNOT LINK EXECUTABLE|cannot locate symbol|version `GLIBC",
        "the runner was built for another system",
        "build it for this one with kz build, then kz deploy --runner",
    ),
    _fault(r"avc: +denied", "SELinux refuses the runner", "deploy to /data/local/tmp: kz deploy --folder /data/local/tmp/kazeia"),
    _fault(r"bad_alloc|out of memory|cannot allocate", "memory ran out", "close other programs, or use a more quantised bundle"),
    _fault(
        r"not finite", "a model gives scores that are no numbers", "export the checkpoint again, with --quant fp32 to compare"
    ),
)

HARMLESS = re.compile(
    r"expected magic number|PrepareLib isn't loaded|API version .* is used\. The version is tested against", re.I
)
"""Said in healthy runs too."""


def find_fault(log: str) -> tuple[str, KnownFault] | None:
    """The first line of `log` whose cause is known, with it."""
    for line in log.splitlines():
        if HARMLESS.search(line):
            continue
        for fault in FAULTS:
            if fault.pattern.search(line):
                return line.strip(), fault
    return None
