"""A tablet with this machine's processor for every test, behind the real adb or the real ssh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kazeia.devices.adb import AdbDevice
from kazeia.devices.adb_server import AdbServer
from kazeia.devices.choice import choose_remote
from kazeia.devices.remote import RemoteDevice
from tests.support.adbd import Adbd
from tests.support.bundles import BABBLE
from tests.support.fixtures import MakeSandbox, adb, adbd, client_home, devices_end, make_adbd, make_sandbox, make_sshd, sshd
from tests.support.sandbox import HOST_CPU, Sandbox
from tests.support.sshd import Sshd

__all__ = ["adb", "adbd", "client_home", "devices_end", "make_adbd", "make_sandbox", "make_sshd", "sshd"]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device, folder, password or adb of the person who runs the tests."""
    for name in ("KZ_DEVICE_FOLDER", "KZ_ADB", "KZ_SSH_PASSWORD", "ANDROID_SERIAL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, make_sandbox: MakeSandbox) -> Sandbox:
    """A tablet that runs the runner built here; parametrise indirectly with a `Profile` for another."""
    return make_sandbox(getattr(request, "param", HOST_CPU))


@pytest.fixture
def tablet(adbd: Adbd) -> AdbDevice:
    """The device under test, through the real adb."""
    return AdbDevice(AdbServer(), adbd.serial)


@pytest.fixture
def ssh_name(sshd: Sshd) -> str:
    """What `--device` takes for the test server."""
    return f"ssh:{sshd.target}:{sshd.port}"


@pytest.fixture(params=["adb", "ssh"])
def device_name(request: pytest.FixtureRequest) -> str:
    """The same tablet, by both ways."""
    if request.param == "ssh":
        request.getfixturevalue("adb")  # kz devices asks adb too, which must not be the user's
        return str(request.getfixturevalue("ssh_name"))
    return f"adb:{request.getfixturevalue('adbd').serial}"


@pytest.fixture
def either(device_name: str) -> RemoteDevice:
    """The device under test, by both ways."""
    return choose_remote(device_name)


@pytest.fixture
def files_in(sandbox: Sandbox) -> Callable[[str], list[str]]:
    """The files in a folder of the device, as paths in it."""

    def listed(folder: str) -> list[str]:
        root = sandbox.path(folder)
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())

    return listed


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    """A speaker embedding for the built-in bundle's kind of model."""
    path = tmp_path / "voice.npy"
    np.save(path, np.full(speaking_bundle().width, 0.02, np.float32))
    return path


class speaking_bundle:
    """The built-in bundle."""

    def __init__(self) -> None:
        from kazeia.bundle import read_manifest

        self.folder = BABBLE
        self.width = read_manifest(BABBLE).model.speaker_embedding_size
