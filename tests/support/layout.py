"""The folders, mounts and users of a sandbox: what is where on an Android device, and what of the host shows through."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "PATH": "/product/bin:/system_ext/bin:/system/bin:/system/xbin:/odm/bin:/vendor/bin:/vendor/xbin",
    "HOME": "/",
    "SHELL": "/system/bin/sh",
    "USER": "shell",
    "LOGNAME": "shell",
    "HOSTNAME": "localhost",
    "TMPDIR": "/data/local/tmp",
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
    "EXTERNAL_STORAGE": "/sdcard",
}
BINFMT = "/proc/sys/fs/binfmt_misc"
SSH_USER = "u0_a217"
SSH_UID = 10217
SSH_HOME = "/data/data/com.termux/files/home"

_FOLDERS = (
    "data/local/tmp", "data/data/com.termux/files/home", "storage/emulated/0/Download", "dev/pts", "proc",
    "etc/ssh", "etc/qemu-binfmt", "vendor/bin", "vendor/lib64", "product/bin", "lib", "lib64", "usr/lib", "usr/sbin",
    "usr/bin", "run/sshd", "sys/devices/system/cpu", "mnt", "odm", "apex",
)  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# owner, group, mode; the numbers are Android's: system 1000, log 1007, sdcard_rw 1015, shell 2000
_OWNERS = {
    "/data": (1000, 1000, 0o771),
    "/data/local": (0, 0, 0o751),
    "/data/local/tmp": (2000, 2000, 0o771),
    "/data/data": (1000, 1000, 0o771),
    "/storage/emulated/0": (2000, 1015, 0o777),
    "/storage/emulated/0/Download": (2000, 1015, 0o777),
    SSH_HOME: (SSH_UID, SSH_UID, 0o700),
}
_PASSWD = f"""root:x:0:0::/:/system/bin/sh
shell:x:2000:2000::/:/system/bin/sh
sshd:x:74:74::/run/sshd:/system/bin/false
{SSH_USER}:x:{SSH_UID}:{SSH_UID}::{SSH_HOME}:/system/bin/sh
"""
_GROUP = f"root:x:0:\nsdcard_rw:x:1015:\nshell:x:2000:\ninet:x:3003:\nsshd:x:74:\n{SSH_USER}:x:{SSH_UID}:\n"
_MEGAHERTZ = (3532, 4320)  # the performance and prime cores of an SM8750
# ELF, 64 bit, little endian, executable or shared object, machine 183 = aarch64; then the mask for those bytes.
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def make_root(root: Path, cores: int) -> None:
    """Make the folders and small files of a device in ``root``; what exists already stays."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)  # pytest's folders are private, but this one becomes everybody's /
    if (root / "system").exists():
        shutil.rmtree(root / "system")  # our own tools, from an earlier start
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _DEVICES:
        (root / "dev" / name).touch()
    links = {"bin": "system/bin", "sdcard": "storage/emulated/0", "dev/ptmx": "pts/ptmx", "dev/fd": "/proc/self/fd",
             "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1", "dev/stderr": "/proc/self/fd/2",
             "etc/qemu-binfmt/aarch64": "/usr/aarch64-linux-gnu"}  # fmt: skip
    for name, target in links.items():
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
    _make_cores(root / "sys/devices/system/cpu", cores)


def _make_cores(folder: Path, cores: int) -> None:
    for name in ("online", "possible", "present"):
        (folder / name).write_text(f"0-{cores - 1}\n" if cores > 1 else "0\n")
    for core in range(cores):
        frequency = folder / f"cpu{core}" / "cpufreq"
        frequency.mkdir(parents=True, exist_ok=True)
        prime = core >= cores * 3 // 4
        (frequency / "cpuinfo_max_freq").write_text(f"{_MEGAHERTZ[prime] * 1000}\n")


def _libraries(root: Path) -> list[dict[str, Any]]:
    """Mounts of the host's own C library and loader, so that its programs run as the device's own do."""
    steps = []
    folders = [f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib/openssh", "/usr/aarch64-linux-gnu", "/usr/lib/klibc"]
    for name in folders:
        if Path(name).is_dir():
            (root / name[1:]).mkdir(parents=True, exist_ok=True)
            steps.append({"kind": "bind", "source": os.path.realpath(name), "target": name, "flags": ["ro"]})
    links = {f"lib/{Path(name).name}": name for name in folders[:1]}
    for folder in ("lib64", "lib"):
        for loader in Path("/", folder).glob("ld-linux*.so.*"):
            links[f"{folder}/{loader.name}"] = str(loader.resolve())
    cross = Path("/usr/aarch64-linux-gnu/lib")
    if cross.is_dir() and platform.machine() != "aarch64":
        links["lib/ld-linux-aarch64.so.1"] = str(cross / "ld-linux-aarch64.so.1")
        links["lib/aarch64-linux-gnu"] = str(cross)
    for name, target in links.items():
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    return steps


def _emulator() -> list[dict[str, Any]]:
    """The mount that has the kernel run aarch64 programs under qemu, in this sandbox only (Linux 6.7 and later)."""
    found = shutil.which("qemu-aarch64-static")
    if found is None or platform.machine() == "aarch64":
        return []
    # F: the kernel keeps qemu open from now on, though the sandbox cannot see the file
    entry = f":qemu-aarch64:M::{_MAGIC}:{_MASK}:{os.path.realpath(found)}:F"
    return [{"kind": "binfmt_misc", "target": BINFMT, "write": {"register": entry}, "optional": True}]


def plan(root: Path, data_bytes: int | None) -> dict[str, Any]:
    """What process 1 is to mount, in order, and who owns what afterwards."""
    steps: list[dict[str, Any]] = [{"kind": "proc", "target": "/proc", "flags": ["nosuid", "nodev", "noexec"]}]
    steps += _emulator()
    steps.append({"kind": "devpts", "target": "/dev/pts", "options": "newinstance,ptmxmode=0666,mode=0620"})
    steps += [{"kind": "bind", "source": f"/dev/{name}", "target": f"/dev/{name}"} for name in _DEVICES]
    steps += _libraries(root)
    for name in ("/usr/sbin/sshd",):
        if Path(name).exists():
            (root / name[1:]).touch()
            steps.append({"kind": "bind", "source": name, "target": name, "flags": ["ro"]})
    if data_bytes is None:
        steps.append({"kind": "bind", "source": "/data", "target": "/data", "inside": True, "flags": ["nosuid", "nodev"]})
    else:
        options = f"size={data_bytes},mode=0771"
        steps.append({"kind": "tmpfs", "target": "/data", "flags": ["nosuid", "nodev"], "options": options})
    steps.append(
        {"kind": "bind", "source": "/storage", "target": "/storage", "inside": True, "flags": ["nosuid", "nodev", "noexec"]}
    )
    folders = ["/data/local/tmp", SSH_HOME]
    return {"root": str(root), "steps": steps, "folders": folders, "owners": _OWNERS}


def map_users(pid: int) -> None:
    """Give the new user namespace of ``pid`` every user we may give it: all of ours as root, else ourselves as its root."""
    folder = Path(f"/proc/{pid}")
    if os.geteuid() == 0:
        for kind in ("uid", "gid"):
            ranges = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text().splitlines()]
            (folder / f"{kind}_map").write_text("".join(f"{inner} {inner} {count}\n" for inner, _outer, count in ranges))
        return
    (folder / "setgroups").write_text("deny")
    (folder / "uid_map").write_text(f"0 {os.geteuid()} 1\n")
    (folder / "gid_map").write_text(f"0 {os.getegid()} 1\n")
