"""What the code predictor's programs for the NPU are calibrated on: recorded frames, as the programs take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import embedding

from kazeia.checkpoint import Checkpoint
from kazeia.export.calibration import PredictorSample
from kazeia.export.qnn_quantize import Inputs

NOISE_RANGE = (-3.14, 22.9)
"""Gumbel noise of the runner's least and largest random word."""

SEED = 0


class PredictorFeeder:
    """Makes inputs of the methods `frame` and `score`. D wide, G codebooks of V codes."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.config.talker_config
        self.groups, self.width = config.num_code_groups, config.hidden_size
        self.codebook = config.code_predictor_config.vocab_size
        self._checkpoint = checkpoint

    def frame_example(self) -> Inputs:
        """Zeros for `Frame.forward`."""
        row = torch.zeros(1, 1, self.width)
        return row, row.clone(), torch.zeros(self.groups - 1, self.codebook), torch.ones(1)

    def score_example(self) -> Inputs:
        """Zeros for `Score.forward`."""
        return (torch.zeros(1, self.groups, self.width),)

    def frames(self, samples: Iterable[PredictorSample], temperature: float, least: float) -> Iterator[Inputs]:
        """Each recorded frame, drawn anew with noise of its own at `temperature`.

        The first sample is seen twice more: with the rarest noise and the `least` temperature, so that all inputs fit the
        ranges, and greedily.
        """
        table = self._checkpoint.tensor("talker.model.codec_embedding.weight")
        generator = torch.Generator().manual_seed(SEED)
        shape = (self.groups - 1, self.codebook)
        for number, sample in enumerate(samples):
            hidden = torch.from_numpy(sample.hidden).view(1, 1, -1)
            code0 = table[int(sample.codes[0])].view(1, 1, -1)
            if number == 0:
                yield hidden, code0, torch.zeros(shape), torch.ones(1)
                extremes = torch.full(shape, NOISE_RANGE[0])
                extremes[:, -1] = NOISE_RANGE[1]
                yield hidden, code0, extremes, torch.tensor([1.0 / least])
            yield hidden, code0, gumbel(shape, generator), torch.tensor([1.0 / temperature])

    def sequences(self, samples: Iterable[PredictorSample]) -> Iterator[Inputs]:
        """Hidden state and embeddings of all codes but the last, of each recorded frame."""
        names = ["talker.model.codec_embedding.weight"]
        names += [f"talker.code_predictor.model.codec_embedding.{step}.weight" for step in range(self.groups - 2)]
        tables = [self._checkpoint.tensor(name) for name in names]
        for sample in samples:
            codes = torch.from_numpy(sample.codes.astype("int64"))
            rows = [embedding(code, table) for code, table in zip(codes[:-1], tables, strict=True)]
            yield (torch.stack([torch.from_numpy(sample.hidden), *rows])[None],)


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise within `NOISE_RANGE`."""
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64).clamp(2.0**-33, 1.0 - 2.0**-33)
    return (-torch.log(-torch.log(uniform))).float()
