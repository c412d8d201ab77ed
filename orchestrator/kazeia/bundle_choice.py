"""Which bundle a command uses when several could be meant."""

from __future__ import annotations

import os
from pathlib import Path

from kazeia.bundle import MANIFEST_NAME, Bundle
from kazeia.errors import BundleError
from kazeia.home import load_state, save_state

BUILTIN = Path(__file__).parent / "data" / "builtin"
"""The bundle inside the package."""


def choose_bundle(given: str | os.PathLike[str] | None) -> Path:
    """`given`, then `$KZ_BUNDLE`, then the last one exported if it is still there, then the built-in one."""
    if given is not None:
        return Path(given)
    if named := os.environ.get("KZ_BUNDLE"):
        return Path(named)
    last = load_state().last_bundle
    if last and (Path(last) / MANIFEST_NAME).is_file():
        return Path(last)
    return BUILTIN


def open_bundle(given: str | os.PathLike[str] | None) -> Bundle:
    """Open the chosen bundle; a bad `$KZ_BUNDLE` is named as the source of the choice."""
    folder = choose_bundle(given)
    try:
        return Bundle.open(folder)
    except BundleError as error:
        if given is None and os.environ.get("KZ_BUNDLE"):
            raise BundleError(f"$KZ_BUNDLE: {error}") from None
        raise


def remember_bundle(folder: Path) -> None:
    """Make `folder` the default of later commands."""
    state = load_state()
    state.last_bundle = str(folder.absolute())
    save_state(state)
