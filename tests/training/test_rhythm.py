"""Every phone gets whole frames, and what was heard in it is heard there."""

from __future__ import annotations

import numpy as np
import pytest

from training.rhythm import LEAD_FRAMES, TAIL_FRAMES, joined, paced
from training.teacher import SILENCE, Phone
from training.vocoder import BANDS, HOPS_PER_FRAME, Features


def features(hops: int) -> Features:
    """The envelope tells the time in hops."""
    envelope = np.repeat(np.arange(hops, dtype=np.float32)[:, None], BANDS, 1)
    return Features(envelope, np.zeros((hops, 3), np.float32), np.arange(hops) % 2 == 0, np.full(hops, 100, np.float32))


PHONES = (Phone(SILENCE, 0.0), Phone("b", 0.2), Phone("o", 0.23), Phone("n", 0.55), Phone(SILENCE, 0.63))


def test_a_phone_lasts_the_nearest_number_of_frames_and_at_least_one() -> None:
    said = paced(features(100), PHONES)
    lead, tail = (SILENCE,) * LEAD_FRAMES, (SILENCE,) * TAIL_FRAMES
    assert said.phones == (*lead, "b", "o", "o", "o", "o", "n", *tail)
    assert len(said.features.envelope) == len(said.phones) * HOPS_PER_FRAME


def test_each_phone_keeps_its_own_sound() -> None:
    said = paced(features(100), PHONES)
    times = said.features.envelope[:, 0].reshape(-1, HOPS_PER_FRAME)
    assert times[0].min() >= 20 - HOPS_PER_FRAME - 0.5
    for frame, (start, end) in {1: (20, 23), 2: (23, 31), 5: (47, 55), 6: (55, 63)}.items():
        assert start - 0.5 <= times[frame].min() <= times[frame].max() <= end - 0.5
        assert np.diff(times[frame]) == pytest.approx((end - start) / HOPS_PER_FRAME, rel=1e-4)


def test_places_follow_their_phones() -> None:
    said = paced(features(100), PHONES)
    assert said.frame_at(0.2) == LEAD_FRAMES
    assert said.frame_at(0.23) == LEAD_FRAMES + 1
    assert said.frame_at(0.39) == pytest.approx(LEAD_FRAMES + 3)
    assert said.frame_at(0.63) == LEAD_FRAMES + 6
    assert said.frame_at(9.0) == LEAD_FRAMES + 6 + TAIL_FRAMES


def test_what_is_too_short_to_be_heard_joins_what_follows_and_silences_join() -> None:
    phones = (Phone(SILENCE, 0.0), Phone(SILENCE, 0.1), Phone("w", 0.2), Phone("a", 0.205), Phone("a", 0.4))
    assert joined(phones) == [Phone(SILENCE, 0.0), Phone("a", 0.2), Phone("a", 0.4)]


def test_a_recording_that_begins_and_ends_without_silence_gets_some() -> None:
    said = paced(features(24), (Phone("a", 0.0), Phone("b", 0.08)))
    assert said.phones == (SILENCE, "a", "b", "b", SILENCE, SILENCE)
    assert np.isfinite(said.features.envelope).all()
