"""The Linux calls behind the sandbox that Python does not wrap in every supported version: namespaces and mounts."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2

_FLAGS = {"ro": MS_RDONLY, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
# statvfs has its own numbers for the access-time flags. A less privileged namespace may not clear any inherited flag.
_STATVFS = {1: MS_RDONLY, 2: MS_NOSUID, 4: MS_NODEV, 8: MS_NOEXEC, 1024: MS_NOATIME, 2048: MS_NODIRATIME, 4096: MS_RELATIME}
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_DUMPABLE = 4
# By architecture, as libc has no wrapper for pivot_root.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount_flags(names: Iterable[str]) -> int:
    """Mount flags for names such as ``ro`` and ``noexec``."""
    flags = 0
    for name in names:
        flags |= _FLAGS[name]
    return flags


def inherited_flags(path: str) -> int:
    """The flags of the mount that holds ``path``, as mount(2) takes them."""
    present = os.statvfs(path).f_flag
    return sum(flag for bit, flag in _STATVFS.items() if present & bit)


def unshare(flags: int) -> None:
    """Leave the shared namespaces named by ``flags``; raises OSError where the machine forbids it."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2); raises OSError naming source and target."""
    arguments = [os.fsencode(text) or None for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(options) or None), f"mount {source} on {target}")


def unmount(target: str) -> None:
    """Detach the mount at ``target`` even while it is in use."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def enter_root(root: str) -> None:
    """Make ``root`` (a mount point) this mount namespace's root and drop the old one."""
    os.chdir(root)
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), f"pivot_root {root}")
    unmount(".")
    os.chdir("/")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send ``signal_number`` to this process when its parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")


def name_process(name: str) -> None:
    """Set the name that ps shows for this process."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")


def set_hostname(name: bytes) -> None:
    """Set the host name of this UTS namespace."""
    _check(_libc.sethostname(name, len(name)), "sethostname")
