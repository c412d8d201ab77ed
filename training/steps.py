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
BETAS = (0.9, 0.98)
LEAST_MATRIX = 16
"""Rows and columns of a weight that is worth making orthogonal."""
LOOKED_UP = ("embedding", "entries", "head", "probe")
"""In names of weights whose rows stand for codes or tokens: they are learnt a row at a time."""
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


class Optimizer:
    """Muon for the matrices inside a model and AdamW for the rest, at one learning rate.

    Convolution kernels count as matrices of the first dimension by all others. Jordan et al., "Muon" (2024); its steps are scaled
    as AdamW's are (Liu et al., "Muon is scalable for LLM training", 2025).
    """

    def __init__(self, model: nn.Module, rate: float, decay: float = 0.0) -> None:
        named = dict(model.named_parameters())
        self._whole = [p for name, p in named.items() if _is_inner_matrix(name, p)]
        self._flat = [nn.Parameter(p.data.flatten(1)) for p in self._whole]  # share their memory
        inner = {id(p) for p in self._whole}
        others = [p for p in named.values() if id(p) not in inner]
        self.parts: list[torch.optim.Optimizer] = [torch.optim.AdamW(others, lr=rate, betas=BETAS, weight_decay=decay)]
        if self._flat:
            self.parts.append(torch.optim.Muon(self._flat, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"))

    def step(self, rate: float) -> None:
        for whole, flat in zip(self._whole, self._flat, strict=True):
            flat.grad = None if whole.grad is None else whole.grad.flatten(1)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()

    def state_dict(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def _is_inner_matrix(name: str, parameter: nn.Parameter) -> bool:
    if not parameter.requires_grad or parameter.ndim < 2 or any(word in name for word in LOOKED_UP):
        return False
    return min(parameter.flatten(1).shape) >= LEAST_MATRIX


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
    """Runs Muon and AdamW up to step `steps`, from where `file` stands.

    `loss_of_batch(step)` gives named terms whose sum is minimised. The state is saved every two minutes, and once more, as
    `<name>.steady`, before the learning rate begins to fall.
    """
    optimizer = Optimizer(model, peak, decay)
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
        terms = loss_of_batch(step)
        model.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(learning_rate(step, steps, peak, fall_share))
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
