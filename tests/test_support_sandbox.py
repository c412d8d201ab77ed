"""The Android-like folder: what commands in it see, can and cannot do."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from pathlib import Path

import pytest

from tests.support.aarch64 import PROBE_EXIT, PROBE_OUTPUT, probe_program
from tests.support.makers import MakeSandbox
from tests.support.sandbox import HOST_CPU, TABLET, Sandbox

pytest_plugins = ["tests.support.fixtures"]

SMALL = dataclasses.replace(TABLET, data_bytes=4 << 20)


def text(sandbox: Sandbox, script: str) -> str:
    """What a script prints, both outputs joined."""
    done = sandbox.run(script)
    return (done.stdout + done.stderr).decode().strip()


def test_looks_like_the_tablet(sandbox: Sandbox) -> None:
    assert text(sandbox, "getprop ro.soc.model") == "SM8750"
    assert text(sandbox, "getprop ro.product.cpu.abi; uname -m") == "arm64-v8a\naarch64"
    assert "[ro.build.version.release]: [15]" in text(sandbox, "getprop")
    assert text(sandbox, "getprop no.such.thing; getprop no.such.thing here") == "here"
    assert text(sandbox, "pwd; echo $TMPDIR") == "/\n/data/local/tmp"
    assert "KSH" in text(sandbox, "echo $KSH_VERSION")
    for tool in ("sha256sum", "df", "stat", "taskset", "timeout", "tar", "dd", "tr"):
        assert text(sandbox, f"which {tool}") == f"/system/bin/{tool}"
    assert sandbox.run("python3 -c 1").returncode == 127
    assert sandbox.run("ls /tmp").returncode == 1


def test_who_may_write_where(sandbox: Sandbox) -> None:
    assert "Read-only file system" in text(sandbox, "touch /x")
    assert "Read-only file system" in text(sandbox, "touch /system/bin/x")
    assert sandbox.run("echo hi > /data/local/tmp/x && cat /data/local/tmp/x").stdout == b"hi\n"
    assert sandbox.path("/data/local/tmp/x").read_bytes() == b"hi\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user can map only one user into a sandbox")
def test_users_are_androids(sandbox: Sandbox) -> None:
    assert text(sandbox, "id -un") == "shell"
    assert "Permission denied" in text(sandbox, "ls /data")
    sandbox.run("touch /data/local/tmp/x")
    assert sandbox.path("/data/local/tmp/x").stat().st_uid == 2000


def test_sdcard_does_not_execute(sandbox: Sandbox) -> None:
    script = "printf '#!/system/bin/sh\\necho ran\\n' > F; chmod 755 F; F"
    denied = sandbox.run(script.replace("F", "/sdcard/prog"))
    assert denied.returncode == 126
    assert b"Permission denied" in denied.stderr
    assert text(sandbox, script.replace("F", "/data/local/tmp/prog")) == "ran"


def test_restrict_and_release(sandbox: Sandbox) -> None:
    sandbox.run("cp /system/bin/toybox /data/local/tmp/echo")
    sandbox.restrict("/data/local/tmp", "ro")
    assert "Read-only file system" in text(sandbox, "touch /data/local/tmp/x")
    assert text(sandbox, "/data/local/tmp/echo hi") == "hi"
    sandbox.release("/data/local/tmp")
    sandbox.restrict("/data/local/tmp", "noexec")
    assert sandbox.run("touch /data/local/tmp/x").returncode == 0
    assert sandbox.run("/data/local/tmp/echo hi").returncode == 126
    sandbox.release("/data/local/tmp")
    assert text(sandbox, "/data/local/tmp/echo hi") == "hi"


@pytest.mark.parametrize("sandbox", [SMALL], indirect=True)
def test_a_full_disk_is_really_full(sandbox: Sandbox) -> None:
    sandbox.fill(leave_bytes=100_000)
    free = int(text(sandbox, "df -k /data/local/tmp | tail -1 | awk '{print $4}'"))
    assert 80 <= free <= 100
    write = "dd if=/dev/zero of=/data/local/tmp/big bs=1000 count=200"
    assert "No space left on device" in text(sandbox, write)
    sandbox.free_up()
    assert sandbox.run(write).returncode == 0


def test_host_programs_run(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(HOST_CPU)
    assert text(sandbox, "uname -m; getprop ro.product.cpu.abi") == f"{platform.machine()}\n{platform.machine()}"
    target = sandbox.path("/data/local/tmp/env")
    target.write_bytes(Path("/usr/bin/env").read_bytes())
    target.chmod(0o755)
    assert "TMPDIR=/data/local/tmp" in text(sandbox, "/data/local/tmp/env")


def test_aarch64_programs_run(sandbox: Sandbox) -> None:
    sandbox.need_aarch64()
    target = sandbox.path("/data/local/tmp/arm")
    target.write_bytes(probe_program())
    target.chmod(0o755)
    done = sandbox.run("cd /data/local/tmp && ./arm")
    assert (done.returncode, done.stdout) == (PROBE_EXIT, PROBE_OUTPUT)
    sandbox.restrict("/data/local/tmp", "noexec")
    assert sandbox.run("/data/local/tmp/arm").returncode == 126


def test_processes_are_its_own(sandbox: Sandbox, make_sandbox: MakeSandbox) -> None:
    process = sandbox.spawn(["/system/bin/sleep", "1000"])
    other = make_sandbox()
    assert sandbox.processes() == [(process.pid, ["/system/bin/sleep", "1000"])]
    assert other.run("pidof sleep").returncode == 1
    assert text(sandbox, "pidof sleep") == str(process.pid)
    process.kill()
    assert process.wait() == -9
    assert sandbox.wait_gone("sleep")


def test_a_process_can_be_killed_from_outside(sandbox: Sandbox) -> None:
    process = sandbox.spawn(["/system/bin/sleep", "1000"])
    assert sandbox.kill("sleep") == 1
    assert process.wait() == -9
    assert sandbox.kill("sleep") == 0


def test_stop_ends_everything_and_keeps_files(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "device")
    with sandbox:
        process = sandbox.spawn(["/system/bin/sh", "-c", "trap '' HUP TERM; sleep 1000 & echo x > /data/local/tmp/kept; wait"])
        host_view = sandbox.path("/proc")
        deadline = time.monotonic() + 5
        while not sandbox.path("/data/local/tmp/kept").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert process.wait(5) == -9
    assert not host_view.exists()
    with sandbox:
        assert sandbox.run("cat /data/local/tmp/kept").stdout == b"x\n"
    with pytest.raises(RuntimeError, match="not running"):
        sandbox.run("true")


def test_properties_and_log_change_while_it_runs(sandbox: Sandbox) -> None:
    sandbox.set_properties({"ro.soc.model": "SM8650", "ro.build.version.release": None})
    assert text(sandbox, "getprop ro.soc.model; getprop ro.build.version.release none") == "SM8650\nnone"
    sandbox.set_logcat(b"avc: denied \xff\n")
    assert sandbox.run("logcat -d").stdout == b"avc: denied \xff\n"


def test_run_passes_input_and_times_out(sandbox: Sandbox) -> None:
    assert sandbox.run(["/system/bin/cat"], input=b"\0\xff\r\n").stdout == b"\0\xff\r\n"
    with pytest.raises(RuntimeError, match="No such file"):
        sandbox.run(["/system/bin/nothing"])
    with pytest.raises(TimeoutError):
        sandbox.run("sleep 1000", timeout=0.1)
