"""The two voices: each speaks every language, with the teachers' pitch and resonances moved to suit it."""

from __future__ import annotations

from typing import NamedTuple

from training.vocoder import Features, converted


class Shift(NamedTuple):
    pitch_ratio: float
    formant_ratio: float


VOICES = {
    "claire": {"en": Shift(1.0, 1.0), "fr": Shift(1.75, 1.14)},
    "remi": {"en": Shift(0.6, 0.88), "fr": Shift(1.0, 1.0)},
}
"""Festival's slt is a woman's voice, espeak-ng's French one a man's."""


def spoken_by(voice: str, language: str, features: Features) -> Features:
    """The teacher's features in one of VOICES."""
    return converted(features, *VOICES[voice][language])
