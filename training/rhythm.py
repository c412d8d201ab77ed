"""Speech in the codec's own rhythm: every phone lasts a whole number of 80 ms frames.

A frame that begins anywhere in a phone has as many shapes as there are places to begin, and a small talker would have to learn
them all. English and French are spoken at about one phone a frame; so each phone is stretched or shortened to the nearest number
of frames, at least one, and a frame becomes a phone among its neighbours.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.teacher import SILENCE, Phone
from training.vocoder import FRAME_SAMPLES, HOP_SAMPLES, HOPS_PER_FRAME, SAMPLE_RATE, Features

FRAME_S, HOPS_PER_SECOND = FRAME_SAMPLES / SAMPLE_RATE, SAMPLE_RATE / HOP_SAMPLES
SHORTEST_S = 0.015
"""A phone that is over sooner is heard as part of the next one."""
LEAD_FRAMES, TAIL_FRAMES = 1, 2


class Paced(NamedTuple):
    """Features in whole frames a phone; phones: of each frame; places: (second before, frame after) that correspond."""

    features: Features
    phones: tuple[str, ...]
    places: tuple[tuple[float, float], ...]

    def frame_at(self, second: float) -> float:
        """Where what was heard at `second` is heard now."""
        before, after = zip(*self.places, strict=True)
        return float(np.interp(second, before, after))


def joined(phones: tuple[Phone, ...]) -> list[Phone]:
    """Without phones too short to be heard, and with one silence where there were several."""
    kept: list[Phone] = []
    start: float | None = None
    for phone, following in itertools.pairwise([*phones, Phone(SILENCE, np.inf)]):
        start = phone.start if start is None else start
        if following.start - start < SHORTEST_S:
            continue  # what follows takes its time
        if not (kept and kept[-1].name == phone.name == SILENCE):
            kept.append(Phone(phone.name, start))
        start = None
    return kept


def paced(features: Features, phones: tuple[Phone, ...]) -> Paced:
    """`features` in the new rhythm, with one frame of silence before the first phone and two after the last."""
    heard = joined(phones)
    while heard and heard[0].name == SILENCE:
        heard.pop(0)
    ends = [p.start for p in heard[1:]] + [len(features.envelope) / HOPS_PER_SECOND]
    if heard[-1].name == SILENCE:
        heard.pop()
        ends.pop()
    spans = [(SILENCE, heard[0].start - LEAD_FRAMES * FRAME_S, heard[0].start, LEAD_FRAMES)]
    for phone, end in zip(heard, ends, strict=True):
        spans.append((phone.name, phone.start, end, max(1, round((end - phone.start) / FRAME_S))))
    spans.append((SILENCE, ends[-1], ends[-1] + TAIL_FRAMES * FRAME_S, TAIL_FRAMES))
    source = np.concatenate([_hops(start, end, count) for _, start, end, count in spans])
    frames = np.cumsum([0, *(count for *_, count in spans)])
    places = [(start, float(frame)) for (_, start, _, _), frame in zip(spans, frames, strict=False)]
    names = tuple(name for name, *_, count in spans for _ in range(count))
    return Paced(_read(features, source), names, (*places, (spans[-1][2], float(frames[-1]))))


def _hops(start: float, end: float, frames: int) -> NDArray[np.float64]:
    """The places, in hops of the original, of the hops of a phone that is to last `frames`."""
    count = frames * HOPS_PER_FRAME
    hops: NDArray[np.float64] = (start + (np.arange(count) + 0.5) / count * (end - start)) * HOPS_PER_SECOND - 0.5
    return hops


def _read(features: Features, places: NDArray[np.float64]) -> Features:
    places = places.clip(0, len(features.envelope) - 1)
    low = np.floor(places).astype(int).clip(0, len(features.envelope) - 2)
    share = (places - low).astype(np.float32)[:, None]

    def between(x: NDArray[np.float32]) -> NDArray[np.float32]:
        mixed: NDArray[np.float32] = x[low] * (1 - share) + x[low + 1] * share
        return mixed

    pitch = between(features.pitch_hz[:, None])[:, 0]
    return Features(between(features.envelope), between(features.noise), features.voiced[np.round(places).astype(int)], pitch)
