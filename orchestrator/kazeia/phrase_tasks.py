"""From a phrase to what came of it: options and seed made definite, spoken on a warm synthesizer, failures told apart.

The same phrase has the same seed wherever it stands and whatever speaks it:

    its own seed, or the batch's                 used as it is, never replaced
    neither                                      derived from its id, or from its text if it has none; should the model not
                                                 end the phrase, it is tried again with seeds derived from that one
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from kazeia import __version__
from kazeia.bundle import MANIFEST_NAME, Bundle
from kazeia.errors import AudioError, DeviceError, KazeiaError, NothingToSay, RunnerError, UsageError
from kazeia.files import sha256
from kazeia.languages import resolve_language
from kazeia.phrases import Phrase
from kazeia.prompt import Request, build_prompt
from kazeia.sampling import check_seed, resolve_sampling
from kazeia.synthesis import SEED_BITS, Options, Speech, Synthesizer
from kazeia.voices import Voice, default_voice, load_voice

Status: TypeAlias = Literal["ok", "frame_cap", "nothing_to_say", "failed"]

SEED_RETRIES = 2
"""One run in 150 to 300 of the full-size model never ends by itself; three in a row are one in millions."""

RESTART_PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Before each try to start the runners again: an adb server or a cable may take a moment to come back."""

REMEMBERED_VOICES = 64


@dataclass(frozen=True)
class Task:
    """One phrase with everything decided that its sound depends on."""

    phrase: Phrase
    options: Options
    """With a seed, and with the voice itself in place of its name."""
    inputs: str
    """SHA-256 of text, options, bundle and version: equal inputs give equal sound."""
    retry_seeds: tuple[int, ...] = ()
    """What to try when the frame cap is hit."""
    refusal: str | None = None
    """Why it cannot even be tried."""


@dataclass(frozen=True)
class Outcome:
    """What came of one phrase."""

    task: Task
    status: Status
    speech: Speech | None
    """Cut off when the status is `frame_cap`; None when there is no sound."""
    message: str | None
    """What failed and what to do, in one line."""
    seeds: tuple[int, ...]
    """Tried in this order; the last one made the sound."""
    restarts: int
    """How often the runners had to be started again for it."""


class Preparer:
    """Makes tasks of phrases; `options` hold for every phrase that does not say otherwise.

    Args:
        retries: further seeds to try when a phrase without a seed of its own hits the frame cap.
    """

    def __init__(self, bundle: Bundle, options: Options | None = None, retries: int = SEED_RETRIES) -> None:
        self.manifest_sha256 = sha256(bundle.folder / MANIFEST_NAME)
        self._options = options or Options()
        self._retries = retries

        @lru_cache(REMEMBERED_VOICES)
        def voice(name: str) -> tuple[Voice, str]:
            loaded = load_voice(name, bundle)
            return loaded, _voice_sha256(loaded)

        self._voice = voice

    def task(self, phrase: Phrase) -> Task:
        """Never raises: what is wrong with the phrase is the task's `refusal`."""
        own_seed = self._options.seed if phrase.seed is None else phrase.seed
        seed = derived_seed(phrase) if own_seed is None else own_seed
        given = {name: getattr(phrase, name) for name in ("speaker", "instruct", "language", "text_mode", "max_frames")}
        changes = {name: value for name, value in given.items() if value is not None}
        options = dataclasses.replace(self._options, seed=seed, **changes)
        refusal = None
        try:
            options, digest = self._with_voice(options, phrase.voice or self._options.voice)
        except KazeiaError as error:
            refusal, digest = str(error), f"none called {phrase.voice}"
        retry_seeds = tuple(retry_seed(seed, attempt) for attempt in range(1, self._retries + 1)) if own_seed is None else ()
        return Task(phrase, options, self._inputs(phrase.text, options, digest), retry_seeds, refusal)

    def _with_voice(self, options: Options, voice: str | Voice | None) -> tuple[Options, str]:
        if voice is None:
            return options, ""
        loaded, digest = self._voice(voice) if isinstance(voice, str) else (voice, _voice_sha256(voice))
        return dataclasses.replace(options, voice=loaded), digest

    def _inputs(self, text: str, options: Options, voice: str) -> str:
        named = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        named |= {"text": text, "voice": voice, "bundle": self.manifest_sha256, "kazeia": __version__}
        return hashlib.sha256(msgspec.json.encode(named, order="sorted")).hexdigest()


