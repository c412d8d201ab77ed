"""Fixtures for tests with devices; name this module in ``pytest_plugins``.

``sandbox``, ``adbd`` and ``sshd`` take a profile or configuration by indirect parametrising; ``make_sandbox``, ``make_adbd``
and ``make_sshd`` make any number. Everything they start ends with the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .adb import Adb
from .adbd import Adbd, Config, Faults
from .makers import MakeAdbd, MakeSandbox, MakeSshd
from .sandbox import TABLET, Profile, Sandbox
from .sshd import SshConfig, Sshd


@pytest.fixture
def devices_end() -> Iterator[ExitStack]:
    """What the test started, ended in reverse order."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def client_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``HOME`` of the clients under test: no keys, known hosts or settings of the person who runs the tests."""
    home = tmp_path / "client home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "ANDROID_SERIAL", "ADB_SERVER_SOCKET", "ANDROID_ADB_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def adb(client_home: Path, monkeypatch: pytest.MonkeyPatch, devices_end: ExitStack) -> Adb:
    """The real adb with a server of the test's own; the environment leads every other adb client there too."""
    server = devices_end.enter_context(Adb(client_home))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def make_sandbox(tmp_path: Path, devices_end: ExitStack) -> MakeSandbox:
    """``make_sandbox(profile)`` starts another Android-like device folder."""
    count = 0

    def make(profile: Profile = TABLET) -> Sandbox:
        nonlocal count
        count += 1
        return devices_end.enter_context(Sandbox(tmp_path / f"device{count}", profile))

    return make


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, make_sandbox: MakeSandbox) -> Sandbox:
    """A tablet; parametrise indirectly with a :class:`Profile` for another."""
    return make_sandbox(getattr(request, "param", TABLET))


@pytest.fixture
def make_adbd(adb: Adb, make_sandbox: MakeSandbox, devices_end: ExitStack) -> MakeAdbd:
    """``make_adbd(config, faults, sandbox=, profile=, connect=True)`` starts a device and connects adb to it."""

    def make(
        config: Config | None = None,
        faults: Faults | None = None,
        *,
        sandbox: Sandbox | None = None,
        profile: Profile = TABLET,
        connect: bool = True,
    ) -> Adbd:
        device = devices_end.enter_context(Adbd(sandbox or make_sandbox(profile), config, faults))
        if connect:
            adb.connect(device)
        return device

    return make


@pytest.fixture
def adbd(request: pytest.FixtureRequest, make_adbd: MakeAdbd, sandbox: Sandbox) -> Adbd:
    """A device in ``sandbox`` that adb is connected to; parametrise indirectly with a :class:`Config` for another."""
    return make_adbd(getattr(request, "param", None), sandbox=sandbox)


@pytest.fixture
def make_sshd(client_home: Path, make_sandbox: MakeSandbox, devices_end: ExitStack) -> MakeSshd:
    """``make_sshd(config, sandbox=, profile=)`` starts an ssh server that ``client_home`` does not know yet."""

    def make(config: SshConfig | None = None, *, sandbox: Sandbox | None = None, profile: Profile = TABLET) -> Sshd:
        return devices_end.enter_context(Sshd(sandbox or make_sandbox(profile), config))

    return make


@pytest.fixture
def sshd(request: pytest.FixtureRequest, make_sshd: MakeSshd, sandbox: Sandbox, client_home: Path) -> Sshd:
    """A server in ``sandbox`` that ``client_home`` knows and has a key for; parametrise indirectly with an SshConfig."""
    server = make_sshd(getattr(request, "param", None), sandbox=sandbox)
    server.write_home(client_home)
    return server
