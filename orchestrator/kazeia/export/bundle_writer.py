"""A bundle's folder: filled under a temporary name, put in place whole, never over anything that is not a bundle."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kazeia.bundle import MANIFEST_NAME, File, Manifest
from kazeia.errors import UsageError
from kazeia.files import sha256, write_atomically


@contextlib.contextmanager
def new_bundle(target: Path) -> Iterator[Path]:
    """An empty folder beside `target` to write a bundle into; at the end it replaces `target`, after a failure it is removed.

    Raises:
        UsageError: `target` exists and is not a bundle, holds other files too, or its parent is no writable folder.
    """
    target = target.absolute()
    check_target(target)
    work = _beside(target, "part")
    try:
        work.mkdir()
    except OSError as error:
        raise UsageError(f"cannot write in {target.parent}: {error.strerror}; choose another -o") from None
    try:
        yield work
        check_target(target)
        _replace(target, work)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def list_files(folder: Path) -> list[File]:
    """Name, size and hash of each file of `folder`, by name."""
    return [File(name=path.name, bytes=path.stat().st_size, sha256=sha256(path)) for path in sorted(folder.iterdir())]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest; the last file of a bundle, since a folder without one is none."""
    write_atomically(folder / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def check_target(target: Path) -> None:
    """UsageError unless a bundle may be put at `target`: nothing there, an empty folder, or a bundle and nothing else."""
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a folder; make it, or choose another -o")
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise UsageError(f"{target} exists and is not a folder; choose another -o")
    present = {path.name for path in target.iterdir()}
    foreign = sorted(present - _bundle_files(target))
    if foreign:
        raise UsageError(f"{target} holds {foreign[0]!r}, which is no part of a bundle; choose another -o")


class _Listing(msgspec.Struct):
    """What the manifest of every contract version has."""

    contract: int
    kazeia: str
    files: list[File]


def _bundle_files(folder: Path) -> set[str]:
    """Names that belong to the bundle in `folder`; empty if it has no manifest."""
    try:
        listing = msgspec.json.decode((folder / MANIFEST_NAME).read_bytes(), type=_Listing)
    except (OSError, msgspec.DecodeError):
        return set()
    return {MANIFEST_NAME, *(file.name for file in listing.files)}


def _replace(target: Path, work: Path) -> None:
    """Put `work` at `target`; what was there is moved aside first and comes back if that fails."""
    if not target.exists():
        work.rename(target)
        return
    old = _beside(target, "old")
    target.rename(old)
    try:
        work.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _beside(target: Path, suffix: str) -> Path:
    return target.parent / f".{target.name[:64]}.{secrets.token_hex(4)}.{suffix}"
