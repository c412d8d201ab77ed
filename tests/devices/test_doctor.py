"""`kz doctor`: what it finds, what it advises, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kazeia import doctor, qnn_sdk
from kazeia.known_faults import FAULTS, find_fault
from tests.support.adbd import Adbd
from tests.support.bundles import BABBLE, edit_manifest
from tests.support.command import Kz
from tests.support.sandbox import Sandbox

HOST_CHECKS = ["python", "home folder", "executorch", "runner", "bundle", "exporting", "QNN", "adb", "adb server"]
DEVICE_CHECKS = [
    "device", "folder", "free space", "chip", "memory", "deployment", "runner on the device", "NPU libraries", "running",
    "last run", "SELinux",
]  # fmt: skip


def checks(kz: Kz, *options: object) -> dict[str, dict[str, Any]]:
    """The checks by name; the exit status must agree with them."""
    outcome = kz("doctor", "--bundle", BABBLE, "--json", *options)
    result = json.loads(outcome.out)
    bad = [check["name"] for check in result["checks"] if check["result"] == "bad"]
    assert result["ok"] == (not bad)
    assert outcome.status == (14 if bad else 0), outcome
    return {check["name"]: check for check in result["checks"]}


def test_every_check_of_this_machine_is_made(kz: Kz, adbd: Adbd) -> None:
    found = checks(kz)
    assert list(found) == HOST_CHECKS
    assert found["runner"]["result"] == found["executorch"]["result"] == "ok"


def test_a_deployed_device_has_nothing_bad(kz: Kz, device_name: str) -> None:
    assert kz("deploy", BABBLE, "--device", device_name).status == 0
    found = checks(kz, "--device", device_name)
    assert list(found) == HOST_CHECKS + DEVICE_CHECKS
    assert [name for name in DEVICE_CHECKS if found[name]["result"] != "ok"] == []


def test_a_device_without_a_deployment_says_how_to_deploy(kz: Kz, device_name: str) -> None:
    found = checks(kz, "--device", device_name)
    assert found["deployment"]["result"] == "bad"
    assert found["deployment"]["fix"].startswith("run kz deploy")


def test_a_changed_file_on_the_device_is_found(kz: Kz, adbd: Adbd, sandbox: Sandbox) -> None:
    device = f"adb:{adbd.serial}"
    assert kz("deploy", BABBLE, "--device", device).status == 0
    (blob,) = sandbox.path("/data/local/tmp/kazeia").glob("deployments/*/bundle/talker.pte")
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    assert "were changed after the deployment" in checks(kz, "--device", device)["deployment"]["detail"]


@pytest.mark.parametrize(
    ("log", "status", "detail"),
    [
        ("E QnnDsp: Failed to create device 14001\n", "1", "QNN libraries of several SDKs are mixed"),
        ("skel failed: 0x80000406\n", "1", "the DSP does not find its skel library"),
        ("QnnContext error 5005: vtcm size unsupported\n", "1", "exported for another chip"),
        ("expected magic number 0x2000000\n", "0", "it ended well"),
        ("loading\n", "137", "it was killed, most likely for memory"),
        ("something new\n", "3", "it ended with status 3: something new"),
    ],
)
def test_the_last_runs_log_is_understood(kz: Kz, adbd: Adbd, sandbox: Sandbox, log: str, status: str, detail: str) -> None:
    device = f"adb:{adbd.serial}"
    assert kz("deploy", BABBLE, "--device", device).status == 0
    run = sandbox.path("/data/local/tmp/kazeia") / "runs" / "1"
    run.mkdir(parents=True)
    (run / "log").write_text(log)
    (run / "status").write_text(status)
    assert detail in checks(kz, "--device", device)["last run"]["detail"]


def test_refusals_of_selinux_are_found(kz: Kz, adbd: Adbd, sandbox: Sandbox) -> None:
    sandbox.set_logcat(b'W kz_runner: type=1400 audit(0.0:1): avc: denied { execute } for name="kz_runner" dev="dm-5"\n')
    found = checks(kz, "--device", f"adb:{adbd.serial}")["SELinux"]
    assert found["result"] == "bad"
    assert found["fix"] == "deploy to /data/local/tmp/kazeia"


def test_a_bundle_for_another_chip_is_found(kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    edit_manifest(fake_bundle, soc="SM8650")
    outcome = kz("doctor", "--bundle", fake_bundle, "--device", f"adb:{adbd.serial}")
    assert "BAD  chip: " in outcome.out
    assert "the bundle is for SM8650" in outcome.out


def test_a_device_that_is_not_there_is_bad_in_one_line(kz: Kz, adbd: Adbd) -> None:
    found = checks(kz, "--device", "adb:nobody")
    assert found["device"]["result"] == "bad"


@pytest.mark.parametrize(
    ("installed", "result", "text"),
    [
        (None, "note", "no compiler and emulator"),
        ("2.4.0", "bad", "2.4.0 fails when it creates a device, 2.5.0 works"),
        ("2.5.0", "ok", "2.49.40 of onnxruntime-qnn 2.5.0"),
    ],
)
def test_qnn_versions_that_fail_are_named(monkeypatch: pytest.MonkeyPatch, installed: str | None, result: str, text: str) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    monkeypatch.setattr(doctor, "_installed", lambda name: installed)
    monkeypatch.setattr(qnn_sdk, "version", lambda name: installed)
    (check,) = doctor.run_checks({"QNN": doctor._qnn})
    assert check.result == result
    assert text in check.detail
    assert result == "ok" or "pip install onnxruntime-qnn==2.5.0" in str(check.fix)


def test_a_broken_runner_is_found(kz: Kz, adbd: Adbd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "kz_runner"
    broken.write_text("#!/bin/sh\necho no library >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KZ_RUNNER", str(broken))
    found = checks(kz)["runner"]
    assert (found["result"], found["fix"]) == ("bad", "install kazeia again")
    assert "does not start (no library)" in found["detail"]


def test_no_harmless_line_is_a_fault_and_every_fault_has_a_cure() -> None:
    assert find_fault("PrepareLib isn't loaded\nAPI version 2.9 is used. The version is tested against 2.8\n") is None
    for fault in FAULTS:
        assert fault.cause
        assert fault.cure
