"""Deploying: a bundle and a runner go to a device, so that `kz speak` can use them there.

    describe ─► collect ─► check ─► hash what is there ─► send programs ─► try the runner ─► send the rest ─► publish

Nothing that is there already is sent, nothing that is in use is overwritten, and only the last step makes it count.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from kazeia.bundle import Bundle
from kazeia.deployment_checks import check_chip, check_libraries, check_memory, check_space, check_version
from kazeia.deployment_parts import Parts, choose_runner, collect
from kazeia.device_store import SEGMENT_BYTES, Blob, DeviceStore, Inventory
from kazeia.devices import layout
from kazeia.devices.description import Description
from kazeia.devices.remote import RemoteDevice
from kazeia.errors import BundleError, DeviceError
from kazeia.home import load_state, save_state
from kazeia.quality import deploy_objection

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the file on its way, the bytes sent so far, and the bytes to send."""


@dataclass(frozen=True)
class Options:
    """What may be said about a deployment."""

    runner: Path | None = None
    """None: the one installed here, if it fits."""
    voices: Sequence[str] = ()
    """Yours to copy along. Speaking needs none there: a prompt carries its voice."""
    log_level: str = "warning"
    dry_run: bool = False
    prune: bool = False
    accept_quality: bool = False
    """Deploy even what is below the quality gates."""


@dataclass(frozen=True)
class Deployment:
    """How a deployment went, or what it would do."""

    device: str
    folder: str
    """On the device."""
    bundle: str
    deployment: str
    """Its id on the device."""
    files: int
    total_bytes: int
    sent: list[str]
    """Paths whose content travelled, or would."""
    sent_bytes: int
    send_s: float
    """Time spent sending, without the hashing on the device that follows."""
    total_s: float
    pruned: int
    """Older deployments removed."""
    dry_run: bool
    notes: list[str] = field(default_factory=list)


def deploy(bundle: Bundle, device: RemoteDevice, options: Options, progress: Progress) -> Deployment:
    """Bring `bundle` to `device`. Interrupted, it continues where it stopped when called again.

    Raises:
        BundleError: its quality is below the gates or unknown.
        DeviceError: the device is lost, refuses, is full or does not fit the bundle.
        RunnerError: there is no runner that fits.
        VoiceError: an unknown voice.
    """
    started = time.perf_counter()
    objection = deploy_objection(bundle)
    if objection and not options.accept_quality:
        raise BundleError(
            f"{objection}; export it with --calibration and --auto or more bits, or deploy it all the same with --accept-quality"
        )
    description = device.describe()
    runner = choose_runner(options.runner, device.name, description)
    with tempfile.TemporaryDirectory(prefix="kz-deploy-") as scratch:
        parts = collect(bundle, runner, options.voices, description, options.log_level, Path(scratch))
        notes = [objection] if objection else []
        notes += _checks(bundle, device, description, parts, options)
        store = DeviceStore(device)
        inventory = _look(store, parts)
        missing = _missing(parts.all, inventory)
        check_space(device.name, description.free_bytes, missing.values())
        sender = _Sender(store, inventory, missing, progress)
        if not options.dry_run:
            _transfer(bundle, device, store, parts, inventory, sender)
            _remember(device)
        pruned = _prune(store, parts) if options.prune and not options.dry_run else 0
    return Deployment(
        device=device.name,
        folder=device.folder,
        bundle=str(bundle.folder),
        deployment=parts.deployment,
        files=len(parts.all),
        total_bytes=sum(blob.bytes for blob in parts.all.values()),
        sent=list(missing),
        sent_bytes=sender.total_bytes,
        send_s=sender.elapsed_s,
        total_s=time.perf_counter() - started,
        pruned=pruned,
        dry_run=options.dry_run,
        notes=notes,
    )


