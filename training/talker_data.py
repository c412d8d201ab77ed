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
from training.rhythm import TAIL_FRAMES
from training.voices import VOICES, spoken_by

LANGUAGES = ("en", "fr")
PHONES = 128
"""Room for the phones of both teachers; 0 is any that their first hundred sentences do not have."""


class Lesson(NamedTuple):
    """codes int16 [F, 16]; words: (first character, frame) where each word begins; phones int16 [F]; voice and language by
    number."""

    text: str
    words: tuple[tuple[int, float], ...]
    codes: NDArray[np.int16]
    phones: NDArray[np.int16]
    voice: int
    language: int


class Reader:
    """Tokenises lessons.

    With `dropout`, merges are left out at random (BPE-dropout, Provilkov et al. 2020), so that a word is seen in many cuts and
    rare tokens are understood through their parts.
    """

    def __init__(self, work: Path, dropout: float = 0.0) -> None:
        self._whole: tokenizers.Tokenizer = build_tokenizer(work / "tokenizer")
        self._torn: tokenizers.Tokenizer = build_tokenizer(work / "tokenizer")
        self._torn.model.dropout = dropout or None

    def read(self, lesson: Lesson, *, torn: bool) -> tuple[list[int], NDArray[np.float32]]:
        """Tokens, and the frame in which each begins: drawn straight between the beginnings of words."""
        encoding = self._whole.encode(lesson.text, add_special_tokens=False)
        if torn:
            pieces = self._torn.encode(lesson.text, add_special_tokens=False)
            encoding = pieces if len(pieces.ids) < len(lesson.codes) else encoding
        end = len(lesson.codes) - TAIL_FRAMES
        places = [place for place, _ in lesson.words] + [len(lesson.text)]
        frames = [min(frame, end) for _, frame in lesson.words] + [end]
        return encoding.ids, np.interp([first for first, _ in encoding.offsets], places, frames).astype(np.float32)


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


def phone_numbers(work: Path) -> dict[tuple[str, str], int]:
    """Of (language, phone), from 1 on."""
    known = {(lang, p) for lang in LANGUAGES for u in features.load(features.files(work, lang, "train")[0]) for p in u.phones}
    return {phone: number for number, phone in enumerate(sorted(known)[: PHONES - 1], 1)}


def lessons(work: Path, part: str) -> Iterator[Lesson]:
    """All lessons of "train" or "heldout"; a sentence that is over before its text has been read in is left out."""
    quantizer, reader = Quantizer.load(work / "codes.npz"), Reader(work)
    (work / "codes").mkdir(exist_ok=True)
    numbers = phone_numbers(work)
    for language, name in enumerate(LANGUAGES):
        for file in features.files(work, name, part):
            codes = _encoded(file, quantizer, work / "codes" / f"{file.stem}.npy")
            start = 0
            for utterance in features.load(file):
                phones = np.array([numbers.get((name, phone), 0) for phone in utterance.phones], np.int16)
                for voice in range(len(VOICES)):
                    frames = codes[start : start + utterance.features.frames]
                    start += len(frames)
                    lesson = Lesson(utterance.text, utterance.words, frames, phones, voice, language)
                    if len(reader.read(lesson, torn=False)[0]) < len(frames):
                        yield lesson


class Batch(NamedTuple):
    """Padded to the longest: tokens [B, S] with -1 past the end; codes [B, S, 16]; starts [B, S]; phones [B, S] with -1 past the
    end; frames, voices and languages [B]. S is the number of positions from the first text token on: frames + 1."""

    tokens: Tensor
    codes: Tensor
    starts: Tensor
    phones: Tensor
    frames: Tensor
    voices: Tensor
    languages: Tensor


def collate(chosen: list[Lesson], reader: Reader, rng: np.random.Generator, torn_share: float) -> Batch:
    """`torn_share` of the lessons are read with merges left out."""
    positions = max(len(lesson.codes) for lesson in chosen) + 1
    tokens = np.full((len(chosen), positions), -1, np.int64)
    starts = np.full((len(chosen), positions), np.inf, np.float32)
    codes = np.zeros((len(chosen), positions, CODEBOOKS), np.int64)
    phones = np.full((len(chosen), positions), -1, np.int64)
    for row, lesson in enumerate(chosen):
        ids, begins = reader.read(lesson, torn=bool(rng.random() < torn_share))
        tokens[row, : len(ids)] = ids
        starts[row, : len(ids)] = begins
        codes[row, : len(lesson.codes)] = lesson.codes
        phones[row, : len(lesson.codes)] = lesson.phones
    columns = zip(*((len(x.codes), x.voice, x.language) for x in chosen), strict=True)
    frames, voices, languages = (torch.tensor(column) for column in columns)
    padded = (torch.from_numpy(array) for array in (tokens, codes, starts, phones))
    return Batch(*(*padded, frames, voices, languages))


class Batches:
    """Batches of lessons of like length, in an order that the step alone decides."""

    def __init__(self, lessons: list[Lesson], reader: Reader, positions: int, torn_share: float, seed: int) -> None:
        self._lessons = sorted(lessons, key=lambda lesson: len(lesson.codes))
        self._ends = np.cumsum([len(lesson.codes) + 1 for lesson in self._lessons])
        self._reader, self._positions, self._torn_share, self._seed = reader, positions, torn_share, seed

    def __getitem__(self, step: int) -> Batch:
        rng = np.random.default_rng([self._seed, step])
        middle = int(np.searchsorted(self._ends, rng.integers(self._ends[-1])))
        count = max(4, self._positions // (len(self._lessons[middle].codes) + 1))
        near = range(max(0, middle - 8 * count), min(len(self._lessons), middle + 8 * count))
        chosen = [self._lessons[i] for i in rng.choice(near, min(count, len(near)), replace=False)]
        return collate(chosen, self._reader, rng, self._torn_share)
