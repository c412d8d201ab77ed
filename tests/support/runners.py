"""Runners that are not the installed one."""

from __future__ import annotations

from pathlib import Path

from kazeia.devices.local import runner_path
from kazeia.elf import shared_libraries


def copied_runner(folder: Path) -> Path:
    """Another build of the runner installed here: it does the same, its bytes differ; its libraries are beside it."""
    runner = runner_path()
    for name, path in shared_libraries(runner).items():
        (folder / name).symlink_to(path)
    copy = folder / "kz_runner"
    copy.write_bytes(runner.read_bytes() + b"\0")
    return copy
