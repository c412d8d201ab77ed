"""Is a bundle's every file the one that was exported?"""

from __future__ import annotations

from pathlib import Path

from kazeia.bundle import File, Manifest
from kazeia.errors import BundleError
from kazeia.files import sha256
from kazeia.home import load_state, save_state

PROGRAM_IDENTIFIER = b"ET12"
"""Bytes 4 to 8 of an ExecuTorch 1.5 program (flatbuffer file identifier)."""


def verify_files(folder: Path, manifest: Manifest, *, rehash: bool) -> None:
    """Check every file's size and identifier, and its SHA-256 unless this very file was hashed before.

    Raises:
        BundleError: names the first bad file and the remedy.
    """
    state = load_state()
    known = {} if rehash else state.verified
    fresh: dict[str, str] = {}
    for file in manifest.files:
        path = folder / file.name
        _check_shape(path, file)
        mark = _fingerprint(path)
        if known.get(mark) == file.sha256:
            continue
        if sha256(path) != file.sha256:
            raise BundleError(f"{path} was changed after the export (SHA-256 differs); {_remedy(folder)}")
        fresh[mark] = file.sha256
    if fresh:
        paths = {mark.rsplit("|", 3)[0] for mark in fresh}
        kept = {mark: digest for mark, digest in state.verified.items() if mark.rsplit("|", 3)[0] not in paths}
        state.verified = {**kept, **fresh}
        save_state(state)


def _check_shape(path: Path, file: File) -> None:
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as opened:
            head = opened.read(8)
    except FileNotFoundError:
        raise BundleError(f"{path} is missing; {_remedy(path.parent)}") from None
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix == ".pte" and size_bytes and head[4:8] != PROGRAM_IDENTIFIER:
        raise BundleError(
            f"{path} is not an ExecuTorch program (found {head[4:8]!r}, want {PROGRAM_IDENTIFIER!r}); {_remedy(path.parent)}"
        )
    if size_bytes != file.bytes:
        raise BundleError(f"{path} has {size_bytes:,} bytes, {file.bytes:,} were exported; {_remedy(path.parent)}")


def _fingerprint(path: Path) -> str:
    stat = path.stat()
    return f"{path}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ino}"


def _remedy(folder: Path) -> str:
    return f"copy {folder.name} again or export the checkpoint again with kz export"
