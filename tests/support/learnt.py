"""A tiny checkpoint that has learnt one utterance by heart.

The best two scores of a random model are often nearer than float16 resolves, so that it may well choose another code than float32
and then says something else. A trained model is sure of its choices; this one, too, and still every code depends on all that came
before it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from kazeia.benchmark import random_prompt
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.layout import main_layout
from kazeia.checkpoint.official import WEIGHTS
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.checkpoint.safetensors_file import write_tensors
from kazeia.export.description import describe_model
from kazeia.export.options import ExportOptions
from training.talker_model import Talker

FRAMES = 40
SEED, LEARNING_RATE, MOST_STEPS = 1, 2e-3, 2000
SURE = 2.0
"""The least distance of a frame's code from the next best, in logits."""


def write_learnt_checkpoint(folder: Path) -> NDArray[np.int64]:
    """Of size tiny and kind base; returns the codes [40, 16] that it says after `random_prompt`."""
    write_random_checkpoint(folder, size="tiny", kind="base", seed=SEED)
    checkpoint = Checkpoint.open(folder)
    talker = Talker(checkpoint.config.talker_config)
    names = {f"talker.{name}": name for name in talker.state_dict()}
    talker.load_state_dict({name: checkpoint.tensor(full) for full, name in names.items()})
    prompt = random_prompt(describe_model(checkpoint, ExportOptions()))
    codes = torch.from_numpy(np.random.default_rng(SEED).integers(0, len(talker.code_predictor.lm_head[0].weight), (FRAMES, 16)))
    _learn(talker, torch.from_numpy(prompt.embeddings), torch.from_numpy(prompt.pad), codes)
    learnt = {full: talker.state_dict()[name].numpy() for full, name in names.items()}
    tensors = {name: learnt.get(name, checkpoint.array(name)) for name in main_layout(checkpoint.config)}
    with (folder / WEIGHTS).open("wb") as file:
        write_tensors(file, {name: value.shape for name, value in tensors.items()}, "BF16", lambda name: [tensors[name]])
    return codes.numpy()


def _learn(talker: Talker, prompt: Tensor, pad: Tensor, codes: Tensor) -> None:
    """Until every code is ahead of all others by `SURE`."""
    optimizer = torch.optim.Adam(talker.parameters(), lr=LEARNING_RATE)
    for _ in range(MOST_STEPS):
        embedded = talker.embedded_codes(codes)
        hidden = talker.model(torch.cat([prompt, embedded[:-1].sum(1) + pad])[None])[0, len(prompt) - 1 :]
        first = hidden @ talker.codec_head.weight.T
        others = talker.code_predictor(hidden, embedded[:, :-1]).flatten(0, 1)
        if min(_lead(first, codes[:, 0]), _lead(others, codes[:, 1:].flatten())) > SURE:
            return
        optimizer.zero_grad()
        (F.cross_entropy(first, codes[:, 0]) + F.cross_entropy(others, codes[:, 1:].flatten())).backward()
        optimizer.step()
    raise AssertionError("the tiny model did not learn its utterance")


def _lead(logits: Tensor, codes: Tensor) -> float:
    """The least distance of the scores of `codes` from the best other one."""
    mine = logits.gather(1, codes[:, None])
    return float((mine - logits.scatter(1, codes[:, None], -torch.inf).amax(1, keepdim=True)).min())
