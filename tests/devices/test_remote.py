"""Commands and bytes on a device, over adb old and new and over ssh; and what happens when it hangs or goes."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kazeia.devices import adb_server, ssh
from kazeia.devices.adb import AdbDevice
from kazeia.devices.remote import RemoteDevice
from kazeia.devices.shell import Completed, quote
from kazeia.errors import DeviceError, UsageError
from tests.support.adb import Adb
from tests.support.adbd import FEATURES, FEATURES_V1, Adbd, Config, Faults, Trip
from tests.support.sandbox import HOST_CPU, TABLET, Sandbox
from tests.support.sshd import Sshd

OLD = Config(features=FEATURES_V1, version=0x01000000, max_payload=4096)
NEW = Config(features=FEATURES)
BOTH = pytest.mark.parametrize("adbd", [NEW, OLD], indirect=True, ids=["shell v2", "shell v1"])
EVERY_BYTE = bytes(range(256)) * 300


@BOTH
@pytest.mark.parametrize("status", [0, 1, 3, 126, 127, 255])
def test_exit_codes_over_adb(tablet: AdbDevice, status: int) -> None:
    assert tablet.run(f"echo out; echo err >&2; exit {status}") == Completed(status, "out\n", "err")


def test_exit_codes_over_ssh(sshd: Sshd, ssh_name: str) -> None:
    device = ssh.SshDevice(ssh_name.removeprefix("ssh:"))
    for status in (0, 1, 3, 126, 127, 255):
        assert device.run(f"echo out; echo err >&2; exit {status}") == Completed(status, "out\n", "err")


@BOTH
@pytest.mark.parametrize("line_end", ["\r\n", "\r\r\n"])
def test_carriage_returns_and_noise_over_adb(tablet: AdbDevice, adbd: Adbd, sandbox: Sandbox, line_end: str) -> None:
    adbd.faults = Faults(line_end=line_end, stderr_noise="\xffWARNING: linker: \xfe\n")
    assert tablet.run("printf 'a\\r\\nb\\r\\r\\n'; printf 'bad \\377 byte\\r\\n' >&2; exit 3") == Completed(
        3, "a\nb\n", "bad \ufffd byte"
    )
    sandbox.set_properties({"ro.product.model": "OPD2413\r", "ro.soc.model": "SM8750\r"})
    found = tablet.describe()
    assert (found.model, found.soc) == ("OnePlus OPD2413", "SM8750")


@BOTH
def test_every_byte_goes_through_a_stream_unchanged_over_adb(tablet: AdbDevice, adbd: Adbd) -> None:
    adbd.faults = Faults(line_end="\r\n")
    assert echoed(tablet) == EVERY_BYTE


def test_every_byte_goes_through_a_stream_unchanged(either: RemoteDevice) -> None:
    assert echoed(either) == EVERY_BYTE


def echoed(device: RemoteDevice) -> bytes:
    stream = device.open(f"head -c {len(EVERY_BYTE)}")
    back = bytearray()
    for start in range(0, len(EVERY_BYTE), 10_000):
        stream.write(EVERY_BYTE[start : start + 10_000])
        while stream.ready():
            back += stream.read(1 << 16, 5)
    while data := stream.read(1 << 16, 5):
        back += data
    stream.close()
    stream.close()
    return bytes(back)


def test_a_pushed_file_arrives_as_it_is(either: RemoteDevice, tmp_path: Path, sandbox: Sandbox) -> None:
    data = random.Random(1).randbytes(3_000_001)
    (tmp_path / "file").write_bytes(data)
    either.run(f"mkdir -p {quote(either.folder)}")
    steps: list[int] = []
    either.push(tmp_path / "file", 0, len(data), f"{either.folder}/a $(touch pwned) 'b", steps.append)
    either.push(tmp_path / "file", 1_000, 50, f"{either.folder}/part", steps.append)
    either.push(tmp_path / "file", 0, 0, f"{either.folder}/empty", steps.append)
    assert sum(steps) == len(data) + 50
    home = sandbox.path(either.run(f"cd {quote(either.folder)} && pwd -P").stdout.strip())
    assert sorted(path.name for path in home.iterdir()) == ["a $(touch pwned) 'b", "empty", "part"]
    assert (home / "a $(touch pwned) 'b").read_bytes() == data
    assert (home / "part").read_bytes() == data[1_000:1_050]


def test_offsets_beyond_four_gigabytes(either: RemoteDevice, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.seek((1 << 32) + 123)
        file.write(b"the end")
    either.run(f"mkdir -p {quote(either.folder)}")
    either.push(tmp_path / "sparse", (1 << 32) + 100, 30, f"{either.folder}/tail", lambda _: None)
    assert either.run(f"tail -c 7 {quote(either.folder)}/tail").stdout == "the end"


@pytest.mark.parametrize("size", [123, 4_617_089_843, 1 << 50])
def test_free_space_of_any_size_is_understood(tablet: AdbDevice, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = f"abi=arm64-v8a\r\ndf=/dev/block/dm-50  9 9 {size} 24% /data with spaces\r\n"
    monkeypatch.setattr(tablet, "run", lambda _: Completed(0, text, ""))
    assert tablet.describe().free_bytes == size * 1024


@pytest.mark.parametrize("text", ["", "\n", "abi=arm64-v8a\n", "machine=\ndf=x", "df: not found"])
def test_an_answer_without_the_facts_is_an_error(tablet: AdbDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(tablet, "run", lambda _: Completed(0, text, ""))
    with pytest.raises(DeviceError, match="does not say what it is"):
        tablet.describe()


def test_a_description_has_what_the_device_says(either: RemoteDevice, sandbox: Sandbox) -> None:
    found = either.describe()
    assert (found.model, found.soc, found.android) == ("OnePlus OPD2413", "SM8750", "15")
    assert found.machine == found.abi == HOST_CPU.machine
    assert found.free_bytes > 1e6
    assert found.deployed == []
    assert found.busy_pids == []
    assert set(found.core_khz.values()) <= {3_532_000, 4_320_000}


@pytest.mark.parametrize("sandbox", [TABLET], indirect=True)
def test_an_arm_tablet_is_one(tablet: AdbDevice) -> None:
    found = tablet.describe()
    assert (found.abi, found.machine) == ("arm64-v8a", "aarch64")


def test_the_performance_cores() -> None:
    from kazeia.devices.description import Description

    nothing = Description("", "", "", "", "", 0)
    assert nothing.performance_mask() is None
    elite = dataclasses.replace(nothing, core_khz={**dict.fromkeys(range(6), 3_532_800), 6: 4_320_000, 7: 4_320_000})
    assert elite.performance_mask() is None, "all of an 8 Elite's cores are fast"
    gen3 = dataclasses.replace(
        nothing, core_khz={0: 2_265_600, 1: 2_265_600, **dict.fromkeys(range(2, 7), 2_956_800), 7: 3_302_400}
    )
    assert gen3.performance_mask() == 0b11111100


def test_a_hung_device_is_given_up(tablet: AdbDevice, adbd: Adbd) -> None:
    adbd.faults = Faults(trips=(Trip("shell", "hang", after_bytes=0, times=0),))
    assert limited(lambda: tablet.run("echo x", timeout_s=0.5)) == (
        f"{tablet.name} does not answer (waited 0 s); check that it is on, unlocked and connected, then try again"
    )


def test_a_device_that_takes_no_command_is_given_up(tablet: AdbDevice, adbd: Adbd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adb_server, "OPEN_TIMEOUT_S", 0.5)
    adbd.faults = Faults(trips=(Trip("link", "hang", times=0),))
    assert limited(lambda: tablet.run("echo x")) == f"{tablet.name} does not answer (waited 0 s); unlock it or restart it"


def test_a_device_that_takes_no_data_is_given_up(
    tablet: AdbDevice, adbd: Adbd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kazeia.devices.adb.WRITE_TIMEOUT_S", 0.5)
    monkeypatch.setattr("kazeia.devices.adb.PUSH_ANSWER_TIMEOUT_S", 0.5)
    (tmp_path / "file").write_bytes(bytes(30_000_000))
    adbd.faults = Faults(trips=(Trip("push", "hang", after_bytes=1_000_000),))
    target = "/data/local/tmp/file"
    assert limited(lambda: tablet.push(tmp_path / "file", 0, 30_000_000, target, lambda _: None)).startswith(
        f"{tablet.name} stopped taking data; check that it is on"
    )


def test_a_hung_ssh_server_is_given_up(sshd: Sshd, ssh_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "OPEN_TIMEOUT_S", 0.5)
    device = ssh.SshDevice(ssh_name.removeprefix("ssh:"))
    assert device.run("echo x").stdout == "x\n"
    sshd.hang()
    try:
        assert "does not answer" in limited(lambda: device.run("echo x", timeout_s=0.5))
    finally:
        sshd.resume()


def limited(action: Callable[[], object]) -> str:
    """The error of an action that must fail soon."""
    started = time.monotonic()
    with pytest.raises(DeviceError) as caught:
        action()
    assert time.monotonic() - started < 8
    return str(caught.value)


@pytest.mark.parametrize("action", ["cut", "reset", "lose", "die"])
def test_a_device_lost_in_a_command_is_an_error(tablet: AdbDevice, adbd: Adbd, action: str) -> None:
    adbd.faults = Faults(trips=(Trip("shell", action, after_bytes=100),))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="was lost in the middle of a command; check that it is on"):
        tablet.run("i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); done")


def test_a_device_that_is_not_there_any_more_is_named(tablet: AdbDevice, adbd: Adbd, adb: Adb) -> None:
    adb("disconnect", adbd.serial)
    with pytest.raises(DeviceError, match=f"adb:{adbd.serial} is not connected; plug it in"):
        tablet.run("true")


@pytest.mark.parametrize("folder", ["", "/", "a\nb", "a\0b", "x" * 600])
def test_a_folder_that_cannot_be_one_is_refused(folder: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be Kazeia's folder on a device"):
        ssh.SshDevice("me@host", folder or "\t")


def test_an_adb_folder_is_a_full_path(adb: Adb) -> None:
    with pytest.raises(UsageError, match=r"name a full path such as /data/local/tmp/kazeia"):
        AdbDevice(adb_server.AdbServer(), "X", "kazeia")