class _Sender:
    """Sends blobs and keeps the sum."""

    def __init__(self, store: DeviceStore, inventory: Inventory, missing: dict[str, Blob], progress: Progress) -> None:
        self._store = store
        self._parts = inventory.parts
        self._missing = missing
        self._progress = progress
        self._sent_bytes = 0
        self.elapsed_s = 0.0
        self.total_bytes = sum(blob.bytes - self._start(blob) for blob in missing.values())

    def send(self, paths: Iterable[str]) -> None:
        """Send those of `paths` that are missing, in groups that are checked together: calls are what small files cost."""
        group: list[Blob] = []
        try:
            for path in paths:
                if blob := self._missing.get(path):
                    self._send(path, blob)
                    group.append(blob)
                    if sum(sent.bytes for sent in group) >= SEGMENT_BYTES:
                        self._store.accept(group)
                        group = []
            self._store.accept(group)
        except DeviceError as error:
            raise DeviceError(f"{error} (what has arrived is kept: kz deploy continues there)") from None

    def _send(self, path: str, blob: Blob) -> None:
        def step(count: int) -> None:
            self._sent_bytes += count
            self._progress(path, self._sent_bytes, self.total_bytes)

        started = time.perf_counter()
        self._store.send(blob, self._start(blob), step)
        self.elapsed_s += time.perf_counter() - started

    def _start(self, blob: Blob) -> int:
        """Bytes of it that an interrupted deploy has sent."""
        sent_bytes = self._parts.get(blob.sha256, 0)
        return sent_bytes if sent_bytes <= blob.bytes else 0


def _checks(bundle: Bundle, device: RemoteDevice, description: Description, parts: Parts, options: Options) -> list[str]:
    """Everything that can be told before the device is written to; returns notes."""
    possible = (check(device.name, description, bundle.manifest) for check in (check_chip, check_memory))
    notes = [note for note in possible if note]
    libraries = [path.rpartition("/")[2] for path in parts.programs if path.startswith(f"{layout.LIBRARIES}/")]
    check_libraries(device, description, bundle.manifest, libraries)
    if description.busy_pids:
        busy = f"a runner is running on {device.name} (process {', '.join(map(str, description.busy_pids))})"
        if options.prune:
            raise DeviceError(f"{busy}; let it end before kz deploy --prune removes what it uses")
        notes.append(f"{busy}: it keeps its files, the next one uses the new ones")
    return notes


def _look(store: DeviceStore, parts: Parts) -> Inventory:
    """Can the folder be used, and what is in it?"""
    store.probe()
    return store.inventory(parts.all.values(), parts.deployment, parts.bundle, list(parts.all))


def _missing(blobs: dict[str, Blob], inventory: Inventory) -> dict[str, Blob]:
    """Paths whose content is not on the device; a content that several have is listed once."""
    first: dict[str, str] = {}
    for path, blob in blobs.items():
        if blob.sha256 not in inventory.present:
            first.setdefault(blob.sha256, path)
    return {path: blobs[path] for path in first.values()}


def _transfer(
    bundle: Bundle, device: RemoteDevice, store: DeviceStore, parts: Parts, inventory: Inventory, sender: _Sender
) -> None:
    if not inventory.whole or sender.total_bytes:
        store.create()
        sender.send(parts.programs)
        store.assemble(parts.deployment, {path: blob.sha256 for path, blob in parts.all.items()})
        check_version(device.name, store.runner_version(parts.deployment), bundle.manifest)
        sender.send(parts.contents)
    store.publish(parts.deployment, parts.bundle, assembled=not inventory.whole or bool(sender.total_bytes))


def _prune(store: DeviceStore, parts: Parts) -> int:
    return store.prune(parts.deployment, parts.bundle, {blob.sha256 for blob in parts.all.values()})


def _remember(device: RemoteDevice) -> None:
    """Make the device the default of later commands, with its folder."""
    state = load_state()
    state.last_device = device.name
    state.device_folders[device.name] = device.folder
    save_state(state)
