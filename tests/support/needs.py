"""What the test devices need of the machine, and what happens where it is missing."""

from __future__ import annotations

import os
import shutil
import warnings
from typing import NoReturn


def unavailable(reason: str) -> NoReturn:
    """Skip the running test with ``reason``, or fail it where ``CI`` is ``true``: nothing may go untested there."""
    import pytest  # not at the top: process 1 of a sandbox has no site packages

    if os.environ.get("CI") == "true":
        pytest.fail(f"test device not available: {reason}", pytrace=False)
    warnings.warn(f"TEST DEVICE NOT AVAILABLE, tests are skipped: {reason}", stacklevel=2)
    pytest.skip(f"test device not available: {reason}")


def program(name: str, package: str) -> str:
    """Absolute path of a host program; skips (or fails in CI) naming the Debian ``package`` that has it."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        unavailable(f"{name} is missing; run: apt-get install {package}")
    return found
