"""Types of the ``make_...`` fixtures. Tests import these, never the fixtures' own module, which pytest loads as a plugin."""

from __future__ import annotations

from collections.abc import Callable

from .adbd import Adbd
from .sandbox import Sandbox
from .sshd import Sshd

MakeSandbox = Callable[..., Sandbox]
MakeAdbd = Callable[..., Adbd]
MakeSshd = Callable[..., Sshd]
