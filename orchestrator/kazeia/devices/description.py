"""What a device is, from one script that every Android and Linux shell can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kazeia.devices import layout
from kazeia.devices.shell import quote
from kazeia.errors import DeviceError

PERFORMANCE_SHARE = 0.8
"""Cores with at least this share of the fastest core's clock are performance cores, as in the runner."""

_MACHINES = {"arm64-v8a": "aarch64", "armeabi-v7a": "arm", "armeabi": "arm", "x86": "i386", "arm64": "aarch64", "amd64": "x86_64"}

_PROPERTIES = {
    "model": "ro.product.model",
    "maker": "ro.product.manufacturer",
    "soc": "ro.soc.model",
    "abi": "ro.product.cpu.abi",
    "android": "ro.build.version.release",
}


@dataclass(frozen=True)
class Description:
    """A device that answers."""

    model: str
    soc: str
    """`ro.soc.model`, such as SM8750; empty where the system does not tell."""
    abi: str
    machine: str
    """`uname -m` names: aarch64, x86_64, ..."""
    android: str
    """Android's version; empty on other systems."""
    free_bytes: int
    """On the file system of Kazeia's folder."""
    memory_bytes: int | None = None
    """Memory that programs could have now; None where the system does not tell."""
    core_khz: dict[int, int] = field(default_factory=dict)
    """Top clock by core; empty where the system does not tell."""
    deployed: list[dict[str, Any]] = field(default_factory=list)
    """The listings of the current deployments (`deployment.Listing`), without their files."""
    busy_pids: list[int] = field(default_factory=list)
    """Runners of ours that are running."""

    def performance_mask(self) -> int | None:
        """Bit mask of the performance cores; None if that is all of them, or unknown."""
        if not self.core_khz or min(self.core_khz.values()) >= PERFORMANCE_SHARE * max(self.core_khz.values()):
            return None
        top = max(self.core_khz.values())
        return sum(1 << core for core, khz in self.core_khz.items() if khz >= PERFORMANCE_SHARE * top)


def script(folder: str) -> str:
    """Prints `key=value` lines about the device and about Kazeia's `folder` on it, which need not exist."""
    getprops = "\n".join(f'echo "{key}=$(getprop {name} 2>/dev/null)"' for key, name in _PROPERTIES.items())
    return f"""{getprops}
echo "machine=$(uname -m)"
echo "host=$(hostname 2>/dev/null)"
d={quote(folder)}
while [ ! -d "$d" ]; do case $d in */*) d=${{d%/*}}; [ -n "$d" ] || d=/ ;; *) d=. ;; esac; done
echo "memory=$(grep MemAvailable /proc/meminfo 2>/dev/null)"
echo "df=$(df -kP "$d" | tail -n 1)"
for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq; do
  n=${{f#*/cpu/cpu}}
  [ -r "$f" ] && echo "core=${{n%%/*}} $(cat "$f")"
done
cd {quote(folder)} 2>/dev/null || exit 0
for f in {layout.CURRENT}/*; do
  [ -f "$f" ] && echo "deployed=$(cat "{layout.DEPLOYMENTS}/$(cat "$f")/{layout.LISTING}" 2>/dev/null)"
done
{busy_script()}
exit 0
"""


def busy_script() -> str:
    """Prints `busy=PID` for each living runner, in Kazeia's folder. A number that another program has by now is not one."""
    return f"""for r in {layout.RUNS}/*; do
  [ -f "$r/pid" ] && [ ! -f "$r/status" ] || continue
  p=$(cat "$r/pid")
  tr '\\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q {layout.RUNNER} && echo "busy=$p"
done"""


def parse(name: str, text: str) -> Description:
    """Understand what `script` printed on the device `name`.

    Raises:
        DeviceError: it is not that.
    """
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, found, value = line.strip().partition("=")
        if found:
            values.setdefault(key, []).append(value.strip())
    first = {key: entries[0] for key, entries in values.items()}
    abi = first.get("abi") or first.get("machine", "")
    free_bytes = _free_bytes(first.get("df", ""))
    if not abi or free_bytes is None:
        raise DeviceError(f"{name} does not say what it is (its shell answered {text[:60]!r}); kz needs Android or Linux there")
    return Description(
        model=" ".join(filter(None, (first.get("maker", ""), first.get("model", "")))) or first.get("host", ""),
        soc=first.get("soc", ""),
        abi=abi,
        machine=_MACHINES.get(abi, abi),
        android=first.get("android", ""),
        free_bytes=free_bytes,
        memory_bytes=_kilobytes(first.get("memory", "")),
        core_khz=_cores(values.get("core", [])),
        deployed=[listing for text in values.get("deployed", []) if (listing := _listing(text))],
        busy_pids=[int(pid) for pid in values.get("busy", []) if pid.isdigit()],
    )


def _free_bytes(line: str) -> int | None:
    """The available kilobytes of a line of `df -kP`: file system, blocks, used, available, capacity, mount point."""
    columns = line.split()
    return int(columns[3]) * 1024 if len(columns) >= 6 and columns[3].isdigit() else None


def _kilobytes(line: str) -> int | None:
    """Bytes of a line of `/proc/meminfo`: name, number, kB."""
    columns = line.split()
    return int(columns[1]) * 1024 if len(columns) == 3 and columns[1].isdigit() else None


def _cores(entries: list[str]) -> dict[int, int]:
    pairs = [entry.split() for entry in entries]
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2 and all(part.isdigit() for part in pair)}


def _listing(text: str) -> dict[str, Any] | None:
    try:
        listing = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return {key: value for key, value in listing.items() if key != "files"} if isinstance(listing, dict) else None
