"""Files: written whole or not at all, hashed once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kazeia.errors import UsageError

HASH_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; rename it over `path` at the end, remove it if anything fails.

    Raises:
        OSError: the folder is missing or not writable, or the disk is full.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def check_writable(path: Path) -> None:
    """Can a file be written at `path`? Asked before the work, so that minutes are not lost.

    Raises:
        UsageError: it is a folder, or its folder is missing or not writable.
    """
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; choose another place with -o") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with atomic_write(path) as file:
        file.write(data)


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _umask() -> int:
    """The process's file creation mask; temporary files are made private, results are not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
