"""One service on the built-in bundle for all tests of a file, and services with a scripted runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.scripted import Scripted
from tests.serve.service import Service
from tests.support.bundles import BABBLE


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The real runner and the built-in bundle."""
    with Service(tmp_path_factory.mktemp("home"), "--bundle", BABBLE, "--device", "local") as running:
        yield running


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    """A service whose runner does what the seed says."""
    folder = tmp_path / "script"
    folder.mkdir()
    with Scripted(folder, tmp_path / "home") as running:
        yield running
