"""Shared fixtures: a home of its own for every test, the command line in-process, stand-in bundles and runners."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

import pytest

from kazeia import bundle_choice
from tests.support.bundles import BABBLE, write_fake_bundle
from tests.support.command import Kz

RACING = ("tests/devices/", "tests/serve/", "tests/test_support_", "tests/test_batch_", "tests/test_dask_", "tests/test_speak")
"""Tests whose other side is a process of its own: a busy machine may be late. A failure is tried once more and reported."""

EMULATED = (
    "tests/export/test_qnn_", "tests/export/test_quality_faults", "tests/test_npu_", "tests/test_qnn_sdk.py::test_the_package",
)  # fmt: skip
"""Tests that need the NPU's compiler and emulator, which there are none of for Python 3.10."""

# What a shell starts in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if sys.version_info < (3, 11) and item.nodeid.startswith(EMULATED):
            item.add_marker(pytest.mark.skip(reason="onnxruntime-qnn needs Python 3.11 or newer"))
        if item.nodeid.startswith(RACING):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session", autouse=True)
def onnxruntime_before_qnn() -> None:
    """The reference imports onnxruntime, which crashes when Qualcomm's libraries are loaded before it."""
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401


@pytest.fixture(autouse=True)
def kz_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `$KZ_HOME`, the tests' own bundle for the built-in one, and no other Kazeia variables from outside."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("KZ_HOME", str(folder))
    for name in ("KZ_BUNDLE", "KZ_DEVICE", "KZ_RUNNER", "KZ_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bundle_choice, "BUILTIN", BABBLE)
    return folder


@pytest.fixture
def kz(capfdbinary: pytest.CaptureFixture[bytes]) -> Kz:
    """Runs `kz` in this process and captures what it prints."""
    return Kz(capfdbinary)


@pytest.fixture
def fake_bundle(tmp_path: Path) -> Path:
    """A bundle whose manifest, tables and sizes are right and whose programs are empty shells."""
    return write_fake_bundle(tmp_path / "fake")
