"""What the teachers said, as features: one file for every hundred sentences, made once and kept.

usage: python -m training.features WORK [--sentences N] [--processes P]
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from training.rhythm import paced
from training.teacher import TEACHERS, Recording
from training.vocoder import HOPS_PER_FRAME, Features, analyse

CHUNK = 100
LOUDNESS = -2.3  # mean natural log of amplitude over the hops that sound: about -23 dBFS
QUIET = 3.5  # natural log of amplitude below the loudest hop that counts as silence


AnyArray: TypeAlias = NDArray[Any]


class Utterance(NamedTuple):
    """A sentence, its features, where its words begin (first character, frame as a fraction), and the phone of each frame."""

    text: str
    features: Features
    words: tuple[tuple[int, float], ...]
    phones: tuple[str, ...]


def levelled(features: Features) -> Features:
    """At one loudness."""
    level = np.log(np.sqrt(np.exp(2 * features.envelope.astype(np.float64)).mean(1)))
    gain = LOUDNESS - level[level > level.max() - QUIET].mean()
    return features._replace(envelope=(features.envelope + gain).astype(np.float32))


def utterance(recording: Recording) -> Utterance:
    """The recording at one loudness and in the codec's rhythm."""
    said = paced(levelled(analyse(recording.samples)), recording.phones)
    words = tuple((place, said.frame_at(start)) for place, start in recording.words)
    return Utterance(recording.text, said.features, words, said.phones)


def _packed(parts: list[AnyArray]) -> AnyArray:
    whole = np.concatenate(parts)
    return whole.astype(np.float16) if whole.dtype == np.float32 else whole


def _unpacked(part: AnyArray) -> AnyArray:
    return part.astype(np.float32) if part.dtype == np.float16 else part


def _make(language: str, sentences: list[str], target: Path) -> int:
    utterances = [utterance(recording) for recording in TEACHERS[language](sentences)]
    described = [{"text": u.text, "words": u.words, "phones": u.phones} for u in utterances]
    arrays = {name: _packed([getattr(u.features, name) for u in utterances]) for name in Features._fields}
    partial = target.with_suffix(".partial.npz")
    arrays["utterances"] = np.frombuffer(json.dumps(described).encode(), np.uint8)
    np.savez(partial, allow_pickle=False, **arrays)
    partial.rename(target)
    return sum(u.features.frames for u in utterances)


def load(file: Path) -> Iterator[Utterance]:
    """The utterances of one features file."""
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in Features._fields}
        start = 0
        for described in json.loads(stored["utterances"].tobytes()):
            stop = start + len(described["phones"]) * HOPS_PER_FRAME
            part = {name: _unpacked(a[start:stop]) for name, a in arrays.items()}
            words = tuple((int(p), float(t)) for p, t in described["words"])
            yield Utterance(described["text"], Features(**part), words, tuple(described["phones"]))
            start = stop


def files(work: Path, language: str, part: str) -> list[Path]:
    return sorted(f for f in (work / "features").glob(f"{language}.{part}.*.npz") if ".partial" not in f.name)


def heldout(work: Path, language: str, count: int) -> list[Utterance]:
    """The first `count` sentences that training never sees."""
    return list(itertools.islice(itertools.chain.from_iterable(map(load, files(work, language, "heldout"))), count))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--sentences", type=int, default=5000, help="of each language")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    (options.work / "features").mkdir(parents=True, exist_ok=True)
    jobs: list[list[tuple[str, list[str], Path]]] = []
    for part, language in itertools.product(("heldout", "train"), ("en", "fr")):
        lines = (options.work / f"text/{language}.{part}.txt").read_text("utf-8").splitlines()[: options.sentences]
        chunks = [lines[i : i + CHUNK] for i in range(0, len(lines), CHUNK)]
        jobs.append([(language, c, options.work / f"features/{language}.{part}.{i:04d}.npz") for i, c in enumerate(chunks)])
    # languages alternate, so that whatever is there when the next stage begins is balanced
    ordered = [job for pair in (jobs[:2], jobs[2:]) for row in itertools.zip_longest(*pair) for job in row if job]
    missing = [job for job in ordered if not job[2].exists()]
    with ProcessPoolExecutor(options.processes) as pool:
        done = 0.0
        for index, frames in enumerate(pool.map(_make, *zip(*missing, strict=True)), 1):
            done += frames * 0.08
            print(f"{index} of {len(missing)} files, {done / 3600:.2f} hours of speech", flush=True)


if __name__ == "__main__":
    main()
