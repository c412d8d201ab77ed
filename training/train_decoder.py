"""Trains the speech decoder from codes to the vocoder's waveform.

usage: python -m training.train_decoder WORK front|whole [--steps N] [--files N] [--threads N] [--eager]

The waveform is a function of the codes (see vocoder.py), so samples are compared directly: first at 400 Hz (see
decoder_start.py), then all through, where spectra take care of what is quiet (see decoder_losses.py).
Resumes where WORK/decoder_front.pt or WORK/decoder.pt stands.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training import features
from training.codes import PERIODS_CODEBOOK, SHAPE_CODEBOOKS, Quantizer
from training.decoder_losses import losses
from training.decoder_model import SpeechDecoder
from training.decoder_start import Components, front_loss, make_linear
from training.sizes import speech_decoder
from training.steps import COOL_DOWN_SHARE, train
from training.vocoder import FRAME_SAMPLES, synthesise
from training.voices import VOICES, spoken_by

FRONT_LEARNING_RATE, LEARNING_RATE = 2e-3, 7e-4
FRONT_BATCH, BATCH, SEGMENT_FRAMES = 7, 4, 20
BLIND_FRAMES = 3
"""At a cut the decoder lacks its past: nothing is asked of the first frames."""

Shorts: TypeAlias = NDArray[np.int16]


class Data(NamedTuple):
    """codes int16 [N, 16] and samples int16 [N * 1920] of utterances one after the other; starts [U + 1] in frames."""

    codes: NDArray[np.int16]
    samples: NDArray[np.int16]
    starts: NDArray[np.int64]


def make_data(work: Path, files: int) -> Data:
    """The first `files` files of each language, in every voice; kept in WORK.

    The sound is that of the codes, not of what was encoded: what the codes do not say cannot be learnt from them.
    """
    kept = work / f"decoder_data.{files}.npz"
    if not kept.exists():
        quantizer = Quantizer.load(work / "codes.npz")
        codes, samples = [], []
        for language in ("en", "fr"):
            for file in features.files(work, language, "train")[:files]:
                for utterance in features.load(file):
                    for voice in VOICES:
                        codes.append(quantizer.encode(spoken_by(voice, language, utterance.features)))
                        sound = synthesise(quantizer.decode(codes[-1]))
                        samples.append((sound * 32767).clip(-32767, 32767).astype(np.int16))
        starts = np.cumsum([0, *map(len, codes)])
        np.savez(kept, codes=np.concatenate(codes), samples=np.concatenate(samples), starts=starts)
    with np.load(kept) as stored:
        return Data(stored["codes"], stored["samples"], stored["starts"])


def initialise(model: SpeechDecoder, quantizer: Quantizer) -> None:
    """The codebooks begin as the k-means entries, in units of the first one's spread."""
    with torch.no_grad():
        for codebook, entries in zip(SHAPE_CODEBOOKS, quantizer.scaled_entries(), strict=True):
            model.entries[codebook] = torch.from_numpy(entries[:, : model.entries.shape[2]])
        model.entries[PERIODS_CODEBOOK].normal_()


def batch(data: Data, rng: np.random.Generator, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [B, 16, F], samples [B, F * 1920] and the samples' weights: zero where the past is cut off."""
    codes: list[Shorts] = []
    samples: list[Shorts] = []
    weights: list[NDArray[np.float32]] = []
    while len(codes) < size:
        which = rng.integers(len(data.starts) - 1)
        first, end = data.starts[which], data.starts[which + 1]
        start = int(rng.integers(first, max(first + 1, end - SEGMENT_FRAMES + 1)))
        if end - start < SEGMENT_FRAMES:
            continue
        codes.append(data.codes[start : start + SEGMENT_FRAMES].T)
        samples.append(data.samples[start * FRAME_SAMPLES : (start + SEGMENT_FRAMES) * FRAME_SAMPLES])
        weight = np.ones(SEGMENT_FRAMES * FRAME_SAMPLES, np.float32)
        weight[: BLIND_FRAMES * FRAME_SAMPLES] = start == first
        weights.append(weight)
    target = torch.from_numpy(np.stack(samples).astype(np.float32) / 32767)
    return torch.from_numpy(np.stack(codes).astype(np.int64)), target, torch.from_numpy(np.stack(weights))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("stage", choices=("front", "whole"))
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--files", type=int, default=8, help="of each language, a hundred sentences each")
    parser.add_argument("--fall", type=float, default=COOL_DOWN_SHARE, help="share of the steps in which the learning rate falls")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="as it stands and in float32: slower, but needs no C++ compiler")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    data = make_data(options.work, options.files)
    if options.stage == "front":
        train_front(options.work, data, options.steps, options.fall)
    else:
        train_whole(options.work, data, options.steps, options.fall, eager=options.eager)


def train_front(work: Path, data: Data, steps: int, fall_share: float) -> None:
    components, model = Components.fit(data.samples), SpeechDecoder(speech_decoder())
    initialise(model, Quantizer.load(work / "codes.npz"))
    make_linear(model, components)

    def loss_of_batch(step: int) -> dict[str, Tensor]:
        codes, target, weights = batch(data, np.random.default_rng([1, step]), FRONT_BATCH)
        return front_loss(model, components, codes, target, weights)

    train(model, loss_of_batch, work / "decoder_front.pt", steps=steps, peak=FRONT_LEARNING_RATE, fall_share=fall_share)


def train_whole(work: Path, data: Data, steps: int, fall_share: float, *, eager: bool) -> None:
    model, file = SpeechDecoder(speech_decoder()), work / "decoder.pt"
    if not file.exists():
        model.load_state_dict(torch.load(work / "decoder_front.pt")["model"])
    if not eager:
        model.compile()

    def loss_of_batch(step: int) -> dict[str, Tensor]:
        codes, target, weights = batch(data, np.random.default_rng([1, step]), BATCH)
        with torch.autocast("cpu", torch.bfloat16, enabled=not eager):
            made = model(codes)
        return losses(made.float(), target, weights)

    train(model, loss_of_batch, file, steps=steps, peak=LEARNING_RATE, fall_share=fall_share)


if __name__ == "__main__":
    main()
