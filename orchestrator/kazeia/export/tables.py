"""The embedding tables: raw little-endian rows, written a block at a time so that no table is ever whole in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from kazeia.bundle import Table, TableType
from kazeia.checkpoint import Checkpoint

BLOCK_ROWS = 8192
"""Rows of the text table projected at once: 64 MB of text embeddings at full size."""

_NUMPY_TYPES = {"f32": "<f4", "f16": "<f2"}


def write_text_table(checkpoint: Checkpoint, path: Path, dtype: TableType) -> Table:
    """Write `text_projection(text_embedding(id))` of every id, `[text_vocab, D]` (reference `Qwen3TTSTalkerResizeMLP`)."""
    config = checkpoint.config.talker_config
    return _write(path, _projected(checkpoint), [config.text_vocab_size], config.hidden_size, dtype)


def write_codec_table(checkpoint: Checkpoint, path: Path, dtype: TableType) -> Table:
    """Write the talker's codec embeddings, `[vocab, D]`, then the code predictor's, `[codebook, D]` a codebook."""
    config = checkpoint.config.talker_config
    others = config.num_code_groups - 1
    names = ["talker.model.codec_embedding.weight"]
    names += [f"talker.code_predictor.model.codec_embedding.{index}.weight" for index in range(others)]
    rows = [config.vocab_size] + [config.code_predictor_config.vocab_size] * others
    return _write(path, (checkpoint.tensor(name) for name in names), rows, config.hidden_size, dtype)


def _projected(checkpoint: Checkpoint) -> Iterable[Tensor]:
    prefix = "talker.text_projection.linear_fc"
    first, first_bias, second, second_bias = (
        checkpoint.tensor(f"{prefix}{layer}.{part}") for layer in (1, 2) for part in ("weight", "bias")
    )
    embeddings = checkpoint.tensor("talker.model.text_embedding.weight")
    for start in range(0, len(embeddings), BLOCK_ROWS):
        yield linear(silu(linear(embeddings[start : start + BLOCK_ROWS], first, first_bias)), second, second_bias)


def _write(path: Path, blocks: Iterable[Tensor], rows: list[int], width: int, dtype: TableType) -> Table:
    with path.open("wb") as file, torch.inference_mode():
        for block in blocks:
            file.write(block.numpy().astype(_NUMPY_TYPES[dtype]).tobytes())
    return Table(file=path.name, dtype=dtype, rows=rows, width=width)
