"""Deploys that go wrong at the device: nothing half counts, the reason is told, and the next deploy continues."""

from __future__ import annotations

import dataclasses
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kazeia import deployment_checks, device_store
from kazeia.devices.adb import AdbDevice
from kazeia.devices.choice import choose_remote
from kazeia.home import load_state
from tests.devices.test_deployment import ROOT, deployed, rewrite
from tests.support.adb import Adb
from tests.support.adbd import Adbd, Faults, Trip
from tests.support.bundles import edit_manifest
from tests.support.command import Kz
from tests.support.link import Link
from tests.support.runners import copied_runner
from tests.support.sandbox import HOST_CPU, Sandbox
from tests.support.sshd import Sshd

BLOBS = f"{ROOT}/blobs"
SMALL = dataclasses.replace(HOST_CPU, data_bytes=120 << 20)


def come_back(adb: Adb, device: Adbd) -> None:
    device.come_back()
    adb("disconnect", device.serial)
    adb.connect(device)
    adb.wait_state(device.serial, "device")


@pytest.mark.parametrize("percent", [30, 95])
@pytest.mark.parametrize("action", ["cut", "lose", "die"])
def test_a_deploy_that_was_cut_off_is_continued(
    kz: Kz, adb: Adb, adbd: Adbd, fake_bundle: Path, percent: int, action: str, files_in: Callable[[str], list[str]]
) -> None:
    rewrite(fake_bundle, "codec_embeddings.bin", random.Random(1).randbytes(8_000_000))
    total = int(deployed(kz, fake_bundle, "--dry-run")["total_bytes"])  # type: ignore[call-overload]
    adbd.faults = Faults(trips=(Trip("push", action, after_bytes=total * percent // 100),))  # type: ignore[arg-type]
    message = kz.fails("deploy", fake_bundle)
    assert "was lost while files were sent" in message
    assert message.endswith("(what has arrived is kept: kz deploy continues there)")
    assert load_state().last_device is None
    come_back(adb, adbd)
    assert [name for name in files_in(f"{ROOT}/deployments") if not name.startswith(".")] == [], "a half deploy never looks whole"
    assert files_in(f"{ROOT}/current") == []
    result = deployed(kz, fake_bundle)
    largest = 10_800_000
    assert int(result["sent_bytes"]) <= total * (100 - percent) // 100 + largest  # type: ignore[call-overload]
    assert int(result["sent_bytes"]) < total  # type: ignore[call-overload]
    assert deployed(kz, fake_bundle)["sent"] == []


@pytest.mark.parametrize("percent", [30, 95])
@pytest.mark.parametrize("keeps_stub", [False, True])
def test_a_large_file_is_continued_where_it_was_cut(
    kz: Kz, adb: Adb, adbd: Adbd, fake_bundle: Path, percent: int, keeps_stub: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(kz, fake_bundle)
    monkeypatch.setattr(device_store, "SEGMENT_BYTES", 1_000_000)
    size = 12_345_678
    rewrite(fake_bundle, "codec_embeddings.bin", random.Random(2).randbytes(size))
    adbd.faults = Faults(trips=(Trip("push", "cut", after_bytes=size * percent // 100),), keeps_stub=keeps_stub)
    assert "was lost while files were sent" in kz.fails("deploy", fake_bundle)
    come_back(adb, adbd)
    result = deployed(kz, fake_bundle)
    assert int(result["sent_bytes"]) <= size * (100 - percent) // 100 + 1_100_000  # type: ignore[call-overload]
    assert deployed(kz, fake_bundle)["sent"] == []


@pytest.mark.parametrize("percent", [30, 95])
def test_a_deploy_over_ssh_that_was_cut_off_is_continued(
    kz: Kz, sshd: Sshd, client_home: Path, fake_bundle: Path, percent: int
) -> None:
    with Link(sshd.port) as link:
        sshd.write_home(client_home, port=link.port)
        name = f"ssh:{sshd.target}:{link.port}"
        total = int(deployed(kz, fake_bundle, "--device", name, "--dry-run")["total_bytes"])  # type: ignore[call-overload]
        link.cut_after(total * percent // 100)
        assert "was lost" in kz.fails("deploy", fake_bundle, "--device", name)
        result = deployed(kz, fake_bundle, "--device", name)
        # a file that was under way keeps what had arrived, except what was still in buffers
        assert int(result["sent_bytes"]) < total * (100 - percent) // 100 + 3_000_000  # type: ignore[call-overload]
        assert deployed(kz, fake_bundle)["sent"] == []


def test_an_interrupt_leaves_a_deploy_that_can_be_continued(
    kz: Kz, adbd: Adbd, fake_bundle: Path, kz_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adbd.faults = Faults(bytes_per_s=6e6)
    code = (
        "import sys, kazeia.cli, kazeia.devices.local as local; from pathlib import Path;"
        "path = Path(sys.argv.pop(1)); local.runner_path.__globals__['runner_path'] = lambda: path;"
        "import kazeia.deployment_parts as parts; parts.runner_path = lambda: path; kazeia.cli.main()"
    )
    from kazeia.devices.local import runner_path

    command = [sys.executable, "-c", code, str(runner_path()), "deploy", str(fake_bundle)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    adbd.wait_for("push", timeout=20)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "kz: interrupted; nothing was left half-written"
    adbd.faults = Faults()
    assert deployed(kz, fake_bundle)["sent"]
    assert deployed(kz, fake_bundle)["sent"] == []


@pytest.mark.parametrize("sandbox", [SMALL], indirect=True)
def test_too_little_space_is_seen_before_anything_is_sent(kz: Kz, adbd: Adbd, sandbox: Sandbox, fake_bundle: Path) -> None:
    sandbox.fill(leave_bytes=70_000_000)
    message = kz.fails("deploy", fake_bundle)
    assert re.search("has 70 MB free, the deployment needs 8. MB with a margin; free some space on it, or remove older", message)
    assert adbd.events("push") == []
    sandbox.free_up()
    assert deployed(kz, fake_bundle)["sent"]


@pytest.mark.parametrize("sandbox", [SMALL], indirect=True)
def test_a_disk_that_fills_up_meanwhile(
    kz: Kz, device_name: str, sandbox: Sandbox, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.fill(leave_bytes=8_000_000)
    monkeypatch.setattr(deployment_checks, "MARGIN_BYTES", -(1 << 40))  # another app took the space after the check
    message = kz.fails("deploy", fake_bundle, "--device", device_name)
    assert "No space left on device" in message
    assert "free some space on it, or remove older deployments with kz deploy --prune" in message
    sandbox.free_up()
    assert deployed(kz, fake_bundle, "--device", device_name)["sent"]


@pytest.mark.parametrize("claims_success", [False, True])
def test_a_full_device_that_reports_success_is_not_believed(
    kz: Kz, adbd: Adbd, fake_bundle: Path, claims_success: bool, files_in: Callable[[str], list[str]]
) -> None:
    adbd.faults = Faults(trips=(Trip("push", "no_space", after_bytes=5_000_000),), claims_success=claims_success)
    message = kz.fails("deploy", fake_bundle)
    expected = "though it reported success: it is full" if claims_success else "No space left on device"
    assert expected in message
    assert "free some space on it" in message
    stubs = [name for name in files_in(BLOBS) if name.startswith(".")]
    adbd.faults = Faults()
    sent = deployed(kz, fake_bundle)
    assert sent["sent"]
    assert len(stubs) < 8
    assert [name for name in files_in(BLOBS) if name.startswith(".")] == [], "no stub is left"


@pytest.mark.parametrize("claims_success", [False, True])
def test_a_device_that_fills_up_in_a_later_piece(
    kz: Kz, adbd: Adbd, fake_bundle: Path, claims_success: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(kz, fake_bundle)
    monkeypatch.setattr(device_store, "SEGMENT_BYTES", 1_000_000)
    rewrite(fake_bundle, "codec_embeddings.bin", random.Random(2).randbytes(5_000_000))
    adbd.faults = Faults(trips=(Trip("push", "no_space", after_bytes=2_500_000),), claims_success=claims_success)
    expected = "is full (500000 of 1000000)" if claims_success else "No space left on device"
    assert expected in kz.fails("deploy", fake_bundle)
    adbd.faults = Faults()
    assert int(deployed(kz, fake_bundle)["sent_bytes"]) < 3_100_000  # type: ignore[call-overload]


def test_a_file_that_arrives_damaged_is_not_kept(kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    push = AdbDevice.push

    def flips_a_bit(self: AdbDevice, source: Path, offset: int, size: int, target: str, progress: Callable[[int], None]) -> None:
        push(self, source, offset, size, target, progress)
        if source.name == "talker.pte":
            self.run(f"printf X | dd of='{target}' bs=1 seek=9 conv=notrunc 2>/dev/null")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdbDevice, "push", flips_a_bit)
        assert "received a file damaged (SHA-256 differs); run kz deploy again" in kz.fails("deploy", fake_bundle)
    assert "bundle/talker.pte" in deployed(kz, fake_bundle)["sent"]  # type: ignore[operator]


@pytest.mark.parametrize("folder", ["/sdcard/kz", "/storage/emulated/0"])
def test_a_mount_without_execution(kz: Kz, adbd: Adbd, fake_bundle: Path, folder: str) -> None:
    assert kz.fails("deploy", fake_bundle, "--folder", folder) == (
        f"kz: adb:{adbd.serial}: {folder} is on a file system that runs no programs (mounted noexec, as /sdcard always is); "
        "choose another folder with --folder, such as one in /data/local/tmp"
    )
    assert adbd.events("push") == []


@pytest.mark.parametrize(("folder", "reason"), [("/system/kz", "Read-only file system"), ("/data/kz", "Permission denied")])
def test_a_folder_that_cannot_be_written(kz: Kz, adbd: Adbd, fake_bundle: Path, folder: str, reason: str) -> None:
    message = kz.fails("deploy", fake_bundle, "--folder", folder)
    assert message.startswith(f"kz: adb:{adbd.serial}: {folder} cannot be written (")
    assert message.endswith(f"{reason}); choose another folder with --folder")


@pytest.mark.parametrize(
    ("flag", "message"), [("ro", "cannot be written (mkdir: "), ("noexec", "is on a file system that runs no programs")]
)
def test_a_workspace_that_became_useless(
    kz: Kz, device_name: str, sandbox: Sandbox, fake_bundle: Path, flag: str, message: str
) -> None:
    deployed(kz, fake_bundle, "--device", device_name)
    device = choose_remote(device_name)
    folder = device.run(f"cd {device.folder} && pwd -P").stdout.strip()
    sandbox.restrict(folder, flag)
    assert message in kz.fails("deploy", fake_bundle)
    sandbox.release(folder)
    assert deployed(kz, fake_bundle)["sent"] == []


def test_a_running_runner_keeps_its_files(
    kz: Kz, adbd: Adbd, tablet: AdbDevice, sandbox: Sandbox, fake_bundle: Path, tmp_path: Path
) -> None:
    first = deployed(kz, fake_bundle)
    run = f"{ROOT}/runs/20260101-000000-aaaaaaaa"
    tablet.run(f"mkdir -p {run}")
    program = f"{ROOT}/deployments/{first['deployment']}/kz_runner"
    running = sandbox.spawn(["sh", "-c", f"echo $$ >{run}/pid; exec tail -f {program}"])
    while not sandbox.path(run + "/pid").exists() or not sandbox.path(run + "/pid").read_text():
        time.sleep(0.02)
    other = copied_runner(tmp_path)
    outcome = kz("deploy", fake_bundle, "--runner", other)
    assert outcome.status == 0
    assert "a runner is running on adb:" in outcome.err
    assert "it keeps its files, the next one uses the new ones" in outcome.err
    assert sandbox.path(f"{ROOT}/deployments/{first['deployment']}/bundle").is_dir()
    message = kz.fails("deploy", fake_bundle, "--prune")
    assert f"(process {running.pid}); let it end before kz deploy --prune removes what it uses" in message
    running.kill()
    running.wait()
    outcome = kz("deploy", fake_bundle, "--runner", other, "--prune")
    assert (outcome.status, outcome.err) == (0, ""), "a number of a process that has ended is not a runner"


def test_a_runner_in_use_is_replaced_under_its_name(
    kz: Kz, adbd: Adbd, tablet: AdbDevice, sandbox: Sandbox, fake_bundle: Path
) -> None:
    """The kernel refuses to write to a running program ("text file busy"); a new file takes its name instead."""
    result = deployed(kz, fake_bundle)
    link = sandbox.path(f"{ROOT}/deployments/{result['deployment']}/kz_runner").readlink()
    blob = f"{BLOBS}/{link.name}"
    tablet.run(f"cp /system/bin/sleep {BLOBS}/x && cat {BLOBS}/x >{blob} && rm {BLOBS}/x")
    running = sandbox.spawn(["sh", "-c", f"exec -a sleep {blob} 30 || exec {blob} sleep 30"])
    assert deployed(kz, fake_bundle)["sent"] == ["kz_runner"]
    running.kill()


def test_a_device_without_hash_tools_says_what_to_install(kz: Kz, adbd: Adbd, sandbox: Sandbox, fake_bundle: Path) -> None:
    tools = sandbox.folder / "system/bin"
    for name in ("sha256sum", "toybox", "busybox"):
        (tools / name).rename(tools / f"no-{name}")
    for link in tools.iterdir():  # the other tools go on
        if link.is_symlink() and str(link.readlink()) in ("toybox", "busybox"):
            target = f"no-{link.readlink()}"
            link.unlink()
            link.symlink_to(target)
    assert "has no tool for SHA-256; install sha256sum, toybox, busybox or openssl" in kz.fails("deploy", fake_bundle)


@pytest.mark.parametrize("missing", [("sha256sum",), ("sha256sum", "toybox")])
def test_other_hash_tools_do_as_well(kz: Kz, adbd: Adbd, sandbox: Sandbox, fake_bundle: Path, missing: tuple[str, ...]) -> None:
    tools = sandbox.folder / "system/bin"
    (tools / "sha256sum").unlink()
    if "toybox" in missing:
        (tools / "toybox").rename(tools / "no-toybox")
        for link in list(tools.iterdir()):
            if link.is_symlink() and str(link.readlink()) == "toybox":
                link.unlink()
                link.symlink_to("no-toybox")
    deployed(kz, fake_bundle)
    assert deployed(kz, fake_bundle)["sent"] == []


def test_npu_bundles_need_their_libraries(
    kz: Kz, adbd: Adbd, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    from types import SimpleNamespace

    from kazeia.bundle import read_manifest
    from kazeia.deployment_checks import check_libraries
    from kazeia.errors import DeviceError, RunnerError

    edit_manifest(fake_bundle, programs={**programs(), "talker": {"file": "talker.pte", "backend": "qnn", "quant": "16a8w"}})
    manifest = read_manifest(fake_bundle)
    arm, device = SimpleNamespace(machine="aarch64"), SimpleNamespace(name="adb:X", folder="/data/local/tmp/kz")
    libraries = ["libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV79Stub.so", "libQnnHtpV79Skel.so"]
    check_libraries(device, arm, manifest, libraries)  # type: ignore[arg-type]
    for missing, pattern in zip(libraries, deployment_checks.QNN_LIBRARIES, strict=True):
        rest = [name for name in libraries if name != missing]
        with pytest.raises(RunnerError) as caught:
            check_libraries(device, arm, manifest, rest)  # type: ignore[arg-type]
        assert f"talker of this bundle runs on the NPU of adb:X, and {pattern} is not beside the runner" in str(caught.value)
    with pytest.raises(DeviceError, match="splits '/data/a;b' at the semicolon"):
        check_libraries(SimpleNamespace(name="adb:X", folder="/data/a;b"), arm, manifest, libraries)  # type: ignore[arg-type]


def programs() -> dict[str, dict[str, str]]:
    names = ("talker", "code_predictor", "speech_decoder")
    return {name: {"file": f"{name}.pte", "backend": "xnnpack", "quant": "fp32"} for name in names}


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ('{"backends":["xnnpack"]}', None),
        (
            '{"contract":2}',
            "has contract 2, protocol 1, ExecuTorch 1.5.1; this bundle needs 1, 1, 1.5.1: build it again with kz build",
        ),
        ('{"protocol":7}', "has contract 1, protocol 7,"),
        ('{"executorch":"1.4.0"}', "ExecuTorch 1.4.0; this bundle needs 1, 1, 1.5.1"),
        (
            '{"backends":["qnn"]}',
            "talker of this bundle needs the backend xnnpack, the runner for adb:X has qnn; build it with that",
        ),
        ('{"qnn":"2.36.0"}', "the bundle was exported with QNN 2.49.40, the libraries beside the runner are the older 2.36.0"),
        ('{"qnn":"2.49.40.1"}', None),
        ("hello", "does not say its version ('hello'); build it again"),
    ],
)
def test_what_a_runner_says_of_itself_is_compared(fake_bundle: Path, printed: str, message: str | None) -> None:
    import json

    from kazeia.bundle import read_manifest
    from kazeia.devices.shell import Completed
    from kazeia.errors import RunnerError

    edit_manifest(fake_bundle, qnn="2.49.40")
    base = {"version": "0.1.0", "contract": 1, "protocol": 1, "executorch": "1.5.1", "backends": ["xnnpack"]}
    text = json.dumps({**base, **json.loads(printed)}) if printed.startswith("{") else printed
    manifest = read_manifest(fake_bundle)
    if message is None:
        assert deployment_checks.check_version("adb:X", Completed(0, text, ""), manifest).version == "0.1.0"
        return
    with pytest.raises(RunnerError) as caught:
        deployment_checks.check_version("adb:X", Completed(0, text, ""), manifest)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "hint"),
    [
        (126, "sh: ./kz_runner: can't execute: Permission denied", "it may not be executed there"),
        (127, "sh: ./kz_runner: No such file or directory", "it may be built for another system (Linux, Android)"),
        (1, "undefined symbol: foo", "build it again with kz build"),
    ],
)
def test_a_runner_that_does_not_start_says_why(fake_bundle: Path, status: int, error: str, hint: str) -> None:
    from kazeia.bundle import read_manifest
    from kazeia.devices.shell import Completed
    from kazeia.errors import RunnerError

    with pytest.raises(RunnerError) as caught:
        deployment_checks.check_version("adb:X", Completed(status, "", error), read_manifest(fake_bundle))
    assert str(caught.value).startswith(f"the runner does not start on adb:X ({error}); ")
    assert hint in str(caught.value)


def test_a_runner_that_does_not_start_stops_the_deploy_before_the_models(
    kz: Kz, adbd: Adbd, fake_bundle: Path, tmp_path: Path, files_in: Callable[[str], list[str]]
) -> None:
    """A program of the right processor that is no runner: it is sent and tried, and nothing else is."""
    import shutil

    program = tmp_path / "kz_runner"
    shutil.copy(os.path.realpath(shutil.which("busybox") or "/bin/true"), program)
    message = kz.fails("deploy", fake_bundle, "--runner", program)
    assert "the runner does not start on" in message
    assert not [event for event in adbd.events("push") if event["bytes"] and "talker" in event["path"]]
    assert files_in(f"{ROOT}/current") == []
    assert len(adbd.events("push")) == 2, "the runner and the launch script"
