"""The embedding tables against the reference's text projection and the checkpoint's embeddings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from kazeia.bundle import TableType
from kazeia.checkpoint import Checkpoint
from kazeia.export import tables
from tests.export.export_oracles import Oracle

TOLERANCES: list[tuple[TableType, str, float]] = [("f32", "<f4", 1e-6), ("f16", "<f2", 2e-3)]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(hidden_size=96)


def as_checkpoint(oracle: Oracle) -> Checkpoint:
    """What the tables ask of a checkpoint."""
    return cast(Checkpoint, SimpleNamespace(config=SimpleNamespace(talker_config=oracle.config), tensor=oracle.tensor))


def read(path: Path, numpy_type: str) -> np.ndarray[Any, Any]:
    return np.fromfile(path, numpy_type).reshape(-1, 96)


@pytest.mark.parametrize(("dtype", "numpy_type", "tolerance"), TOLERANCES)
def test_text_table(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: TableType, numpy_type: str, tolerance: float
) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 128)  # three blocks, the last one short
    table = tables.write_text_table(as_checkpoint(oracle), tmp_path / "text.bin", dtype)
    with torch.no_grad():
        want = oracle.talker.text_projection(oracle.talker.get_text_embeddings()(torch.arange(300)))
    np.testing.assert_allclose(read(tmp_path / "text.bin", numpy_type), want.numpy(), atol=tolerance, rtol=tolerance)
    assert (table.file, table.dtype, table.rows, table.width) == ("text.bin", dtype, [300], 96)


@pytest.mark.parametrize(("dtype", "numpy_type", "tolerance"), TOLERANCES)
def test_codec_table(oracle: Oracle, tmp_path: Path, dtype: TableType, numpy_type: str, tolerance: float) -> None:
    table = tables.write_codec_table(as_checkpoint(oracle), tmp_path / "codec.bin", dtype)
    others = oracle.talker.code_predictor.get_input_embeddings()
    want = np.concatenate([layer.weight.detach().numpy() for layer in (oracle.talker.get_input_embeddings(), *others)])
    np.testing.assert_allclose(
        read(tmp_path / "codec.bin", numpy_type), want, atol=0 if dtype == "f32" else tolerance, rtol=tolerance
    )
    assert (table.rows, table.width) == ([1152] + [64] * 15, 96)
