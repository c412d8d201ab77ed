"""Frames of recorded sentences as steps of the talker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.export.calibration import TalkerSample
from kazeia.export.layers import DecoderShape
from kazeia.export.qnn_cache import StaticCache
from kazeia.export.qnn_talker import QnnTalker
from kazeia.export.qnn_talker_frames import frame_steps

PAST = 40


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=5)
    return Checkpoint.open(folder)


@pytest.mark.parametrize(("every", "chunk"), [(1, 4), (3, 4), (5, 16)])
@torch.no_grad()
def test_steps_are_those_of_speaking(checkpoint: Checkpoint, every: int, chunk: int) -> None:
    config = checkpoint.config.talker_config
    shape, talker = DecoderShape.of(config), QnnTalker(config, checkpoint.tensor, PAST + 1).eval()
    random = np.random.default_rng(1)
    samples = [
        TalkerSample(random.standard_normal((tokens + frames, 64), np.float32), tokens) for tokens, frames in ((9, 12), (11, 7))
    ]
    cache = StaticCache(shape, PAST)
    steps = frame_steps(talker, cache, lambda: iter(samples), chunk, every)
    wanted = [(sample, frame) for sample in samples for frame in range(sample.prompt_tokens, len(sample.embeds), every)]
    for inputs, (sample, frame) in zip(steps, wanted, strict=True):
        embeds = torch.from_numpy(sample.embeds)
        assert torch.equal(inputs[0][0], embeds[frame : frame + 1])
        assert inputs[1].tolist() == [frame]
        logits, *_ = talker(*inputs)
        whole, *_ = talker(*StaticCache(shape, PAST).inputs(embeds[: frame + 1], frame + 1))
        torch.testing.assert_close(logits, whole, atol=1e-4, rtol=1e-4)
