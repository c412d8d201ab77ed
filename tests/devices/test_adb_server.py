"""What adb's server says, and which device is meant."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from kazeia.devices import adb_server
from kazeia.devices.adb import AdbDevice, find_adb_device
from kazeia.devices.adb_server import AdbServer, Listed, adb_program, parse_devices
from kazeia.devices.choice import choose_device, open_device
from kazeia.errors import DeviceError, UsageError
from tests.support.adb import Adb, free_port
from tests.support.adb_stub import NO_PERMISSIONS, AdbServerStub, StubDevice
from tests.support.adbd import Adbd, Config
from tests.support.command import Kz
from tests.support.fixtures import MakeAdbd
from tests.support.sandbox import Sandbox


def test_only_lines_of_serial_tab_state_are_devices() -> None:
    text = (
        "* daemon not running; starting now at tcp:5037\r\n* daemon started successfully *\n"
        "adb server version (40) doesn't match this client (41); killing...\n"
        "List of devices attached\r\nR52X9\tdevice  \r\n\n192.168.1.5:5555\toffline\n*\tdevice\n  \t\n"
        "emulator-5554\tunauthorized\n* daemon started\tdevice\n"
    )
    assert parse_devices(text) == [
        Listed("R52X9", "device"),
        Listed("192.168.1.5:5555", "offline"),
        Listed("emulator-5554", "unauthorized"),
    ]


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            "unauthorized",
            "has not allowed this computer: unlock it and accept 'Allow USB debugging?' on its screen, then try again",
        ),
        ("offline", "is offline: unplug it and plug it in again, or run adb reconnect offline"),
        ("authorizing", "is still checking this computer's key: unlock it, then try again"),
        ("connecting", "is still connecting: try again in a moment"),
        (NO_PERMISSIONS, "may not be opened by this user: install udev rules"),
        ("recovery", "is in recovery mode: start Android with adb reboot, then try again"),
        ("sideload", "is waiting for a sideload"),
        ("rescue", "is in rescue mode"),
        ("bootloader", "is in its bootloader: start Android with fastboot reboot"),
        ("dreaming", "is in the state 'dreaming': plug it in again"),
    ],
)
def test_every_state_is_one_sentence_that_says_what_to_do(
    kz: Kz, monkeypatch: pytest.MonkeyPatch, state: str, sentence: str
) -> None:
    monkeypatch.setattr(adb_server, "SETTLE_TIMEOUT_S", 0.3)
    with AdbServerStub([StubDevice("R52X9", state)]) as stub:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stub.port))
        for name in ("adb", "adb:R52X9"):
            with pytest.raises(DeviceError, match="^adb:R52X9 " + re.escape(sentence)):
                open_device(name)
        with pytest.raises(DeviceError, match="^adb:R52X9 " + re.escape(sentence)):  # it changed after it was chosen
            AdbDevice(AdbServer(), "R52X9").run("true")
        assert kz.fails("deploy", "--device", "adb").startswith(f"kz: adb:R52X9 {sentence}")
        (entry,) = kz("devices", "--json").json["devices"]
    assert entry["state"] == state.partition(" (")[0]
    assert entry["advice"].startswith(f"adb:R52X9 {sentence}")


def test_two_devices_are_listed_and_none_is_guessed(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [StubDevice("R52X9", "device"), StubDevice("192.168.1.5:5555", "offline")]
    with AdbServerStub(devices) as stub:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stub.port))
        with pytest.raises(
            DeviceError, match=r"several devices .*: adb:R52X9 \(device\), adb:192.168.1.5:5555 \(offline\); choose"
        ):
            open_device("adb")
        device = open_device("adb:R52X9")
        assert device.name == "adb:R52X9"
        monkeypatch.setenv("ANDROID_SERIAL", "R52X9")
        assert open_device("adb").name == "adb:R52X9"
        with pytest.raises(DeviceError, match="adb:R52 is not connected"):
            open_device("adb:R52")
        with pytest.raises(DeviceError):
            find_adb_device("R52X9").run("true")
        assert [request for request in stub.requests if "transport" in request] == ["host:transport:R52X9"]


def test_one_of_two_real_devices_gets_every_call(kz: Kz, make_adbd: MakeAdbd, sandbox: Sandbox, fake_bundle: Path) -> None:
    usb, wifi = make_adbd(sandbox=sandbox), make_adbd(sandbox=sandbox)
    wifi.clear_events()
    assert "several devices are connected" in kz.fails("deploy", fake_bundle)
    assert kz("deploy", fake_bundle, "--device", f"adb:{usb.serial}").status == 0
    assert kz("deploy", fake_bundle).out.startswith(f"adb:{usb.serial}: "), "the last deploy's device is the default"
    assert wifi.events() == []
    names = {entry["name"] for entry in kz("devices", "--json").json["devices"]}
    assert names == {f"adb:{usb.serial}", f"adb:{wifi.serial}"}


def test_no_device_at_all(kz: Kz, adb: Adb) -> None:
    assert "no device is connected to adb; plug it in with USB debugging on" in kz.fails("deploy", "--device", "adb")
    assert kz("devices").out.startswith("no devices: plug one in")
    assert kz("devices", "--json").json == {"devices": []}


@pytest.mark.parametrize("adbd", [Config(state="recovery")], indirect=True)
def test_a_real_device_in_recovery(adbd: Adbd) -> None:
    with pytest.raises(DeviceError, match=f"adb:{adbd.serial} is in recovery mode"):
        open_device("adb")


@pytest.mark.parametrize("adbd", [Config(auth="refuse")], indirect=True)
def test_a_real_device_that_does_not_know_us(adbd: Adbd, adb: Adb) -> None:
    adb.wait_state(adbd.serial, "unauthorized")
    with pytest.raises(DeviceError, match=f"adb:{adbd.serial} has not allowed this computer"):
        open_device("adb")


def test_the_server_is_started_where_none_runs(client_home: Path, monkeypatch: pytest.MonkeyPatch, devices_end: object) -> None:
    server = Adb(client_home)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KZ_ADB", server.program)
    try:
        assert AdbServer().devices() == []
        assert AdbServer().version() >= 41
    finally:
        server.stop()


def test_an_adb_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "adb"
    broken.write_text("#!/bin/sh\necho 'cannot bind: Address already in use' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KZ_ADB", str(broken))
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    with pytest.raises(DeviceError, match=r"cannot start its server \(cannot bind: Address already in use\)"):
        AdbServer().devices()


def test_which_adb_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "adb"
    own.write_text("#!/bin/sh\n")
    own.chmod(own.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert adb_program() == str(own)
    monkeypatch.setenv("PATH", "/nowhere")
    assert Path(adb_program()).parts[-3:] == ("adbutils", "binaries", "adb")
    assert os.access(adb_program(), os.X_OK)
    monkeypatch.setenv("KZ_ADB", "/nowhere/adb")
    with pytest.raises(UsageError, match=r"\$KZ_ADB is '/nowhere/adb', which is not a program"):
        adb_program()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ADB_SERVER_SOCKET": "localabstract:adb"}, r"\$ADB_SERVER_SOCKET is .*; kz takes tcp:HOST:PORT"),
        ({"ANDROID_ADB_SERVER_PORT": "five"}, "port is 'five', not a number"),
    ],
)
def test_a_server_address_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        AdbServer()


def test_the_server_socket_variable_wins(adb: Adb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
    monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:localhost:{adb.port}")
    assert AdbServer().devices() == []


def test_something_else_on_the_servers_port(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(listener.getsockname()[1]))

        def greet() -> None:
            client, _ = listener.accept()
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n")
            client.close()

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(DeviceError, match=r"the adb server at 127\.0\.0\.1:\d+ does not answer"):
            AdbServer().devices()


def test_forms_of_device_names(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("usb", "adbx", "ssh", "ssh:", "tablet"):
        with pytest.raises(UsageError, match=f"unknown device '{name}'; name one of these: local, adb, adb:SERIAL or ssh:"):
            choose_device(name)
    assert choose_device(None).name == "local"
    monkeypatch.setenv("KZ_DEVICE", "nonsense")
    with pytest.raises(UsageError):
        choose_device(None)
    assert choose_device("local").name == "local"
    assert "local runs bundles where they are, without a deployment" in kz.fails("deploy", "--device", "local")
