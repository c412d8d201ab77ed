"""Codes without a learned encoder: residual k-means over 80 ms frames of the vocoder's features.

usage: python -m training.codes WORK [--files N]

Codebook 0 is the coarse shape of the frame, codebook 1 its number of pitch periods as it is, codebooks 2 to 13 refine the shape.
Codebooks 14 and 15 make no sound: they tell the talker, through its own last frame, where in the text it is (see talker_data.py).
Fits WORK/codes.npz, if it is not there, and prints the error left after each codebook, on held-out sentences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training import features
from training.vocoder import BANDS, HOPS_PER_FRAME, NOISE_EDGES_HZ, Features, periods
from training.voices import VOICES, spoken_by

CODEBOOKS = 16
ENTRIES = 256
WIDTH = 128
PERIODS_CODEBOOK = 1
SOUNDING_CODEBOOKS = 14
PHONE_CODEBOOK, LAG_CODEBOOK = 14, 15
SILENCE = -8.7  # natural log of amplitude: nothing below it is worth a code
NOISE_WEIGHT, VOICED_WEIGHT = 1.5, 2.5  # against one neper of one band
FITTED_FRAMES = 80_000
ROUNDS = 25
SHAPE_CODEBOOKS = tuple(i for i in range(SOUNDING_CODEBOOKS) if i != PERIODS_CODEBOOK)

Array = NDArray[np.float32]


def vectors(f: Features) -> Array:
    """[F, 8 * (64 + 3 + 1)]: the frames of `f` as weighted vectors."""
    columns = [np.maximum(f.envelope, SILENCE), NOISE_WEIGHT * f.noise * f.voiced[:, None], VOICED_WEIGHT * f.voiced[:, None]]
    return np.concatenate(columns, 1).astype(np.float32).reshape(f.frames, -1)


def _nearest(x: Array, entries: Array) -> NDArray[np.int64]:
    half_norms = 0.5 * (entries**2).sum(1)
    parts = np.array_split(x, max(1, len(x) // 8192))
    nearest: NDArray[np.int64] = np.concatenate([(half_norms - part @ entries.T).argmin(1) for part in parts])
    return nearest


def _k_means(x: Array, count: int, rounds: int, rng: np.random.Generator) -> Array:
    entries: Array = x[rng.choice(len(x), count, replace=False)].copy()
    for _ in range(rounds):
        nearest = _nearest(x, entries)
        sizes = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(entries)
        np.add.at(sums, nearest, x)
        means = sums / np.maximum(sizes, 1)[:, None]
        entries = np.where(sizes[:, None] > 0, means, x[rng.choice(len(x), count)]).astype(np.float32)
    return entries


@dataclass(frozen=True)
class Quantizer:
    """mean [M] and basis [M, 128] of the principal components; entries [13, 256, 128] of the shape's codebooks."""

    mean: Array
    basis: Array
    entries: Array

    @staticmethod
    def fit(frames: Array, rounds: int = ROUNDS) -> Quantizer:
        rng = np.random.default_rng(0)
        mean = frames.mean(0)
        _, directions = np.linalg.eigh(np.cov((frames - mean).T))
        basis = directions[:, ::-1][:, :WIDTH].astype(np.float32)
        rest: Array = (frames - mean) @ basis
        books = []
        for _ in SHAPE_CODEBOOKS:
            books.append(_k_means(rest, ENTRIES, rounds, rng))
            rest = (rest - books[-1][_nearest(rest, books[-1])]).astype(np.float32)
        return Quantizer(mean, basis, np.stack(books))

    def encode(self, f: Features) -> NDArray[np.int16]:
        """Codes [F, 16] of `f`, zero where nothing sounds."""
        codes = np.zeros((f.frames, CODEBOOKS), np.int16)
        codes[:, PERIODS_CODEBOOK] = periods(f)
        rest = ((vectors(f) - self.mean) @ self.basis).astype(np.float32)
        for codebook, entries in zip(SHAPE_CODEBOOKS, self.entries, strict=True):
            codes[:, codebook] = _nearest(rest, entries)
            rest = rest - entries[codes[:, codebook]]
        return codes

    def decode(self, codes: NDArray[np.int16], codebooks: int = CODEBOOKS) -> Features:
        """The features that `codes` [F, 16] stand for, with the shape of the first `codebooks` only."""
        shape = sum(e[codes[:, c]] for c, e in zip(SHAPE_CODEBOOKS, self.entries, strict=True) if c < codebooks)
        hops = (shape @ self.basis.T + self.mean).reshape(len(codes) * HOPS_PER_FRAME, -1)
        noise_end = BANDS + len(NOISE_EDGES_HZ)
        voiced = hops[:, noise_end] > VOICED_WEIGHT / 2
        pitch = np.repeat(codes[:, PERIODS_CODEBOOK] * 12.5, HOPS_PER_FRAME).astype(np.float32)
        return Features(hops[:, :BANDS], (hops[:, BANDS:noise_end] / NOISE_WEIGHT).clip(0, 1), voiced & (pitch > 0), pitch)

    def scaled_entries(self) -> Array:
        """The entries in units of the first codebook's spread, as the models meet them."""
        return np.asarray(self.entries / self.entries[0].std(), np.float32)

    def save(self, file: Path) -> None:
        np.savez(file, mean=self.mean, basis=self.basis, entries=self.entries)

    @staticmethod
    def load(file: Path) -> Quantizer:
        with np.load(file) as stored:
            return Quantizer(*(stored[name].astype(np.float32) for name in ("mean", "basis", "entries")))


def everyone(work: Path, part: str, files: int) -> Iterator[Features]:
    """The features of `files` files of each language, in every voice."""
    for language in ("en", "fr"):
        for file in features.files(work, language, part)[:files]:
            for utterance in features.load(file):
                for voice in VOICES:
                    yield spoken_by(voice, language, utterance.features)


def envelope_error(quantizer: Quantizer, heard: list[Features], codebooks: int) -> float:
    """Root mean square error of the envelope in dB, over hops that sound."""
    squares = []
    for f in heard:
        found = quantizer.decode(quantizer.encode(f), codebooks).envelope
        loud = f.envelope.mean(1) > SILENCE + 1
        squares.append(((found - np.maximum(f.envelope, SILENCE))[loud] ** 2).mean())
    return float(np.sqrt(np.mean(squares)) * 20 / np.log(10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--files", type=int, default=10, help="of each language")
    options = parser.parse_args()
    file = options.work / "codes.npz"
    if not file.exists():  # everything after this stage is of these codes
        frames = np.concatenate([vectors(f) for f in everyone(options.work, "train", options.files)])
        chosen = np.random.default_rng(0).permutation(len(frames))[:FITTED_FRAMES]
        Quantizer.fit(frames[chosen]).save(file)
    quantizer = Quantizer.load(file)
    heldout = list(everyone(options.work, "heldout", 1))[:200]
    for codebooks in (1, 3, 5, 9, SOUNDING_CODEBOOKS):
        print(f"{codebooks:2} codebooks: {envelope_error(quantizer, heldout, codebooks):.2f} dB")


if __name__ == "__main__":
    main()
