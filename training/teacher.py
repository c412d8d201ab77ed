"""The two synthesisers that the built-in voice learns from: festival (English) and espeak-ng (French).

Both say when each word begins, which the talker's training uses to show its attention where to look, and when each phone does,
which gives the speech its rhythm (see rhythm.py).
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


SILENCE = "pau"


class Phone(NamedTuple):
    """In the teacher's own notation, SILENCE for a pause; start in seconds."""

    name: str
    start: float


class Recording(NamedTuple):
    """A sentence read aloud.

    samples: float32 [S], 24 kHz; words: (first character, start in seconds) of each spoken word, in order; phones, in order.
    """

    text: str
    samples: NDArray[np.float32]
    words: tuple[tuple[int, float], ...]
    phones: tuple[Phone, ...]


LIST_WORDS = """(mapcar (lambda (w) (if (item.parent (item.relation w 'Token))
    (format t "%d|word|%s|%f\\n" number (item.name (item.parent (item.relation w 'Token))) (item.feat w "word_start"))))
    (utt.relation.items u 'Word))"""
LIST_PHONES = """(mapcar (lambda (s) (format t "%d|phone|%s|%f\\n" number (item.name s) (item.feat s "segment_start")))
    (utt.relation.items u 'Segment))"""


def festival(sentences: list[str]) -> Iterator[Recording]:
    """Festival's slt voice reads English `sentences`, one process for all."""
    with tempfile.TemporaryDirectory() as folder:
        script = [f"(voice_{FESTIVAL_VOICE})", f"(define (tell u number) {LIST_WORDS} {LIST_PHONES})"]
        for index, sentence in enumerate(sentences):
            quoted = sentence.replace("\\", " ").replace('"', " ")
            script.append(f'(set! u (SynthText "{quoted}"))(utt.save.wave u "{folder}/{index}.wav" \'riff)(tell u {index})')
        Path(folder, "read.scm").write_text("\n".join(script), "latin-1", errors="replace")
        told = subprocess.run(["festival", "-b", f"{folder}/read.scm"], check=True, capture_output=True).stdout.decode("latin-1")
        starts: dict[tuple[int, str], list[tuple[str, float]]] = {}
        for line in told.splitlines():
            number, kind, name, start = line.split("|")
            starts.setdefault((int(number), kind), []).append((name, float(start)))
        for index, sentence in enumerate(sentences):
            rate, samples = wavfile.read(f"{folder}/{index}.wav")
            resampled = resample_poly(samples.astype(np.float32) / 32768, SAMPLE_RATE, rate).astype(np.float32)
            words = _located(sentence, starts.get((index, "word"), []))
            yield Recording(sentence, resampled, words, tuple(Phone(*phone) for phone in starts.get((index, "phone"), [])))


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
_WORD, _PHONE = 1, 7
_UTF8, _SYNCHRONOUS, _PHONES_TOLD = 1, 2, 1
PAUSES = ("_", "_:", "_!", "_|", "_^_")
BURSTS = ("p", "t", "k")
CLOSURE_S = 0.03
"""espeak-ng tells these when they burst, and the silence before as part of the phone before."""


class Espeak:
    """espeak-ng's own library, in process: the command cannot tell when words begin."""

    def __init__(self, voice: str) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        if self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONES_TOLD) != ESPEAK_RATE:
            raise RuntimeError("espeak-ng did not start; install the Debian package espeak-ng")
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_SetParameter(1, ESPEAK_WORDS_PER_MINUTE, 0)
        self._samples: list[NDArray[np.int16]] = []
        self._words: list[tuple[int, float]] = []
        self._phones: list[Phone] = []
        self._callback = _CALLBACK(self._receive)  # kept: the library holds only its address
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_Event]) -> int:
        if samples and count:
            self._samples.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type:
            event = events[index]
            start = event.audio_position_ms / 1000
            place = event.text_position - 1
            if event.type == _WORD and (not self._words or place > self._words[-1][0]):  # some are told twice
                self._words.append((place, start))
            elif event.type == _PHONE:
                name = event.id.decode("utf-8", errors="replace")
                self._phones.append(Phone(SILENCE if name in PAUSES else name, start))
            index += 1
        return 0

    def read(self, sentence: str) -> Recording:
        self._samples, self._words, self._phones = [], [], []
        text = sentence.encode()
        self._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8, None, None)
        samples = np.concatenate(self._samples).astype(np.float32) / 32768
        phones = _with_closures(self._phones)
        return Recording(sentence, resample_poly(samples, 160, 147).astype(np.float32), tuple(self._words), phones)


def _with_closures(phones: list[Phone]) -> tuple[Phone, ...]:
    before = [Phone(SILENCE, 0.0), *phones]
    return tuple(
        Phone(p.name, max(p.start - CLOSURE_S, (p.start + previous.start) / 2)) if p.name in BURSTS else p
        for previous, p in zip(before, phones, strict=False)
    )


def espeak(sentences: list[str]) -> Iterator[Recording]:
    """espeak-ng reads French `sentences`."""
    voice = Espeak("fr")
    for sentence in sentences:
        yield voice.read(sentence)


TEACHERS = {"en": festival, "fr": espeak}
