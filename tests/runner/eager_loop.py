"""The generation loop once more, in PyTorch, without a cache: what the runner's codes must be."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kazeia.export.program import ProgramSpec
from tests.runner.client import Codes, Floats
from tests.runner.tiny_bundle import CODEBOOK, EOS, GROUPS, HEAD_DIM, KV_HEADS, LAYERS, MASK_VALUE, VOCAB, seeded_models


def _whole_sequence(embeds: Tensor) -> tuple[Tensor, ...]:
    """Inputs of a transformer that sees all of `embeds` [T, D] at once, behind one masked row of past."""
    tokens = len(embeds)
    mask = torch.full((1, tokens, 1 + tokens), MASK_VALUE)
    mask[0, :, 1:] = torch.triu(mask[0, :, 1:], diagonal=1)
    past = [torch.zeros(1, KV_HEADS, HEAD_DIM)] * LAYERS
    return embeds[None], torch.arange(tokens), mask, past, past  # type: ignore[return-value]


class EagerLoop:
    """Greedy generation with the modules the tiny bundle was lowered from."""

    def __init__(self) -> None:
        specs, table = seeded_models()
        self._talker = specs["talker"].methods["decode"].module
        predictor: ProgramSpec = specs["code_predictor"]
        self._predictor = predictor.methods["decode"].module
        self._heads = [predictor.methods[f"head_{index}"].module for index in range(GROUPS - 1)]
        self._tables = torch.split(table, [VOCAB] + [CODEBOOK] * (GROUPS - 1))

    @torch.no_grad()
    def generate(self, prompt: Floats, trailing: Floats, pad: Floats, frames: int, min_frames: int = 2) -> Codes:
        """Codes [<= frames, groups]."""
        sequence = torch.from_numpy(prompt)
        codes: list[list[int]] = []
        while len(codes) < frames:
            logits, hidden, *_ = self._talker(*_whole_sequence(sequence))
            allowed = [*range(CODEBOOK), EOS] if len(codes) >= min_frames else list(range(CODEBOOK))
            first = max(allowed, key=lambda code: float(logits[0, code]))
            if first == EOS:
                break
            frame = self._other_codes(hidden, first)
            text = trailing[len(codes)] if len(codes) < len(trailing) else pad
            codes.append(frame)
            embedding = torch.stack([table[code] for table, code in zip(self._tables, frame, strict=True)]).sum(0)
            sequence = torch.cat([sequence, (embedding + torch.from_numpy(text))[None]])
        return np.array(codes, np.int16)

    def _other_codes(self, hidden: Tensor, first: int) -> list[int]:
        frame = [first]
        sequence = torch.cat([hidden, self._tables[0][first][None]])
        for codebook, head in enumerate(self._heads, 1):
            last, *_ = self._predictor(*_whole_sequence(sequence))
            frame.append(int(head(last).argmax()))
            sequence = torch.cat([sequence, self._tables[codebook][frame[-1]][None]])
        return frame
