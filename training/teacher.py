"""The two synthesisers that the built-in voice learns from: festival (English) and espeak-ng (French).

Both say when each word begins, which the talker's training uses to show its attention where to look.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile
from scipy.signal import resample_poly

SAMPLE_RATE = 24_000
FESTIVAL_VOICE = "cmu_us_slt_arctic_hts"
ESPEAK_RATE = 22_050
ESPEAK_WORDS_PER_MINUTE = 155


class Recording(NamedTuple):
    """A sentence read aloud.

    samples: float32 [S], 24 kHz; words: (first character, start in seconds) of each spoken word, in order.
    """

    text: str
    samples: NDArray[np.float32]
    words: tuple[tuple[int, float], ...]


def festival(sentences: list[str]) -> Iterator[Recording]:
    """Festival's slt voice reads English `sentences`, one process for all."""
    with tempfile.TemporaryDirectory() as folder:
        script = [f"(voice_{FESTIVAL_VOICE})"]
        for index, sentence in enumerate(sentences):
            quoted = sentence.replace("\\", " ").replace('"', " ")
            script.append(f'(set! u (SynthText "{quoted}"))(utt.save.wave u "{folder}/{index}.wav" \'riff)')
            script.append(
                "(mapcar (lambda (w) (if (item.parent (item.relation w 'Token)) "
                f'(format t "{index}|%s|%f\\n" (item.name (item.parent (item.relation w \'Token))) (item.feat w "word_start"))))'
                " (utt.relation.items u 'Word))"
            )
        Path(folder, "read.scm").write_text("\n".join(script), "latin-1", errors="replace")
        output = subprocess.run(["festival", "-b", f"{folder}/read.scm"], check=True, capture_output=True).stdout.decode(
            "latin-1"
        )
        starts: dict[int, list[tuple[str, float]]] = {}
        for line in output.splitlines():
            number, token, start = line.split("|")
            starts.setdefault(int(number), []).append((token, float(start)))
        for index, sentence in enumerate(sentences):
            rate, samples = wavfile.read(f"{folder}/{index}.wav")
            resampled = resample_poly(samples.astype(np.float32) / 32768, SAMPLE_RATE, rate).astype(np.float32)
            yield Recording(sentence, resampled, _located(sentence, starts.get(index, [])))


def _located(sentence: str, tokens: list[tuple[str, float]]) -> tuple[tuple[int, float], ...]:
    """Where in `sentence` each token that festival names begins; its own expansions of one token share the token's place."""
    words: list[tuple[int, float]] = []
    position = 0
    for token, start in tokens:
        found = sentence.find(token, position)
        if found >= 0 and (not words or start > words[-1][1]):
            words.append((found, start))
            position = found + len(token)
    return tuple(words)


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_WORD, _UTF8, _SYNCHRONOUS = 1, 1, 2


class Espeak:
    """espeak-ng's own library, in process: the command cannot tell when words begin."""

    def __init__(self, voice: str) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        if self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, 0) != ESPEAK_RATE:
            raise RuntimeError("espeak-ng did not start; install the Debian package espeak-ng")
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_SetParameter(1, ESPEAK_WORDS_PER_MINUTE, 0)
        self._samples: list[NDArray[np.int16]] = []
        self._words: list[tuple[int, float]] = []
        self._callback = _CALLBACK(self._receive)  # kept: the library holds only its address
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_Event]) -> int:
        if samples and count:
            self._samples.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type:
            if events[index].type == _WORD:
                self._words.append((events[index].text_position - 1, events[index].audio_position_ms / 1000))
            index += 1
        return 0

    def read(self, sentence: str) -> Recording:
        self._samples, self._words = [], []
        text = sentence.encode()
        self._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8, None, None)
        samples = np.concatenate(self._samples).astype(np.float32) / 32768
        return Recording(sentence, resample_poly(samples, 160, 147).astype(np.float32), tuple(self._words))


def espeak(sentences: list[str]) -> Iterator[Recording]:
    """espeak-ng reads French `sentences`."""
    voice = Espeak("fr")
    for sentence in sentences:
        yield voice.read(sentence)


TEACHERS = {"en": festival, "fr": espeak}
