"""What `kz doctor` checks on a device."""

from __future__ import annotations

from collections.abc import Iterator

from kazeia.bundle import Bundle
from kazeia.deployment_checks import MARGIN_BYTES, QNN_LIBRARIES, check_chip, check_version
from kazeia.device_store import DeviceStore
from kazeia.devices import layout
from kazeia.devices.description import Description
from kazeia.devices.remote import RemoteDevice
from kazeia.devices.shell import quote
from kazeia.doctor import Check, run_checks
from kazeia.errors import DeviceError
from kazeia.known_faults import find_fault

KILLED = 137
MEMORY_SHARE = 1.2
"""A loaded bundle takes its programs' size, and some."""
LOG_BYTES = 65536


def device_checks(device: RemoteDevice, bundle: Bundle) -> Iterator[Check]:
    """Everything about a device and about `bundle` on it. A device that does not answer ends it."""
    try:
        description = device.describe()
    except DeviceError as error:
        detail, _, fix = str(error).partition("; ")
        yield Check("device", "bad", detail, fix or None)
        return
    system = f"Android {description.android}" if description.android else "Linux"
    yield Check(
        "device", "ok", f"{device.name}: {description.model}, {description.soc or 'chip unknown'}, {description.abi}, {system}"
    )
    yield from run_checks(
        {
            "folder": lambda: _folder(device),
            "free space": lambda: _space(device, description),
            "chip": lambda: _chip(device, description, bundle),
            "memory": lambda: _memory(device, bundle),
            "deployment": lambda: _deployment(device, bundle),
            "runner on the device": lambda: _runner(device, bundle),
            "NPU libraries": lambda: _libraries(device, bundle),
            "running": lambda: _running(device, description),
            "last run": lambda: _last_run(device),
            "SELinux": lambda: _selinux(device),
        }
    )


def _folder(device: RemoteDevice) -> Check:
    DeviceStore(device).probe()
    return Check("folder", "ok", f"{device.folder} can be written and runs programs")


def _space(device: RemoteDevice, description: Description) -> Check:
    free = f"{description.free_bytes / 1e6:,.0f} MB free"
    if description.free_bytes < MARGIN_BYTES:
        return Check("free space", "bad", free, f"free some space on {device.name}, or run kz deploy --prune")
    return Check("free space", "ok", free)


def _chip(device: RemoteDevice, description: Description, bundle: Bundle) -> Check:
    if bundle.manifest.soc is None:
        return Check("chip", "ok", "this bundle runs on any")
    note = check_chip(device.name, description, bundle.manifest)
    return Check("chip", "note" if note else "ok", note or f"{description.soc}, as the bundle needs")


def _memory(device: RemoteDevice, bundle: Bundle) -> Check:
    done = device.run("grep -E '^MemAvailable' /proc/meminfo")
    columns = done.stdout.split()
    if done.status or len(columns) < 2 or not columns[1].isdigit():
        return Check("memory", "note", "the system does not tell how much is free")
    free_bytes = int(columns[1]) * 1024
    programs = {program.file for program in bundle.manifest.programs.values()}
    needed_bytes = MEMORY_SHARE * sum(file.bytes for file in bundle.manifest.files if file.name in programs)
    detail = f"{free_bytes / 1e6:,.0f} MB free, the bundle takes about {needed_bytes / 1e6:,.0f} MB"
    if free_bytes < needed_bytes:
        return Check("memory", "bad", detail, "close other programs there, or export with stronger quantisation")
    return Check("memory", "ok", detail)


def _deployment(device: RemoteDevice, bundle: Bundle) -> Check:
    return Check("deployment", "ok", f"{bundle.folder.name} is whole in {device.deployment_folder(bundle.folder)}")


def _runner(device: RemoteDevice, bundle: Bundle) -> Check:
    folder = device.deployment_folder(bundle.folder)
    done = device.run(f"cd {quote(folder)} && LD_LIBRARY_PATH={layout.LIBRARIES} ./{layout.RUNNER} --version")
    found = check_version(device.name, done, bundle.manifest)
    return Check("runner on the device", "ok", f"version {found.version}, backends {', '.join(found.backends)}")


def _libraries(device: RemoteDevice, bundle: Bundle) -> Check:
    on_npu = [name for name, program in bundle.manifest.programs.items() if program.backend == "qnn"]
    if not on_npu:
        return Check("NPU libraries", "ok", "this bundle needs none")
    folder = f"{device.deployment_folder(bundle.folder)}/{layout.LIBRARIES}"
    script = "\n".join(f'ls {pattern} >/dev/null 2>&1 || echo "{pattern}"' for pattern in QNN_LIBRARIES)
    missing = device.run(f"cd {quote(folder)} && {{ {script}\n}}").stdout.split()
    if missing:
        fix = "build the runner with kz build --qnn-sdk DIR, then kz deploy"
        return Check("NPU libraries", "bad", f"{on_npu[0]} runs on the NPU, and {missing[0]} is missing there", fix)
    return Check("NPU libraries", "ok", "runtime, system library, stub and skel are there")


def _running(device: RemoteDevice, description: Description) -> Check:
    if description.busy_pids:
        pids = ", ".join(map(str, description.busy_pids))
        return Check("running", "note", f"a runner of ours is running on {device.name} (pid {pids})", "end it if it is nobody's")
    return Check("running", "ok", "no runner of ours")


def _last_run(device: RemoteDevice) -> Check:
    """The newest run's end, and what its log says about it."""
    done = device.run(
        f"cd {quote(device.folder)}/{layout.RUNS} 2>/dev/null || exit 0\n"
        'r=$(ls -1t | head -n 1); [ -n "$r" ] || exit 0\n'
        f'echo "$(cat "$r/status" 2>/dev/null || echo running)"\ntail -c {LOG_BYTES} "$r/log" 2>/dev/null'
    )
    status, _, log = done.stdout.partition("\n")
    if not status:
        return Check("last run", "ok", "none yet")
    if found := find_fault(log):
        line, fault = found
        return Check("last run", "bad", f"{fault.cause} ({line[:80]})", fault.cure)
    if status == str(KILLED):
        return Check("last run", "bad", "it was killed, most likely for memory", "close other programs, or use a smaller bundle")
    if status in ("0", "running"):
        return Check("last run", "ok", "still running" if status == "running" else "it ended well")
    lines = log.strip().splitlines()
    return Check("last run", "bad", f"it ended with status {status}{f': {lines[-1][:80]}' if lines else ''}", "run it again")


def _selinux(device: RemoteDevice) -> Check:
    done = device.run(
        f"command -v logcat >/dev/null || exit 3\nlogcat -d -t 2000 2>/dev/null | grep 'avc: *denied' | grep {layout.RUNNER}"
    )
    if done.status == 3:
        return Check("SELinux", "ok", "the system has no logcat")
    denied = done.stdout.strip().splitlines()
    if denied:
        return Check("SELinux", "bad", f"the runner was refused something: {denied[-1][:80]}", "deploy to /data/local/tmp/kazeia")
    return Check("SELinux", "ok", "no refusals in the log")
