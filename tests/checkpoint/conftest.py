"""A made-up tiny checkpoint to read, break and compare."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kazeia.checkpoint.random_weights import write_random_checkpoint


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base checkpoint that no test may change."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=1)
    return folder


@pytest.fixture
def breakable(pristine: Path, tmp_path: Path) -> Callable[[], Path]:
    """Copies of it that a test may change."""
    copies = iter(range(1000))
    return lambda: Path(shutil.copytree(pristine, tmp_path / f"copy{next(copies)}"))
