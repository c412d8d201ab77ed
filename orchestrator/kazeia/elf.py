"""As much of the ELF format as tells what a program runs on and which libraries it brings along."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from kazeia.errors import RunnerError

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""`e_machine` to the name that `uname -m` uses."""

_IDENT = struct.Struct("<4sBB10xHH")
_HEADER_64 = struct.Struct("<16xHHIQQQIHHHHHH")
_SEGMENT_64 = struct.Struct("<IIQQQQQQ")
_ENTRY_64 = struct.Struct("<QQ")
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRING_TABLE, _RPATH, _RUNPATH = 1, 5, 15, 29
_CLASS_64, _LITTLE_ENDIAN = 2, 1


@dataclass(frozen=True)
class Elf:
    """A program or a shared library. The lists are empty for 32-bit and big-endian files."""

    machine: str
    needed: list[str]
    """Names of the libraries it is linked to."""
    search: list[Path]
    """Where it looks for them before the system's folders (RUNPATH), `$ORIGIN` replaced."""


def read_elf(path: Path) -> Elf:
    """Read `path`.

    Raises:
        RunnerError: it cannot be read, or is no ELF file.
    """
    try:
        data = path.read_bytes()
        magic, width, order, _, machine = _IDENT.unpack_from(data)
        if magic != b"\x7fELF":
            raise struct.error
        name = _MACHINES.get(machine, f"ELF machine {machine}")
        if (width, order) != (_CLASS_64, _LITTLE_ENDIAN):
            return Elf(name, [], [])
        needed, runpaths = _dynamic(data)
    except OSError as error:
        raise RunnerError(f"cannot read {path}: {error.strerror}; name a runner with --runner") from None
    except (struct.error, ValueError, OverflowError):
        raise RunnerError(f"{path} is not a program for Linux or Android; name a runner with --runner") from None
    origin = str(path.resolve().parent)
    folders = [part for runpath in runpaths for part in runpath.split(":") if part]
    return Elf(name, needed, [Path(part.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)) for part in folders])


def shared_libraries(program: Path) -> dict[str, Path]:
    """The libraries that travel with `program`, by name: those it finds through its own search path, and every one beside it.

    What is found nowhere there is the system's (libc, libm, ...).

    Raises:
        RunnerError: one of them is no library, or for another machine.
    """
    machine = read_elf(program).machine
    beside = program.resolve().parent
    found = {path.name: path for path in sorted(beside.glob("lib*.so*")) if path.is_file()}
    waiting = [program, *found.values()]
    while waiting:
        elf = read_elf(waiting.pop())
        for name in elf.needed:
            path = next((folder / name for folder in [*elf.search, beside] if (folder / name).is_file()), None)
            if path is not None and name not in found:
                found[name] = path
                waiting.append(path)
    for path in found.values():
        other = read_elf(path).machine
        if other != machine and "Skel" not in path.name:  # skels run on the DSP
            raise RunnerError(f"{path} is for {other}, the runner with it for {machine}; build both for one target with kz build")
    return found


def _dynamic(data: bytes) -> tuple[list[str], list[str]]:
    """The needed names and the search paths of the dynamic section, if there is one."""
    header = _HEADER_64.unpack_from(data)
    offset, size, count = header[4], header[8], header[9]
    segments = [_SEGMENT_64.unpack_from(data, offset + size * i) for i in range(count)]
    loads = [(s[3], s[2], s[5]) for s in segments if s[0] == _LOAD]  # address, place in the file, bytes there
    entries: list[tuple[int, int]] = []
    for segment in segments:
        if segment[0] == _DYNAMIC:
            entries = [_ENTRY_64.unpack_from(data, at) for at in range(segment[2], segment[2] + segment[5], _ENTRY_64.size)]
    table = next((value for tag, value in entries if tag == _STRING_TABLE), 0)
    strings = next((place + table - address for address, place, length in loads if address <= table < address + length), 0)

    def text(at: int) -> str:
        return data[strings + at : data.index(b"\0", strings + at)].decode(errors="replace")

    needed = [text(value) for tag, value in entries if tag == _NEEDED]
    return needed, [text(value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
