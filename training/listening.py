"""A page to listen to: samples of the built-in voice next to its teacher's.

usage: python -m training.listening WORK BUNDLE PAGE [--sentences 10]

Writes the folder PAGE with index.html and its sounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kazeia.audio import write_wav
from kazeia.synthesis import Options, Synthesizer
from training.evaluate import SEED
from training.features import heldout
from training.vocoder import SAMPLE_RATE, synthesise
from training.voices import VOICES, spoken_by

NAMES = {"en": "english", "fr": "french"}


class Sample(NamedTuple):
    text: str
    language: str
    voice: str
    spoken: str
    taught: str


def make(synthesizer: Synthesizer, work: Path, page: Path, sentences: int) -> list[Sample]:
    """Speaks `sentences` held-out sentences of each language, the voices in turn."""
    samples = []
    for language, name in NAMES.items():
        for number, utterance in enumerate(heldout(work, language, sentences)):
            voice = list(VOICES)[number % len(VOICES)]
            speech = synthesizer.speak(utterance.text, Options(voice=voice, language=name, seed=SEED))
            taught = synthesise(spoken_by(voice, language, utterance.features))
            sample = Sample(utterance.text, name, voice, f"{language}{number:02}.wav", f"{language}{number:02}-teacher.wav")
            write_wav(page / sample.spoken, speech.samples, SAMPLE_RATE)
            write_wav(page / sample.taught, taught, SAMPLE_RATE)
            samples.append(sample)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--sentences", type=int, default=10, help="of each language")
    options = parser.parse_args()
    options.page.mkdir(parents=True, exist_ok=True)
    with Synthesizer(options.bundle, "local") as synthesizer:
        samples = make(synthesizer, options.work, options.page, options.sentences)
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True)
    (options.page / "index.html").write_text(environment.get_template("listening.html.j2").render(samples=samples), "utf-8")
    print(options.page / "index.html")


if __name__ == "__main__":
    main()
