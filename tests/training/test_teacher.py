"""What espeak-ng tells is put right: a stop begins with its closure."""

from __future__ import annotations

import pytest

from training.teacher import CLOSURE_S, Phone, _with_closures


def test_a_stop_takes_the_silence_before_its_burst() -> None:
    phones = [Phone("a", 0.1), Phone("t", 0.3), Phone("b", 0.4)]
    assert _with_closures(phones) == (phones[0], Phone("t", pytest.approx(0.3 - CLOSURE_S)), phones[2])


def test_a_stop_leaves_half_of_a_short_phone_before_it() -> None:
    assert _with_closures([Phone("a", 0.30), Phone("k", 0.32)])[1].start == pytest.approx(0.31)
