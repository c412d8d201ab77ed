"""Counting a batch: how far it is, how fast, and what it came to."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from kazeia.phrase_tasks import Outcome, Status
from kazeia.phrases import Phrase, Survey

RTF_PHRASES = 10
"""The first and the last so many phrases of a run tell whether it slowed down."""

RECENT_PHRASES = 20
"""What the time left is estimated from: a device that gets warm is slower than it was."""


@dataclass(frozen=True)
class Progress:
    """How far a batch is. Phrases that were done before count as done."""

    done: int
    phrases: int
    failed: int
    audio_s: float
    """Of this run."""
    rtf: float
    """Wall time of this run over its seconds of sound; 0 before there is any."""
    left_s: float | None
    """Estimated; None before there is a phrase to go by."""


@dataclass(frozen=True)
class Summary:
    """What a run of a batch came to."""

    phrases: int
    """In the list."""
    done_before: int
    """Found verified and skipped."""
    ok: int
    """Spoken in this run; the next three were tried in it."""
    frame_cap: int
    nothing_to_say: int
    failed: int
    blank_lines: int
    twin_ids: int
    leftover_results: int
    """In the index, of lines the list no longer has."""
    restarts: int
    """Of runners that died or misbehaved."""
    audio_s: float
    elapsed_s: float
    rtf: float
    """Wall time over seconds of sound; several devices make it smaller."""
    rtf_first: float
    """Of the first phrases spoken in this run, 10 at most, on their device."""
    rtf_last: float
    """Of the last ones."""

    @property
    def without_sound(self) -> int:
        """Phrases that failed, in whatever way."""
        return self.frame_cap + self.nothing_to_say + self.failed


class Tally:
    """One run's counts."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.done_before = 0
        self.counts: dict[Status, int] = {"ok": 0, "frame_cap": 0, "nothing_to_say": 0, "failed": 0}
        self._started = time.monotonic()
        self._characters_left = survey.characters
        self._restarts = 0
        self._audio_s = 0.0
        self._first: list[tuple[float, float]] = []
        self._last: deque[tuple[float, float]] = deque(maxlen=RTF_PHRASES)
        self._recent: deque[tuple[float, int]] = deque([(self._started, 0)], maxlen=RECENT_PHRASES)

    def skip(self, phrase: Phrase) -> None:
        """The phrase was done before."""
        self.done_before += 1
        self._characters_left -= len(phrase.text)

    def add(self, outcome: Outcome) -> None:
        """The phrase was tried just now."""
        self.counts[outcome.status] += 1
        self._restarts += outcome.restarts
        characters = len(outcome.task.phrase.text)
        self._characters_left -= characters
        self._recent.append((time.monotonic(), characters))
        if outcome.status == "ok" and outcome.speech is not None:
            statistics = outcome.speech.statistics
            self._audio_s += statistics.audio_s
            times = (statistics.total_ms / 1000, statistics.audio_s)
            self._last.append(times)
            if len(self._first) < RTF_PHRASES:
                self._first.append(times)

    def progress(self) -> Progress:
        spoken = sum(self.counts.values())
        elapsed_s = time.monotonic() - self._started
        characters = sum(count for _, count in list(self._recent)[1:])
        since_s = self._recent[-1][0] - self._recent[0][0]
        return Progress(
            done=self.done_before + spoken,
            phrases=self.survey.phrases,
            failed=spoken - self.counts["ok"],
            audio_s=self._audio_s,
            rtf=_ratio(elapsed_s, self._audio_s),
            left_s=self._characters_left * since_s / characters if characters else None,
        )

    def summary(self, leftover_results: int) -> Summary:
        elapsed_s = time.monotonic() - self._started
        return Summary(
            phrases=self.survey.phrases,
            done_before=self.done_before,
            **self.counts,
            blank_lines=self.survey.blank_lines,
            twin_ids=self.survey.twin_ids,
            leftover_results=leftover_results,
            restarts=self._restarts,
            audio_s=self._audio_s,
            elapsed_s=elapsed_s,
            rtf=_ratio(elapsed_s, self._audio_s),
            rtf_first=_rtf(self._first),
            rtf_last=_rtf(list(self._last)),
        )


def _rtf(times: list[tuple[float, float]]) -> float:
    return _ratio(sum(spent for spent, _ in times), sum(audio for _, audio in times))


def _ratio(spent_s: float, audio_s: float) -> float:
    return spent_s / audio_s if audio_s else 0.0
