"""What the training loops share: a learning rate that can be prolonged, and checkpoints that survive a kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

WARM_UP_STEPS = 200
COOL_DOWN_SHARE = 0.25
SAVE_EVERY_S = 120


def learning_rate(step: int, steps: int, peak: float, fall_share: float = COOL_DOWN_SHARE) -> float:
    """Rises, stays, and falls linearly to nothing over the last steps: a run is prolonged by resuming from before its fall."""
    fall = max(1, int(steps * fall_share))
    return peak * min(1.0, (step + 1) / WARM_UP_STEPS, (steps - step) / fall)


def save(state: dict[str, Any], file: Path) -> None:
    partial = file.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, file)


def train(
    model: nn.Module,
    loss_of_batch: Callable[[int], dict[str, Tensor]],
    file: Path,
    *,
    steps: int,
    peak: float,
    fall_share: float = COOL_DOWN_SHARE,
    decay: float = 0.0,
) -> None:
    """Runs AdamW up to step `steps`, from where `file` stands.

    `loss_of_batch(step)` gives named terms whose sum is minimised. The state is saved every two minutes, and once more, as
    `<name>.steady`, before the learning rate begins to fall.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=decay)
    first = 0
    if file.exists():
        state = torch.load(file)
        model.load_state_dict(state["model"])
        if "optimizer" in state:  # a checkpoint that is resumed has none
            optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    shown: dict[str, float] = {}
    saved = time.monotonic()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, peak, fall_share)
        terms = loss_of_batch(step)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for name, term in terms.items():
            shown[name] = 0.98 * shown.get(name, float(term)) + 0.02 * float(term)
        if step % 50 == 0:
            print(f"{time.strftime('%H:%M:%S')} step {step}: " + ", ".join(f"{n} {v:.4f}" for n, v in shown.items()), flush=True)
        last = step + 1 == steps
        falls = step + 1 == steps - int(steps * fall_share)
        if last or falls or time.monotonic() - saved > SAVE_EVERY_S:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            save(state, file)
            if falls:
                save(state, file.with_suffix(".steady"))
            saved = time.monotonic()
