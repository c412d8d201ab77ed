"""`kz devices`: every device, in whatever state, and what is deployed on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.devices.test_deployment import deployed
from tests.support.adb import Adb
from tests.support.adb_stub import AdbServerStub, StubDevice
from tests.support.adbd import Adbd
from tests.support.command import Kz
from tests.support.fixtures import MakeAdbd
from tests.support.sandbox import HOST_CPU, Sandbox
from tests.support.sshd import Sshd

KEYS = {
    "name", "state", "advice", "folder", "model", "soc", "abi", "android", "free_bytes", "memory_bytes", "deployed", "busy_pids",
}  # fmt: skip


def test_a_tablet_before_and_after_a_deploy(kz: Kz, device_name: str, fake_bundle: Path) -> None:
    kz("deploy", fake_bundle, "--device", device_name, "--dry-run")
    deployed(kz, fake_bundle, "--device", device_name)
    (entry,) = [entry for entry in kz("devices", "--json").json["devices"] if entry["name"] == device_name]
    assert set(entry) == KEYS
    assert (entry["state"], entry["advice"]) == ("device", None)
    assert (entry["model"], entry["soc"], entry["android"]) == ("OnePlus OPD2413", "SM8750", "15")
    assert entry["abi"] == HOST_CPU.machine
    assert entry["free_bytes"] > 0
    (listing,) = entry["deployed"]
    assert {key: listing[key] for key in ("model", "backend", "quant", "context_length", "executorch", "qnn", "soc")} == {
        "model": "fake",
        "backend": "xnnpack",
        "quant": "fp32",
        "context_length": 64,
        "executorch": "1.5.1",
        "qnn": None,
        "soc": None,
    }
    text = kz("devices").out
    assert f"{device_name}: device\n  OnePlus OPD2413, SM8750, {HOST_CPU.machine}, Android 15\n" in text
    assert "\n  deployed: fake for xnnpack, fp32, context 64\n" in text


def test_nothing_deployed_is_said(kz: Kz, adbd: Adbd) -> None:
    assert kz("devices").out.endswith(" GB free in /data/local/tmp/kazeia\n  nothing deployed\n")


def test_a_listing_that_is_broken_is_left_out(kz: Kz, adbd: Adbd, fake_bundle: Path, sandbox: Sandbox) -> None:
    result = deployed(kz, fake_bundle)
    link = sandbox.path(f"/data/local/tmp/kazeia/deployments/{result['deployment']}/deployment.json")
    sandbox.path(f"/data/local/tmp/kazeia/blobs/{link.readlink().name}").write_text("{broken")
    assert "nothing deployed" in kz("devices").out


def test_devices_of_all_kinds_together(
    kz: Kz, adb: Adb, make_adbd: MakeAdbd, sshd: Sshd, ssh_name: str, fake_bundle: Path
) -> None:
    usb, gone = make_adbd(), make_adbd()
    deployed(kz, fake_bundle, "--device", ssh_name)
    gone.lose()
    adb.wait_state(gone.serial, "offline")
    states = {entry["name"]: entry["state"] for entry in kz("devices", "--json").json["devices"]}
    assert states == {f"adb:{usb.serial}": "device", f"adb:{gone.serial}": "offline", ssh_name: "device"}
    sshd.stop()
    (entry,) = [entry for entry in kz("devices", "--json").json["devices"] if entry["name"] == ssh_name]
    assert entry["state"] == "unreachable"
    assert "cannot be reached (Connection refused)" in entry["advice"]


def test_an_ssh_host_from_the_environment(kz: Kz, adb: Adb, ssh_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kz("devices", "--json").json["devices"] == []
    monkeypatch.setenv("KZ_DEVICE", ssh_name)
    (entry,) = kz("devices", "--json").json["devices"]
    assert (entry["name"], entry["state"], entry["folder"]) == (ssh_name, "device", ".kazeia-device")


def test_a_device_that_adb_calls_ready_but_that_does_not_answer(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    with AdbServerStub([StubDevice("R52X9", "device")]) as stub:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(stub.port))
        (entry,) = kz("devices", "--json").json["devices"]
    assert (entry["state"], entry["advice"]) == (
        "unreachable",
        "adb:R52X9 refused (closed); unlock it, plug it in again and try again",
    )


def test_an_adb_that_does_not_start_does_not_hide_ssh_hosts(
    kz: Kz, client_home: Path, ssh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:127.0.0.1:1")
    monkeypatch.setenv("KZ_ADB", "/bin/false")
    assert "/bin/false cannot start its server" in kz.fails("devices")
    monkeypatch.setenv("KZ_DEVICE", ssh_name)
    states = [(entry["name"], entry["state"]) for entry in kz("devices", "--json").json["devices"]]
    assert states == [("adb", "unreachable"), (ssh_name, "device")]
