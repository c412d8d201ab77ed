"""What the training loops share: the optimizer's two parts and the learning rate."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from training.steps import Optimizer, learning_rate, train


def model() -> nn.Module:
    torch.manual_seed(0)
    parts = {
        "conv": nn.Conv1d(16, 32, 3),
        "depthwise": nn.Conv1d(32, 32, 3, groups=32),
        "linear": nn.Linear(32, 16),
        "head": nn.Linear(16, 64),
        "embedding": nn.Embedding(64, 16),
    }
    return nn.ModuleDict(parts)


def squares(made: nn.Module) -> Tensor:
    return torch.stack([(p - 1).square().mean() for p in made.parameters()]).sum()


def test_inner_matrices_turn_by_the_same_amount_in_every_direction() -> None:
    made = model()
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    optimizer = Optimizer(made, 0.1)
    squares(made).backward()
    optimizer.step(0.01)
    spread = {}
    for name in ("conv.weight", "linear.weight", "head.weight", "embedding.weight"):
        singular = torch.linalg.svdvals((made.get_parameter(name) - before[name]).flatten(1))
        spread[name] = float(singular[0] / singular[-1])
    assert max(spread["conv.weight"], spread["linear.weight"]) < 3
    assert min(spread["head.weight"], spread["embedding.weight"]) > 3
    assert all(not torch.equal(p, before[name]) for name, p in made.named_parameters())


def test_steps_go_downhill_and_a_resumed_run_ends_where_one_run_does(tmp_path: Path) -> None:
    whole, parts = model(), model()
    start = float(squares(whole))
    train(whole, lambda step: {"squares": squares(whole)}, tmp_path / "whole.pt", steps=40, peak=0.02)
    for steps in (17, 40):  # the rate only depends on the step while it warms up
        train(parts, lambda step: {"squares": squares(parts)}, tmp_path / "parts.pt", steps=steps, peak=0.02, fall_share=0)
    again = model()
    train(again, lambda step: {"squares": squares(again)}, tmp_path / "again.pt", steps=40, peak=0.02, fall_share=0)
    assert float(squares(whole)) < start
    for found, wanted in zip(parts.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("step", "rate"), [(0, 0.005), (199, 1.0), (500, 1.0), (750, 1.0), (875, 0.5), (999, 0.004)])
def test_the_learning_rate_rises_stays_and_falls(step: int, rate: float) -> None:
    assert learning_rate(step, 1000, 1.0) == pytest.approx(rate)
