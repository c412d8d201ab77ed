"""What a program runs on and which libraries travel with it."""

from __future__ import annotations

import platform
import shutil
import struct
import sys
from pathlib import Path

import pytest

from kazeia.devices.local import runner_path
from kazeia.elf import read_elf, shared_libraries
from kazeia.errors import RunnerError

HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")


def write_elf(path: Path, machine: int, needed: list[str], runpath: str | None) -> Path:
    """The smallest ELF file with a dynamic section."""
    names = [*needed, *([runpath] if runpath is not None else [])]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in names]
    table = HEADER.size + 2 * SEGMENT.size
    dynamic = table + len(strings)
    entries = [(1, offset) for offset in offsets[: len(needed)]]
    entries += [(29, offsets[-1])] if runpath is not None else []
    entries += [(5, 0x10000 + table), (0, 0)]
    packed = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = dynamic + len(packed)
    header = HEADER.pack(b"\x7fELF", 2, 1, 1, 0, 3, machine, 1, 0, HEADER.size, 0, 0, HEADER.size, SEGMENT.size, 2, 0, 0, 0)
    load = SEGMENT.pack(1, 5, 0, 0x10000, 0x10000, size, size, 0x1000)
    section = SEGMENT.pack(2, 6, dynamic, 0x10000 + dynamic, 0, len(packed), len(packed), 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + load + section + strings + packed)
    return path


def test_the_installed_runner() -> None:
    elf = read_elf(runner_path())
    assert elf.machine == platform.machine()
    libraries = shared_libraries(runner_path())
    assert "libexecutorch.so" in libraries
    assert "libc.so.6" not in libraries
    assert all(path.is_file() for path in libraries.values())


def test_this_python_brings_nothing_of_the_systems() -> None:
    assert read_elf(Path(sys.executable).resolve()).machine == platform.machine()


def test_libraries_are_followed_through_run_paths_and_origin(tmp_path: Path) -> None:
    runner = write_elf(tmp_path / "bin/kz_runner", 183, ["liba.so", "libc.so"], "$ORIGIN/../lib:/nowhere:")
    write_elf(tmp_path / "lib/liba.so", 183, ["libb.so", "liba.so"], "${ORIGIN}/deep")
    write_elf(tmp_path / "lib/deep/libb.so", 183, ["libc.so"], None)
    assert read_elf(runner).needed == ["liba.so", "libc.so"]
    found = shared_libraries(runner)
    assert {name: path.resolve().relative_to(tmp_path.resolve()) for name, path in found.items()} == {
        "liba.so": Path("lib/liba.so"),
        "libb.so": Path("lib/deep/libb.so"),
    }


def test_libraries_beside_the_runner_travel_though_nobody_links_to_them(tmp_path: Path) -> None:
    runner = write_elf(tmp_path / "kz_runner", 183, [], None)
    write_elf(tmp_path / "libQnnHtp.so", 183, ["libdeep.so.1"], None)
    write_elf(tmp_path / "libQnnHtpV79Skel.so", 164, [], None)
    write_elf(tmp_path / "libdeep.so.1", 183, [], None)
    (tmp_path / "notes.txt").write_text("no library")
    assert sorted(shared_libraries(runner)) == ["libQnnHtp.so", "libQnnHtpV79Skel.so", "libdeep.so.1"]


def test_a_library_for_another_machine_is_named(tmp_path: Path) -> None:
    runner = write_elf(tmp_path / "kz_runner", 183, [], None)
    write_elf(tmp_path / "libQnnHtp.so", 62, [], None)
    with pytest.raises(RunnerError, match=r"libQnnHtp.so is for x86_64, the runner with it for aarch64; build both for one"):
        shared_libraries(runner)


@pytest.mark.parametrize(("machine", "name"), [(183, "aarch64"), (62, "x86_64"), (40, "arm"), (164, "ELF machine 164")])
def test_machines_have_the_names_of_uname(tmp_path: Path, machine: int, name: str) -> None:
    assert read_elf(write_elf(tmp_path / "x", machine, [], None)).machine == name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF",
        b"MZ" + bytes(200),
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + b"\xff" * 200,
    ],
)
def test_what_is_no_program_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(RunnerError, match="x is not a program for Linux or Android; name a runner with --runner"):
        read_elf(tmp_path / "x")


def test_a_truncated_runner_is_refused(tmp_path: Path) -> None:
    shutil.copy(runner_path(), tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    for length in (40, 100, 1000):
        (tmp_path / "x").write_bytes(data[:length])
        with pytest.raises(RunnerError, match="is not a program"):
            read_elf(tmp_path / "x")
