"""What the talker is taught: for every sentence and voice its tokens, its frames, and which token each frame speaks.

A transformer has no memory but what it has said. To go on reading it must find out, from the sounds so far, how far it has come
in the text, and a small one learns that last. So each frame's last two codes say it: which phone it speaks, and how many tokens
the text is ahead of the speech. They are codes like the others, predicted and fed back.
"""

from __future__ import annotations

import re
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
from training.codes import CODEBOOKS, ENTRIES, LAG_CODEBOOK, PHONE_CODEBOOK, Quantizer
from training.teacher import SILENCE
from training.voices import VOICES, spoken_by

LANGUAGES = ("en", "fr")
FULL_STOPS = ".:;"
OPEN_END_SHARE = 0.2
"""Of the lessons have no full stop: not every text that is spoken has one."""
PHONES = ENTRIES // 2
"""Room for the phones of both teachers; 0 is any that their first hundred sentences do not have."""


class Lesson(NamedTuple):
    """codes int16 [F, 16]; words: (first character, frame) where each word begins; phones int16 [F] and which of them is silence;
    voice and language by number."""

    text: str
    words: tuple[tuple[int, float], ...]
    codes: NDArray[np.int16]
    phones: NDArray[np.int16]
    silence: int
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

    def read(self, lesson: Lesson, *, torn: bool, open_end: bool = False) -> tuple[list[int], NDArray[np.float32]]:
        """Tokens, and the frame in which each begins: drawn straight from the beginning of a word to its end.

        With `open_end` the full stop is left out of the text.
        """
        text = lesson.text.rstrip(FULL_STOPS) if open_end else lesson.text
        encoding = self._whole.encode(text, add_special_tokens=False)
        if torn:
            pieces = self._torn.encode(text, add_special_tokens=False)
            encoding = pieces if len(pieces.ids) < len(lesson.codes) else encoding
        places, frames = _anchors(lesson)
        return encoding.ids, np.interp([first for first, _ in encoding.offsets], places, frames).astype(np.float32)


def _anchors(lesson: Lesson) -> tuple[list[int], list[float]]:
    """Characters and their frames: the beginnings of words, and their ends, where a silence may follow."""
    speaks = np.flatnonzero(lesson.phones != lesson.silence)
    last_frame = float(speaks[-1] + 1)
    places: list[int] = []
    frames: list[float] = []
    following = [*lesson.words[1:], (len(lesson.text), last_frame)]
    for (first, begins), (next_first, next_begins) in zip(lesson.words, following, strict=True):
        word = re.sub(r"[\W_]+$", "", lesson.text[first:next_first])
        spoken = speaks[speaks < next_begins - 0.5]
        ends = max(begins, min(next_begins, float(spoken[-1] + 1) if len(spoken) else begins))
        places += [first, first + max(1, len(word))]
        frames += [min(begins, last_frame), min(ends, last_frame)]
    return places, frames


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
                    lesson = Lesson(utterance.text, utterance.words, frames, phones, numbers[name, SILENCE], voice, language)
                    if len(reader.read(lesson, torn=False)[0]) < len(frames):
                        yield lesson


class Batch(NamedTuple):
    """Padded to the longest: S positions from the first text token on, frames + 1.

    tokens [B, S] with -1 past the end; codes [B, S, 16]; starts [B, S] of tokens, in frames; phones [B, S] with -1 past the end;
    spoken [B, S]: the token that each frame speaks; frames, voices and languages [B].
    """

    tokens: Tensor
    codes: Tensor
    starts: Tensor
    phones: Tensor
    spoken: Tensor
    frames: Tensor
    voices: Tensor
    languages: Tensor


def tokens_spoken(starts: NDArray[np.float32], frames: int) -> NDArray[np.int64]:
    """[F]: which token each frame speaks; none before it was read, one a frame."""
    place = np.arange(frames)
    begun = (starts[None] <= place[:, None] + 0.5).sum(1) - 1
    return np.minimum(np.maximum.accumulate(begun.clip(min=0)), place)


def place_codes(spoken: NDArray[np.int64], phones: NDArray[np.int16]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[F] each: tokens read since the one that is spoken; the phone, twice its number, and one more if it goes on."""
    goes_on = np.diff(phones, prepend=-1) == 0
    return (np.arange(len(spoken)) - spoken).clip(0, ENTRIES - 1), 2 * phones.astype(np.int64) + goes_on


def collate(chosen: list[Lesson], reader: Reader, rng: np.random.Generator, torn_share: float) -> Batch:
    """`torn_share` of the lessons are read with merges left out."""
    positions = max(len(lesson.codes) for lesson in chosen) + 1
    tokens = np.full((len(chosen), positions), -1, np.int64)
    starts = np.full((len(chosen), positions), np.inf, np.float32)
    codes = np.zeros((len(chosen), positions, CODEBOOKS), np.int64)
    phones = np.full((len(chosen), positions), -1, np.int64)
    spoken = np.zeros((len(chosen), positions), np.int64)
    for row, lesson in enumerate(chosen):
        torn, open_end = rng.random(2) < (torn_share, OPEN_END_SHARE)
        ids, begins = reader.read(lesson, torn=bool(torn), open_end=bool(open_end))
        tokens[row, : len(ids)], starts[row, : len(ids)] = ids, begins
        count = len(lesson.codes)
        codes[row, :count], phones[row, :count] = lesson.codes, lesson.phones
        spoken[row, :count] = tokens_spoken(begins, count)
        codes[row, :count, LAG_CODEBOOK], codes[row, :count, PHONE_CODEBOOK] = place_codes(spoken[row, :count], lesson.phones)
    columns = zip(*((len(x.codes), x.voice, x.language) for x in chosen), strict=True)
    frames, voices, languages = (torch.tensor(column) for column in columns)
    padded = (torch.from_numpy(array) for array in (tokens, codes, starts, phones, spoken))
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
