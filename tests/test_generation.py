"""How many frames a request may take."""

from __future__ import annotations

import numpy as np
import pytest

from kazeia.errors import PromptTooLong, UsageError
from kazeia.generation import frame_limit
from kazeia.prompt import Prompt
from tests.support.bundles import HIDDEN, fake_model


def prompt(tokens: int, trailing: int, text: str = "hi") -> Prompt:
    rows = np.zeros((tokens, HIDDEN), np.float32)
    return Prompt(text, rows, np.zeros((trailing, HIDDEN), np.float32), np.zeros(HIDDEN, np.float32), np.zeros((0, 16), np.int16))


def test_a_given_cap_wins_over_the_automatic_one() -> None:
    model = fake_model(context_length=4096)
    assert frame_limit(model, prompt(10, 5), 2000) == 2000
    assert frame_limit(model, prompt(10, 5), 1) == 1


def test_the_automatic_cap_grows_with_the_text_and_is_generous() -> None:
    model = fake_model(context_length=4096)
    short, long = frame_limit(model, prompt(10, 2, "hi"), None), frame_limit(model, prompt(10, 2, "hi" * 50), None)
    assert short == 60  # 4.8 s for two letters
    assert long == 550  # 44 s for a hundred


def test_the_automatic_cap_leaves_room_for_all_trailing_text() -> None:
    assert frame_limit(fake_model(context_length=4096), prompt(10, 300, "hi"), None) >= 301


def test_no_cap_goes_beyond_the_context() -> None:
    assert frame_limit(fake_model(context_length=64), prompt(10, 5), 2000) == 54


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_one_is_refused(cap: int) -> None:
    with pytest.raises(UsageError, match="--max-frames must be at least 1"):
        frame_limit(fake_model(), prompt(10, 5), cap)


@pytest.mark.parametrize(("tokens", "trailing", "over"), [(10, 54, 1), (64, 0, 1), (100, 30, 67)])
def test_text_beyond_the_context_says_by_how_much(tokens: int, trailing: int, over: int) -> None:
    with pytest.raises(PromptTooLong, match=f"needs {over} more positions than this bundle's context of 64"):
        frame_limit(fake_model(context_length=64), prompt(tokens, trailing), None)
