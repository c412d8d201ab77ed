"""The test adbd, through the real adb: what goes wrong on order."""

from __future__ import annotations

import dataclasses
import random
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.adb import Adb, free_port
from tests.support.adbd import Adbd, Config, Faults, Trip
from tests.support.makers import MakeAdbd
from tests.support.sandbox import TABLET, Sandbox
from tests.test_support_adbd import V1, WORK, on

pytest_plugins = ["tests.support.fixtures"]

# not one long sleep: Android's shell can miss a SIGHUP while it starts a command, and then waits for that to end
FOREVER = "while :; do sleep 0.1; done"
SIZE = 3_000_000
SMALL = dataclasses.replace(TABLET, data_bytes=8 << 20)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(random.Random(0).randbytes(SIZE))
    return path


def push(adb: Adb, device: Adbd, source: Path, target: str = f"{WORK}/target") -> tuple[int, str]:
    done = on(adb, device, "push", str(source), target)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("percent", [30, 95])
@pytest.mark.parametrize(
    ("action", "keeps_stub"), [("cut", False), ("cut", True), ("reset", False), ("lose", False), ("die", False)]
)
def test_push_breaks_off(
    adb: Adb, adbd: Adbd, sandbox: Sandbox, source: Path, percent: int, action: str, keeps_stub: bool
) -> None:
    count = SIZE * percent // 100
    adbd.faults = Faults(trips=(Trip("push", action, count),), keeps_stub=keeps_stub)  # type: ignore[arg-type]
    assert push(adb, adbd, source)[0] == 1
    if action != "die":
        adbd.wait_for("push", done=False)
    stub = sandbox.path(f"{WORK}/target")
    if keeps_stub or action == "die":
        assert stub.read_bytes() == source.read_bytes()[:count]
    else:
        assert not stub.exists()
    adbd.come_back()
    adb.wait_state(adbd.serial, "device")
    assert push(adb, adbd, source)[0] == 0
    assert stub.read_bytes() == source.read_bytes()


def test_only_the_named_file_and_only_so_often(adb: Adb, adbd: Adbd, source: Path) -> None:
    adbd.faults = Faults(trips=(Trip("push", "cut", 1000, times=2, name="target"),))
    assert push(adb, adbd, source, f"{WORK}/other")[0] == 0
    for expected in (1, 1, 0):
        adb.wait_state(adbd.serial, "device")
        assert push(adb, adbd, source)[0] == expected


def test_pull_breaks_off(adb: Adb, adbd: Adbd, sandbox: Sandbox, source: Path, tmp_path: Path) -> None:
    sandbox.path(f"{WORK}/target").write_bytes(source.read_bytes())
    adbd.faults = Faults(trips=(Trip("pull", "cut", 1_000_000),))
    assert on(adb, adbd, "pull", f"{WORK}/target", str(tmp_path / "back")).returncode == 1
    adb.wait_state(adbd.serial, "device")
    assert on(adb, adbd, "pull", f"{WORK}/target", str(tmp_path / "back")).returncode == 0


@pytest.mark.parametrize("sandbox", [SMALL], indirect=True)
def test_device_full(adb: Adb, adbd: Adbd, sandbox: Sandbox, source: Path) -> None:
    sandbox.fill(leave_bytes=1 << 20)
    code, message = push(adb, adbd, source)
    assert code == 1
    assert "1 file pushed" in message
    assert "No space left on device" in message
    assert not sandbox.path(f"{WORK}/target").exists()
    adbd.faults = Faults(claims_success=True)
    code, message = push(adb, adbd, source)
    assert code == 0
    assert "1 file pushed" in message
    assert sandbox.path(f"{WORK}/target").stat().st_size < SIZE
    sandbox.free_up()
    assert push(adb, adbd, source)[0] == 0


