"""The chips that programs can be made for: one TOML file each, in `deploy/socs`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kazeia.errors import UsageError


class SocProfile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is known of a chip; its id is the file's name and what Android gives as `ro.soc.model`."""

    name: str
    """As it is sold."""
    htp: str
    """Version of the tensor processor: `v79`."""
    vtcm_mb: int
    """Fast memory of the tensor processor; what one operator needs at once must fit."""
    memory: str
    memory_gb_per_s: tuple[float, float]
    """What reading large weights may reach, at worst and at best; for estimates only."""


def soc_ids() -> list[str]:
    """Ids of all known chips."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def soc_profile(soc: str) -> SocProfile:
    """The profile of a chip.

    Raises:
        UsageError: it is unknown; lists the known ones.
    """
    if soc not in soc_ids():
        raise UsageError(f"unknown SoC {soc!r}; choose one of {', '.join(soc_ids())}, or describe it in deploy/socs")
    return msgspec.toml.decode((_folder() / f"{soc}.toml").read_bytes(), type=SocProfile)


def _folder() -> Path:
    """In the wheel the folder is inside the package, in a source tree beside it."""
    package = Path(__file__).parents[1]
    return next(folder for folder in (package / "deploy" / "socs", package.parents[1] / "deploy" / "socs") if folder.is_dir())
