"""What the decoder layers refuse, and the pieces that need no reference."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from kazeia.checkpoint.config import TalkerConfig
from kazeia.errors import ExportError
from kazeia.export.layers import DecoderShape, RopeTable, rotate
from tests.export.export_oracles import talker_config

UNSUPPORTED: list[dict[str, Any]] = [
    {"hidden_act": "gelu"},
    {"rope_scaling": {"rope_type": "yarn"}},
    {"use_sliding_window": True},
]


@pytest.mark.parametrize("changes", UNSUPPORTED, ids=lambda changes: next(iter(changes)))
def test_what_no_released_model_uses_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="only silu, default and false work: use an official checkpoint"):
        DecoderShape.of(msgspec.convert(talker_config(**changes), TalkerConfig))


def test_rope_is_a_rotation_by_position() -> None:
    rope, x = RopeTable(50, 8, 1e4), torch.randn(1, 3, 2, 8)
    rotated = rotate(x, rope(torch.tensor([0, 7, 49])))
    torch.testing.assert_close(rotated[:, 0], x[:, 0])
    angle = torch.tensor([7.0 / 10 ** (n % 4) for n in range(8)])
    pair = torch.cat([-x[:, 1, :, 4:], x[:, 1, :, :4]], -1)
    torch.testing.assert_close(rotated[:, 1], x[:, 1] * angle.cos() + pair * angle.sin())
