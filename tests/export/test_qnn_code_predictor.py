"""The code predictor for the NPU: a frame in one call and steps, against the reference and in Qualcomm's emulator."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.export.calibration import PredictorSample
from kazeia.export.qnn_code_predictor import DROPPED, Frame, Score, frame_spec
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_predictor_samples import NOISE_RANGE, gumbel
from kazeia.export.qnn_program import QnnBuild, build
from kazeia.export.qnn_quantize import Inputs, Recipe
from tests.export.export_oracles import Oracle
from tests.support.npu_programs import npu_predictor

TARGET = QnnTarget("SM8750", for_emulator=True)
TEMPERATURE = 0.9
NEAR = 0.03
"""Scores as near as this may change places in float16, whose logits are exact to a hundredth."""
Drawn = tuple[list[int], torch.Tensor]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Talker and code predictor of different widths, so that there is a projection between them."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny-1.7b", kind="base", seed=1)
    return Checkpoint.open(folder)


def few_groups(checkpoint: Checkpoint, groups: int) -> Checkpoint:
    """The same with fewer codebooks: lowering time grows with them."""
    talker = msgspec.structs.replace(checkpoint.config.talker_config, num_code_groups=groups)
    changed = Checkpoint.open(checkpoint.path)
    changed.config = msgspec.structs.replace(checkpoint.config, talker_config=talker)
    return changed


def recorded(checkpoint: Checkpoint, count: int, seed: int) -> list[PredictorSample]:
    config, draw = checkpoint.config.talker_config, np.random.default_rng(seed)
    return [
        PredictorSample(
            draw.standard_normal(config.hidden_size).astype(np.float32),
            draw.integers(0, config.code_predictor_config.vocab_size, config.num_code_groups).astype(np.int16),
        )
        for _ in range(count)
    ]


def frame_inputs(checkpoint: Checkpoint, count: int) -> list[Inputs]:
    """Frames to draw; the first greedily."""
    config, generator = checkpoint.config.talker_config, torch.Generator().manual_seed(3)
    table = checkpoint.tensor("talker.model.codec_embedding.weight")
    shape = (config.num_code_groups - 1, config.code_predictor_config.vocab_size)
    inputs: list[Inputs] = []
    for number, sample in enumerate(recorded(checkpoint, count, seed=11)):
        hidden, code0 = torch.from_numpy(sample.hidden).view(1, 1, -1), table[int(sample.codes[0])].view(1, 1, -1)
        noise = gumbel(shape, generator) if number else torch.zeros(shape)
        inputs.append((hidden, code0, noise, torch.tensor([1.0 / TEMPERATURE])))
    return inputs


def draw_by_steps(checkpoint: Checkpoint, score: QnnBuild | Score, inputs: Inputs, top_k: int) -> list[int]:
    """What the runner does with the method `score`: its own top-k and draw between the calls."""
    return [codes[0] for codes in rank_by_steps(checkpoint, score, inputs, top_k)]


def rank_by_steps(checkpoint: Checkpoint, score: QnnBuild | Score, inputs: Inputs, top_k: int) -> list[tuple[int, float]]:
    """The code of each step, and how far it is ahead of every other one that may be drawn, or nearly so."""
    hidden, code0, noise, inverse_temperature = inputs
    embeds = torch.zeros(1, len(noise) + 1, hidden.shape[2])
    embeds[0, 0], embeds[0, 1] = hidden[0, 0], code0[0, 0]
    codes: list[tuple[int, float]] = []
    for step, row in enumerate(noise):
        with torch.no_grad():
            scores = score(embeds) if isinstance(score, Score) else score.emulated("score", (embeds,))[0]
        logits = scores[step].double()
        least, sums = logits.topk(top_k).values[-1], logits * inverse_temperature + row
        code = int(torch.where(logits >= least, sums, -torch.inf).argmax())
        others = (logits >= least - NEAR) & (torch.arange(len(logits)) != code)
        codes.append((code, float(sums[code] - torch.where(others, sums, -torch.inf).max())))
        if step + 2 < embeds.shape[1]:
            table = checkpoint.tensor(f"talker.code_predictor.model.codec_embedding.{step}.weight")
            embeds[0, step + 2] = table[code]
    return codes


@torch.no_grad()
@pytest.mark.parametrize("width", [64, 96], ids=["same-width", "projected"])
def test_a_greedy_frame_equals_generate(width: int) -> None:
    oracle = Oracle(hidden_size=width)
    frame = Frame(oracle.config, oracle.tensor, top_k=8).eval()
    start = torch.randn(1, 2, width)
    want = oracle.talker.code_predictor.generate(inputs_embeds=start, max_new_tokens=15, do_sample=False)[0].tolist()
    codes, embedding_sum = frame(start[:, :1], start[:, 1:], torch.zeros(15, 64), torch.ones(1))
    assert codes[0].tolist() == want
    names = [f"talker.code_predictor.model.codec_embedding.{step}.weight" for step in range(15)]
    rows = [oracle.tensor(name)[code] for name, code in zip(names, want, strict=True)]
    torch.testing.assert_close(embedding_sum[0, 0], torch.stack([start[0, 1], *rows]).sum(0))


@torch.no_grad()
def test_frame_and_steps_draw_the_same_codes(checkpoint: Checkpoint) -> None:
    config = checkpoint.config.talker_config
    score = Score(config, checkpoint.tensor).eval()
    for top_k in (1, 5, 128):
        frame = Frame(config, checkpoint.tensor, top_k).eval()
        for inputs in frame_inputs(checkpoint, 4):
            assert frame(*inputs)[0][0].tolist() == draw_by_steps(checkpoint, score, inputs, top_k)


def test_the_best_code_never_falls_below_a_dropped_one() -> None:
    least = -np.log(-np.log(0.5 * 2.0**-32))
    assert DROPPED < NOISE_RANGE[0] < least
    assert -np.log(-np.log1p(-0.5 * 2.0**-32)) < NOISE_RANGE[1]


def test_frame_and_steps_agree_in_the_emulator() -> None:
    _, checkpoint, fused, steps = npu_predictor()
    frame = fused.spec.methods["frame"].module
    top_k = checkpoint.generation.subtalker_top_k
    score = Score(checkpoint.config.talker_config, checkpoint.tensor).eval()
    clear = [
        one for one in frame_inputs(checkpoint, 16) if min(m for _, m in rank_by_steps(checkpoint, score, one, top_k)) > NEAR
    ]
    assert len(clear) >= 4
    for inputs in clear[:4]:
        with torch.no_grad():
            want, want_sum = frame(*inputs)
        codes, embedding_sum = fused.emulated("frame", inputs)
        assert codes.dtype == torch.int32
        assert codes[0].tolist() == want[0].tolist()
        torch.testing.assert_close(embedding_sum, want_sum, atol=0.02, rtol=0)
        assert draw_by_steps(checkpoint, steps, inputs, top_k) == want[0].tolist()


def test_a_quantised_frame_is_lowered_as_it_was_quantised(checkpoint: Checkpoint) -> None:
    few, recipe = few_groups(checkpoint, 3), Recipe("16a8w")
    built = build(frame_spec(few, recipe, lambda: recorded(few, 24, seed=0)), TARGET, recipe)
    for inputs in frame_inputs(few, 8):
        with torch.no_grad():
            want, want_sum = built.graphs["frame"](*inputs)
        codes, embedding_sum = built.emulated("frame", inputs)
        assert codes.tolist() == want.tolist()
        torch.testing.assert_close(embedding_sum, want_sum, atol=0.01, rtol=0)
