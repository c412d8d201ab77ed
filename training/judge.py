"""Judges a stage by ear: word error rate on held-out English.

usage: python -m training.judge WORK vocoder|codes|decoder [--sentences N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.features import heldout
from training.recogniser import heard, word_error_rate
from training.vocoder import Features, synthesise
from training.voices import VOICES, spoken_by

Speak = Callable[[Features], NDArray[np.float32]]


def codes_speaker(work: Path) -> Speak:
    from training.codes import Quantizer

    quantizer = Quantizer.load(work / "codes.npz")
    return lambda f: synthesise(quantizer.decode(quantizer.encode(f)))


def decoder_speaker(work: Path) -> Speak:
    import torch

    from training.codes import Quantizer
    from training.decoder_model import SpeechDecoder
    from training.sizes import speech_decoder

    quantizer, model = Quantizer.load(work / "codes.npz"), SpeechDecoder(speech_decoder())
    model.load_state_dict(torch.load(work / "decoder.pt")["model"])

    @torch.no_grad()
    def speak(f: Features) -> NDArray[np.float32]:
        samples: NDArray[np.float32] = model(torch.from_numpy(quantizer.encode(f).T[None].astype(np.int64)))[0].numpy()
        return samples

    return speak


STAGES: dict[str, Callable[[Path], Speak]] = {
    "vocoder": lambda work: synthesise,
    "codes": codes_speaker,
    "decoder": decoder_speaker,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--show", action="store_true", help="what was misheard")
    options = parser.parse_args()
    speak = STAGES[options.stage](options.work)
    chosen = heldout(options.work, "en", options.sentences)
    for voice in VOICES:
        pairs = [(u.text, heard(speak(spoken_by(voice, "en", u.features)))) for u in chosen]
        if options.show:
            print(*(f"  {text} | {transcript}" for text, transcript in pairs), sep="\n")
        print(f"{options.stage}, {voice}: {100 * word_error_rate(pairs):.1f} % word errors in {len(pairs)} sentences", flush=True)


if __name__ == "__main__":
    main()
