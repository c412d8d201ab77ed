"""Fixtures of the comparisons with the reference."""

from __future__ import annotations

import pytest

from tests.parity.bundles import ReferenceBundles
from tests.parity.reference import ReferenceCheckpoints, reference


@pytest.fixture(scope="session")
def reference_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> ReferenceCheckpoints:
    """Tiny fp32 checkpoints the reference wrote: `.folder(size, kind)`, `.model(size, kind)`."""
    reference()
    return ReferenceCheckpoints(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="session")
def reference_bundles(tmp_path_factory: pytest.TempPathFactory, reference_checkpoints: ReferenceCheckpoints) -> ReferenceBundles:
    """The same checkpoints exported in fp32: `.bundle(size, kind)`; `.checkpoints` has the reference's side."""
    return ReferenceBundles(tmp_path_factory.mktemp("bundles"), reference_checkpoints)
