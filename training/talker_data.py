"""What the talker is taught: for every sentence and voice its tokens, its frames, and which token each frame speaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

from kazeia.tokenizer import build_tokenizer
from training import features
from training.codes import CODEBOOKS, Quantizer
from training.voices import VOICES, spoken_by

LANGUAGES = ("en", "fr")
TAIL_FRAMES = 2.0
"""Silence at the end of an utterance, in which no token is spoken."""


class Lesson(NamedTuple):
    """tokens [N]; codes int16 [F, 16]; starts float32 [N]: the frame in which each token begins; voice and language by number."""

    text: str
    tokens: NDArray[np.int64]
    codes: NDArray[np.int16]
    starts: NDArray[np.float32]
    voice: int
    language: int


def token_starts(offsets: list[tuple[int, int]], utterance: features.Utterance) -> NDArray[np.float32]:
    """The frame in which each token begins: drawn straight between the beginnings of words."""
    end = utterance.features.frames - TAIL_FRAMES
    places = [place for place, _ in utterance.words] + [len(utterance.text)]
    frames = [min(frame, end) for _, frame in utterance.words] + [end]
    return np.interp([first for first, _ in offsets], places, frames).astype(np.float32)


def _encoded(file: Path, quantizer: Quantizer, kept: Path) -> NDArray[np.int16]:
    """Codes of all utterances of a features file, voice by voice within each; made once."""
    if not kept.exists():
        language = LANGUAGES[0] if file.name.startswith("en") else LANGUAGES[1]
        codes = [quantizer.encode(spoken_by(voice, language, u.features)) for u in features.load(file) for voice in VOICES]
        partial = kept.with_suffix(".partial.npy")
        np.save(partial, np.concatenate(codes))
        partial.rename(kept)
    stored: NDArray[np.int16] = np.load(kept)
    return stored


def lessons(work: Path, part: str) -> Iterator[Lesson]:
    """All lessons of "train" or "heldout"; a sentence that is over before its text has been read in is left out."""
    quantizer = Quantizer.load(work / "codes.npz")
    tokenizer: tokenizers.Tokenizer = build_tokenizer(work / "tokenizer")
    (work / "codes").mkdir(exist_ok=True)
    for language, name in enumerate(LANGUAGES):
        for file in features.files(work, name, part):
            codes = _encoded(file, quantizer, work / "codes" / f"{file.stem}.npy")
            start = 0
            for utterance in features.load(file):
                encoding = tokenizer.encode(utterance.text, add_special_tokens=False)
                starts = token_starts(encoding.offsets, utterance)
                for voice in range(len(VOICES)):
                    frames = codes[start : start + utterance.features.frames]
                    start += len(frames)
                    if len(encoding.ids) < len(frames):
                        yield Lesson(utterance.text, np.array(encoding.ids), frames, starts, voice, language)


class Batch(NamedTuple):
    """Padded to the longest: tokens [B, S] with -1 past the end; codes [B, S, 16]; frames [B]; starts [B, S]; voices [B];
    languages [B]. S is the number of positions from the first text token on: frames + 1."""

    tokens: Tensor
    codes: Tensor
    frames: Tensor
    starts: Tensor
    voices: Tensor
    languages: Tensor


def collate(chosen: list[Lesson]) -> Batch:
    positions = max(len(lesson.codes) for lesson in chosen) + 1
    tokens = np.full((len(chosen), positions), -1, np.int64)
    starts = np.full((len(chosen), positions), np.inf, np.float32)
    codes = np.zeros((len(chosen), positions, CODEBOOKS), np.int64)
    for row, lesson in enumerate(chosen):
        tokens[row, : len(lesson.tokens)] = lesson.tokens
        starts[row, : len(lesson.tokens)] = lesson.starts
        codes[row, : len(lesson.codes)] = lesson.codes
    numbers = [torch.tensor(column) for column in zip(*((len(x.codes), x.voice, x.language) for x in chosen), strict=True)]
    return Batch(torch.from_numpy(tokens), torch.from_numpy(codes), numbers[0], torch.from_numpy(starts), numbers[1], numbers[2])


class Batches:
    """Batches of lessons of like length, in an order that the step alone decides."""

    def __init__(self, lessons: list[Lesson], positions: int, seed: int) -> None:
        self._lessons = sorted(lessons, key=lambda lesson: len(lesson.codes))
        self._ends = np.cumsum([len(lesson.codes) + 1 for lesson in self._lessons])
        self._positions, self._seed = positions, seed

    def __getitem__(self, step: int) -> Batch:
        rng = np.random.default_rng([self._seed, step])
        middle = int(np.searchsorted(self._ends, rng.integers(self._ends[-1])))
        count = max(4, self._positions // (len(self._lessons[middle].codes) + 1))
        near = range(max(0, middle - 8 * count), min(len(self._lessons), middle + 8 * count))
        return collate([self._lessons[i] for i in rng.choice(near, min(count, len(near)), replace=False)])
