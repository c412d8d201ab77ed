"""The order in which native libraries come into the tests' process."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def onnxruntime_before_qnn() -> None:
    """The reference imports onnxruntime, which crashes when Qualcomm's libraries are loaded before it."""
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401
