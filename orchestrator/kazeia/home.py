"""What Kazeia remembers between runs: voices, the last bundle, hashes already checked.

All of it lives in one folder, `$KZ_HOME` or `~/.kazeia`; deleting it loses only voices.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from kazeia.files import write_atomically


class State(msgspec.Struct):
    """Contents of `state.json`; an unreadable file counts as empty."""

    last_bundle: str | None = None
    verified: dict[str, str] = {}
    """Fingerprint of a checked file (path, size, mtime, inode) to its SHA-256."""
    last_device: str | None = None
    """Where the last deploy went: `adb:SERIAL` or `ssh:USER@HOST[:PORT]`."""
    device_folders: dict[str, str] = {}
    """Device by name to Kazeia's folder on it, for every device that was deployed to."""


def home() -> Path:
    """Kazeia's folder; not created."""
    return Path(os.environ.get("KZ_HOME") or Path.home() / ".kazeia")


def load_state() -> State:
    try:
        return msgspec.json.decode((home() / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return State()


def save_state(state: State) -> None:
    """Remember `state`; a home that cannot be written is no reason to fail."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        write_atomically(home() / "state.json", msgspec.json.format(msgspec.json.encode(state)))
    except OSError:
        return
