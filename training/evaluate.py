"""What the built-in voice reaches, measured through the real runner on sentences training never saw.

usage: python -m training.evaluate WORK BUNDLE [--sentences 100] [--seed 1] [--seeds 5] [--shortest] [--json FILE]

English: word error rate of an independent recogniser, next to its error on the teacher's own recordings. French: for how many
sentences the nearest of all teacher recordings, by dynamic time warping over MFCCs, is the right one, and for how many the
duration is within 20 % of the teacher's. Both: how many runs hit the frame cap.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import read_manifest
from kazeia.synthesis import Options, Speech, Synthesizer
from training.features import Utterance, heldout
from training.likeness import mfcc, nearest
from training.recogniser import heard, word_error_rate
from training.vocoder import FRAME_SAMPLES, SAMPLE_RATE, synthesise
from training.voices import VOICES, spoken_by

DURATION_TOLERANCE = 0.2
SEED = 1
SHORTEST_OF = 100
Floats = NDArray[np.float32]


def speak(synthesizer: Synthesizer, utterance: Utterance, voice: str, seed: int) -> Speech:
    """With the bundle's own settings: the language is left to the text."""
    return synthesizer.speak(utterance.text, Options(voice=voice, seed=seed))


def chosen(work: Path, language: str, count: int, shortest: bool) -> list[Utterance]:
    """The first `count` held-out sentences, or the shortest of the first hundred."""
    utterances = heldout(work, language, max(count, SHORTEST_OF) if shortest else count)
    return (sorted(utterances, key=lambda u: u.features.frames) if shortest else utterances)[:count]


def english(synthesizer: Synthesizer, utterances: list[Utterance], voice: str, seed: int) -> dict[str, float]:
    spoken = [(u.text, heard(speak(synthesizer, u, voice, seed).samples)) for u in utterances]
    taught = [(u.text, heard(synthesise(spoken_by(voice, "en", u.features)))) for u in utterances]
    for text, transcript in spoken:
        print(f"  {text} | {transcript}", flush=True)
    return {
        "word_error_percent": round(100 * word_error_rate(spoken), 1),
        "teacher_word_error_percent": round(100 * word_error_rate(taught), 1),
    }


def french(synthesizer: Synthesizer, utterances: list[Utterance], voice: str, seed: int) -> dict[str, float]:
    recordings = [mfcc(synthesise(spoken_by(voice, "fr", u.features))) for u in utterances]
    right = lasting = 0
    for index, utterance in enumerate(utterances):
        speech = speak(synthesizer, utterance, voice, seed)
        right += nearest(mfcc(speech.samples), recordings) == index
        wanted = utterance.features.frames * FRAME_SAMPLES
        lasting += abs(len(speech.samples) / wanted - 1) <= DURATION_TOLERANCE
    return {
        "retrieved_percent": round(100 * right / len(utterances), 1),
        "duration_kept_percent": round(100 * lasting / len(utterances), 1),
    }


def endings(synthesizer: Synthesizer, spoken: list[Utterance], voices: list[str], seeds: int) -> dict[str, float]:
    """How often the frame cap ends a run, over all sentences and seeds, voices in turn."""
    capped = runs = 0
    sound_s = 0.0
    started = time.monotonic()
    for number, (utterance, seed) in enumerate(itertools.product(spoken, range(1, seeds + 1))):
        speech = speak(synthesizer, utterance, voices[number % len(voices)], seed)
        capped += speech.statistics.stop_reason != "eos"
        sound_s += len(speech.samples) / SAMPLE_RATE
        runs += 1
    rtf = (time.monotonic() - started) / sound_s
    return {"runs": runs, "frame_cap_percent": round(100 * capped / runs, 2), "rtf": round(rtf, 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--sentences", type=int, default=100, help="of each language")
    parser.add_argument("--seed", type=int, default=SEED, help="of what is listened to")
    parser.add_argument("--seeds", type=int, default=5, help="of the runs whose ends are counted; 0: none")
    parser.add_argument("--voice", choices=VOICES, action="append", help="default: all")
    parser.add_argument("--shortest", action="store_true", help="the shortest sentences: an emulated frame takes seconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    voices = options.voice or list(VOICES)
    texts = {language: chosen(options.work, language, options.sentences, options.shortest) for language in ("en", "fr")}
    programs = read_manifest(options.bundle).programs
    found: dict[str, Any] = {"programs": {name: f"{p.backend} {p.quant}" for name, p in programs.items()}}
    found |= {"sentences": options.sentences, "shortest": options.shortest, "seed": options.seed}
    with Synthesizer(options.bundle, "local") as synthesizer:
        for voice in voices:
            measures = {"en": english, "fr": french}
            found[voice] = {name: measure(synthesizer, texts[name], voice, options.seed) for name, measure in measures.items()}
            print(voice, found[voice], flush=True)
        if options.seeds:
            found["endings"] = endings(synthesizer, texts["en"][::2] + texts["fr"][::2], voices, options.seeds)
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
