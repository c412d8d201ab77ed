"""Fills a sandbox's /system/bin: Android's shell (mksh) and toybox where the host has them, and a few tools of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from .needs import program

# What an Android 15 device has in /system/bin, as far as this project could want it; nothing beyond, so that a command that
# a tablet lacks is missing here too.
_TOOLS = """
[ awk base64 basename bc cat chgrp chmod chown cksum cmp comm cp cut date dd df diff dirname dmesg du echo egrep env expand
expr fallocate false fgrep file find flock fmt free fsync getconf getopt grep groups gunzip gzip head hostname id ifconfig
inotifyd ionice kill killall ln losetup ls lsmod lsof md5sum mkdir mkfifo mknod mktemp more mount mountpoint mv nc netcat
netstat nice nl nohup nproc nsenter od paste patch pgrep pidof ping pkill pmap printenv printf prlimit ps pwd pwdx readelf
readlink realpath renice rev rm rmdir sed seq setsid sha1sum sha224sum sha256sum sha384sum sha512sum sleep sort split stat
strings stty sync sysctl tac tail tar taskset tee test time timeout top touch tr true truncate tty ulimit umount uniq unlink
unshare uptime usleep uudecode uuencode uuidgen vmstat watch wc which whoami xargs xxd yes zcat
"""

ANDROID_TOOLS = _TOOLS.split()
PROPERTIES = "/system/etc/properties"
LOGCAT = "/system/etc/logcat"

_GETPROP = f"""#!/system/bin/sh
if [ $# -eq 0 ]; then
  while IFS= read -r line; do printf '[%s]: [%s]\\n' "${{line%%=*}}" "${{line#*=}}"; done < {PROPERTIES}
  exit 0
fi
while IFS= read -r line; do
  if [ "${{line%%=*}}" = "$1" ]; then printf '%s\\n' "${{line#*=}}"; exit 0; fi
done < {PROPERTIES}
printf '%s\\n' "$2"
"""
_SETPROP = """#!/system/bin/sh
echo "Failed to set property '$1' to '$2'." >&2
exit 1
"""
_LOGCAT = f"""#!/system/bin/sh
exec cat {LOGCAT}
"""
_GETENFORCE = """#!/system/bin/sh
echo Enforcing
"""


def _uname(host_machine: str, machine: str) -> str:
    return f"""#!/system/bin/sh
toybox uname "$@" | sed 's/{host_machine}/{machine}/g'
"""


@cache
def _applets(tool: str) -> frozenset[str]:
    arguments = [tool] if Path(tool).name.startswith("toybox") else [tool, "--list"]
    return frozenset(subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=30).stdout.split())


@cache
def shell_program() -> str:
    """The host's mksh, which is Android's shell, or else the nearest to it."""
    found = shutil.which("mksh") or shutil.which("dash") or program("mksh", "mksh")
    return os.path.realpath(found)


def install(system: Path, properties: dict[str, str], machine: str) -> None:
    """Write ``system`` (/system of the sandbox): ``bin`` with shell and tools, ``etc`` with what getprop reads."""
    binaries, etc = system / "bin", system / "etc"
    binaries.mkdir(parents=True)
    etc.mkdir()
    toybox, busybox = program("toybox", "toybox"), program("busybox", "busybox-static")
    for source, name in ((toybox, "toybox"), (busybox, "busybox"), (shell_program(), "sh")):
        shutil.copy(os.path.realpath(source), binaries / name)
    for tool in ANDROID_TOOLS:
        for source, name in ((toybox, "toybox"), (busybox, "busybox")):
            if tool in _applets(source):
                (binaries / tool).symlink_to(name)
                break
    scripts = {"getprop": _GETPROP, "setprop": _SETPROP, "logcat": _LOGCAT, "getenforce": _GETENFORCE}
    scripts["uname"] = _uname(os.uname().machine, machine)
    for name, text in scripts.items():
        (binaries / name).write_text(text, encoding="utf-8")
        (binaries / name).chmod(0o755)
    write_properties(system.parent, properties)
    (system.parent / LOGCAT[1:]).write_bytes(b"")


def write_properties(root: Path, properties: dict[str, str]) -> None:
    """Write what getprop answers in the sandbox with the folder ``root``."""
    text = "".join(f"{name}={value}\n" for name, value in sorted(properties.items()))
    target = root / PROPERTIES[1:]
    temporary = target.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)