def test_device_full_by_order(adb: Adb, adbd: Adbd, source: Path) -> None:
    adbd.faults = Faults(trips=(Trip("push", "no_space", SIZE // 2),))
    assert "No space left on device" in push(adb, adbd, source)[1]
    assert push(adb, adbd, source)[0] == 0


def test_refused_targets(adb: Adb, adbd: Adbd, sandbox: Sandbox, source: Path) -> None:
    assert "Read-only file system" in push(adb, adbd, source, "/system/x")[1]
    assert "Operation not permitted" in push(adb, adbd, source, "/sdcard/what?: yes")[1]
    assert push(adb, adbd, source, "/sdcard/Download/fine")[0] == 0
    sandbox.restrict(WORK, "ro")
    assert "Read-only file system" in push(adb, adbd, source)[1]
    sandbox.release(WORK)
    assert push(adb, adbd, source)[0] == 0


@pytest.mark.parametrize("action", ["cut", "lose"])
@pytest.mark.parametrize("adbd", [Config(), V1], indirect=True, ids=["today", "v1"])
def test_lost_in_mid_command(adb: Adb, adbd: Adbd, action: str) -> None:
    adbd.faults = Faults(trips=(Trip("shell", action, 10, name="marker"),))  # type: ignore[arg-type]
    assert on(adb, adbd, "shell", "echo 0123456789abc").stdout == b"0123456789abc\n"
    done = on(adb, adbd, "shell", f": marker; echo 0123456789abc; {FOREVER}")
    assert done.stdout == b"0123456789"
    assert adbd.wait_for("exit", hung_up=True)["command"].startswith(": marker")
    adbd.come_back()
    adb.wait_state(adbd.serial, "device")


def test_adbd_dies_with_its_children(adb: Adb, adbd: Adbd, sandbox: Sandbox) -> None:
    script = "setsid sleep 1001 > /dev/null 2>&1 & trap '' HUP; echo started; sleep 1002"
    client = adb.popen("-s", adbd.serial, "shell", script)
    assert client.stdout is not None
    assert client.stdout.readline() == b"started\n"
    adbd.die()
    assert sandbox.wait_gone("sleep")
    assert client.wait(10) != 0
    client.communicate()
    assert adb.state(adbd.serial) != "device"
    adbd.come_back()
    adb.wait_state(adbd.serial, "device")


def test_hangs_until_lifted(adb: Adb, adbd: Adbd, source: Path) -> None:
    trips = (Trip("push", "hang", 1_000_000, name="target"), Trip("shell", "hang", name="slowly"))
    adbd.faults = Faults(trips=trips)
    for arguments in (("push", str(source), f"{WORK}/target"), ("shell", "echo slowly")):
        with pytest.raises(subprocess.TimeoutExpired):
            adb("-s", adbd.serial, *arguments, timeout=0.5)
    assert on(adb, adbd, "shell", "echo fine").stdout == b"fine\n"
    client = adb.popen("-s", adbd.serial, "shell", "echo quickly; echo slowly")
    time.sleep(0.1)
    adbd.faults = Faults()
    assert client.communicate(timeout=10)[0] == b"quickly\nslowly\n"


def test_the_whole_device_hangs(adb: Adb, adbd: Adbd) -> None:
    adbd.faults = Faults(trips=(Trip("link", "hang"),))
    with pytest.raises(subprocess.TimeoutExpired):
        adb("-s", adbd.serial, "shell", "true", timeout=0.5)
    assert adb.state(adbd.serial) == "device"
    adbd.faults = Faults()
    assert on(adb, adbd, "shell", "echo fine").stdout == b"fine\n"


@pytest.mark.parametrize("line_end", ["\r\n", "\r\r\n"])
@pytest.mark.parametrize("adbd", [Config(), V1], indirect=True, ids=["today", "v1"])
def test_line_ends_and_noise(adb: Adb, adbd: Adbd, line_end: str) -> None:
    adbd.faults = Faults(line_end=line_end, stderr_noise="WARNING: caf\xe9 \xff\n")
    done = on(adb, adbd, "shell", "echo a")
    noise = b"WARNING: caf\xe9 \xff" + line_end.encode()
    assert done.stdout + done.stderr in (b"a" + line_end.encode() + noise, noise + b"a" + line_end.encode())
    assert on(adb, adbd, "exec-out", "echo a").stdout == b"WARNING: caf\xe9 \xff\na\n"


def test_slow_link(adb: Adb, adbd: Adbd, source: Path) -> None:
    adbd.faults = Faults(bytes_per_s=SIZE / 0.6)
    start = time.monotonic()
    assert push(adb, adbd, source)[0] == 0
    assert time.monotonic() - start >= 0.55
    adbd.faults = Faults(latency_s=0.1)
    start = time.monotonic()
    assert on(adb, adbd, "shell", "true").returncode == 0
    assert time.monotonic() - start >= 0.1


def test_a_forward_to_nobody(adb: Adb, make_adbd: MakeAdbd) -> None:
    device = make_adbd()
    port = int(on(adb, device, "forward", "tcp:0", f"tcp:{free_port()}").stdout)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        assert sock.recv(10) == b""
    assert adb.state(device.serial) == "device"
    device.faults = Faults(drops_on_dead_forward=True)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        assert sock.recv(10) == b""
    adb.wait_state(device.serial, "offline")
