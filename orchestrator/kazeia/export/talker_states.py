"""The talker's hidden states over a whole sequence at once, in PyTorch and float32."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kazeia.checkpoint import Checkpoint
from kazeia.export.layers import MASK_VALUE, DecoderShape
from kazeia.export.talker import Talker

Floats = NDArray[np.float32]


class TalkerStates:
    """Holds the talker of a checkpoint.

    Args:
        positions: the longest sequence.
    """

    def __init__(self, checkpoint: Checkpoint, positions: int) -> None:
        config = checkpoint.config.talker_config
        self._shape = DecoderShape.of(config)
        self._stack = Talker(config, checkpoint.tensor, positions).eval().stack

    @torch.no_grad()
    def hidden(self, embeds: Floats) -> Floats:
        """What the talker gives to the code predictor at each position of a teacher-forced sequence.

        Args:
            embeds: `[T, D]`, T up to the positions.

        Returns:
            `[T, D]`, after the final norm.
        """
        rows = len(embeds)
        mask = torch.full((1, rows, 1 + rows), MASK_VALUE)
        mask[0, :, 1:] = torch.triu(mask[0, :, 1:], diagonal=1)
        # An empty cache is one masked slot.
        past = [torch.zeros(1, self._shape.kv_heads, self._shape.head_dim)] * self._shape.layers
        last: list[Tensor] = []

        def keep(module: nn.Module, inputs: object, outputs: tuple[Tensor, Tensor, Tensor]) -> None:
            last.append(outputs[0])

        hook = self._stack.layers[-1].register_forward_hook(keep)
        try:
            self._stack(torch.from_numpy(embeds)[None], torch.arange(rows), mask, past, past)
        finally:
            hook.remove()
        states: Tensor = self._stack.norm(last[0])[0]
        return states.numpy()
