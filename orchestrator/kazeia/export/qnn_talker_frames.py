"""Steps of the talker for the NPU as speaking makes them: one frame at a time, behind a whole prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from kazeia.export.calibration import TalkerSample
from kazeia.export.qnn_cache import StaticCache
from kazeia.export.qnn_quantize import Inputs


def frame_steps(
    module: nn.Module, cache: StaticCache, samples: Callable[[], Iterable[TalkerSample]], chunk: int, every: int
) -> Iterator[Inputs]:
    """Each `every`-th frame of teacher-forced sentences, as a step of one token. A sample is overwritten by the next one.

    Args:
        module: takes what `cache` gives.
        chunk: tokens that are taken at once on the way there.
    """
    for sample in samples():
        cache.clear()
        embeds = torch.from_numpy(sample.embeds)[: cache.past]
        for frame in range(sample.prompt_tokens, len(embeds), every):
            _advance(module, cache, embeds[cache.used : frame], chunk)
            yield cache.inputs(embeds[frame : frame + 1], 1)


def _advance(module: nn.Module, cache: StaticCache, embeds: Tensor, chunk: int) -> None:
    """Take `embeds` `[rows, D]` into the cache."""
    for first in range(0, len(embeds), chunk):
        rows = embeds[first : first + chunk]
        with torch.no_grad():
            _, _, new_k, new_v = module(*cache.inputs(rows, chunk))
        cache.append(new_k, new_v, len(rows))