def check_options(bundle: Bundle, options: Options, *, alone: bool) -> Options:
    """Refuse what would be wrong for every phrase; the options with the voice itself in place of its name.

    Args:
        alone: no phrase names a voice or speaker of its own.

    Raises:
        UsageError: a seed, a cap, a language, a speaker or a sampling option that this bundle does not take.
        VoiceError: there is no such voice, or it is broken.
    """
    model = bundle.manifest.model
    resolve_sampling(bundle.manifest.sampling, options.sampling)
    resolve_language(options.language, model.languages)
    if options.seed is not None:
        check_seed(options.seed)
    if options.max_frames is not None and options.max_frames < 1:
        raise UsageError(f"--max-frames must be at least 1, not {options.max_frames}")
    voice = load_voice(options.voice, bundle) if isinstance(options.voice, str) else options.voice
    if alone:
        heard = voice or (default_voice(bundle) if model.kind == "base" else None)
        build_prompt(bundle, Request("a", heard, options.speaker, options.instruct, options.language, options.text_mode))
    return dataclasses.replace(options, voice=voice)


def derived_seed(phrase: Phrase) -> int:
    """The seed of a phrase that has none, from its id in NFC, or else from its text."""
    key = f"text\0{phrase.text}" if phrase.id is None else f"id\0{unicodedata.normalize('NFC', phrase.id)}"
    return _hashed_seed(key)


def retry_seed(seed: int, attempt: int) -> int:
    """The seed of the `attempt`-th further try, from 1."""
    return _hashed_seed(f"retry\0{seed}\0{attempt}")


def speak_each(
    synthesizer: Synthesizer, tasks: Iterable[Task], progress: Callable[[int], None] | None = None
) -> Iterator[Outcome]:
    """Speak tasks in order on a warm synthesizer; a phrase that fails is an outcome like any other.

    A runner that dies or misbehaves is started again and the phrase tried once more, with the same seed.

    Args:
        progress: called with the number of frames of the phrase so far; what it raises ends the phrase.

    Raises:
        DeviceError, RunnerError: the runners cannot be started again; the task under way has no outcome.
    """
    speaker = PhraseSpeaker(synthesizer, progress)
    for task in tasks:
        yield speaker.outcome(task)


class _GivenUp(Exception):
    """The runners cannot be started again."""

    def __init__(self, error: KazeiaError) -> None:
        super().__init__(str(error))
        self.error = error


class PhraseSpeaker:
    """Keeps a synthesizer's runners going from phrase to phrase; see `speak_each`."""

    def __init__(self, synthesizer: Synthesizer, progress: Callable[[int], None] | None = None) -> None:
        self._synthesizer = synthesizer
        self._progress = progress
        self._broken = False
        self._restarts = 0

    def outcome(self, task: Task) -> Outcome:
        """Speak one task.

        Raises:
            DeviceError, RunnerError: the runners cannot be started again.
        """
        if task.refusal is not None:
            return Outcome(task, "failed", None, task.refusal, (), 0)
        self._restarts = 0
        seeds: list[int] = []
        speech: Speech | None = None
        status: Status = "failed"
        try:
            for seed in (task.options.seed, *task.retry_seeds):
                assert seed is not None
                seeds.append(seed)
                speech = self._speak(task, seed)
                if speech.statistics.stop_reason == "eos":
                    return Outcome(task, "ok", speech, None, tuple(seeds), self._restarts)
            status, message = "frame_cap", _capped(speech, seeds)
        except NothingToSay as error:
            status, message = "nothing_to_say", str(error)
        except KazeiaError as error:
            speech, message = None, str(error)
        except _GivenUp as given_up:
            raise given_up.error from None
        return Outcome(task, status, speech, message, tuple(seeds), self._restarts)

    def _speak(self, task: Task, seed: int) -> Speech:
        options = dataclasses.replace(task.options, seed=seed)
        try:
            return self._speak_once(task.phrase.text, options)
        except (RunnerError, DeviceError, AudioError):
            return self._speak_once(task.phrase.text, options)

    def _speak_once(self, text: str, options: Options) -> Speech:
        if self._broken:
            self._restart()
        try:
            return self._synthesizer.speak(text, options, self._progress)
        except (RunnerError, DeviceError, AudioError):
            self._broken = True
            raise

    def _restart(self) -> None:
        for pause_s in RESTART_PAUSES_S:
            time.sleep(pause_s)
            try:
                self._synthesizer.restart()
            except (RunnerError, DeviceError) as error:
                failure = error
            else:
                self._broken = False
                self._restarts += 1
                return
        raise _GivenUp(failure)


def _capped(speech: Speech | None, seeds: list[int]) -> str:
    assert speech is not None
    tries = "" if len(seeds) == 1 else f", with {len(seeds)} seeds in turn"
    return f"the model had not ended after {speech.statistics.frames} frames{tries}; give it another seed, or a larger max_frames"


def _hashed_seed(key: str) -> int:
    digest = hashlib.sha256(f"kazeia seed\0{key}".encode()).digest()
    return int.from_bytes(digest[: SEED_BITS // 8], "big")


def _voice_sha256(voice: Voice) -> str:
    digest = hashlib.sha256(voice.embedding.tobytes())
    if voice.reference_codes is not None:
        digest.update(voice.reference_codes.tobytes() + (voice.reference_text or "").encode())
    return digest.hexdigest()
