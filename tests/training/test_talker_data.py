"""Lessons say which token every frame speaks, whatever the cut into tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training import tokenizer
from training.codes import LAG_CODEBOOK
from training.talker_data import Batches, Lesson, Reader, collate, place_codes, tokens_spoken

TEXT = "Good morning, my friend."
WORDS = ((0, 1.0), (5, 4.0), (14, 9.0), (17, 11.0))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    tokenizer.write(folder / "tokenizer", [TEXT] * 20)
    return folder


def lesson(frames: int = 30, voice: int = 0) -> Lesson:
    return Lesson(TEXT, WORDS, np.full((frames, 16), frames, np.int16), np.arange(1, frames + 1, dtype=np.int16), 0, voice, 0)


def test_tokens_begin_where_their_words_do(work: Path) -> None:
    ids, starts = Reader(work).read(lesson(), torn=False)
    words = dict(WORDS)
    spelt = [tokenizer_text(work, token) for token in ids]
    places = np.cumsum([0, *map(len, spelt)])[:-1]
    assert "".join(spelt) == TEXT
    for place, start in zip(places, starts, strict=True):
        if int(place) in words:
            assert start == pytest.approx(words[int(place)])
    assert list(starts) == sorted(starts)


def tokenizer_text(work: Path, token: int) -> str:
    from kazeia.tokenizer import build_tokenizer

    return str(build_tokenizer(work / "tokenizer").decode([token]))


def test_torn_text_has_more_tokens_and_never_too_many(work: Path) -> None:
    reader = Reader(work, dropout=0.9)
    whole = reader.read(lesson(), torn=False)[0]
    torn = reader.read(lesson(), torn=True)[0]
    assert len(torn) > len(whole)
    assert len(reader.read(lesson(frames=len(whole) + 1), torn=True)[0]) == len(whole)


def test_a_text_may_end_without_its_full_stop(work: Path) -> None:
    reader, stopped = Reader(work), lesson()
    assert stopped.text.endswith(".")
    ids, starts = reader.read(stopped, torn=False)
    open_ids, open_starts = reader.read(stopped, torn=False, open_end=True)
    assert open_ids == ids[:-1]
    np.testing.assert_array_equal(open_starts, starts[:-1])


def test_batches_are_padded_and_the_same_for_the_same_step(work: Path) -> None:
    reader = Reader(work)
    batch = collate([lesson(20), lesson(30, voice=1)], reader, np.random.default_rng(0), 0.0)
    assert batch.tokens.shape == (2, 31)
    assert batch.frames.tolist() == [20, 30]
    assert batch.voices.tolist() == [0, 1]
    assert batch.tokens[0, -1] == -1
    assert batch.codes[0, 19, 0] == 20
    assert batch.codes[0, :20, LAG_CODEBOOK].equal(torch.arange(20) - batch.spoken[0, :20])
    assert batch.codes[0, 20, 0] == 0
    assert batch.phones[0].tolist() == [*range(1, 21), *[-1] * 11]
    batches = Batches([lesson(20 + i) for i in range(20)], reader, 100, 0.0, seed=1)
    assert batches[3].codes.equal(batches[3].codes)
    assert not batches[3].frames.equal(batches[4].frames)


def test_a_frame_speaks_the_last_token_begun_and_none_before_it_was_read() -> None:
    starts = np.array([0, 0.2, 0.4, 4, 6], np.float32)
    spoken = tokens_spoken(starts, 8)
    assert spoken.tolist() == [0, 1, 2, 2, 3, 3, 4, 4]
    lag, phone = place_codes(spoken, np.array([9, 4, 4, 4, 5, 4, 127, 0], np.int16))
    assert lag.tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    assert phone.tolist() == [18, 8, 9, 9, 10, 8, 254, 0]


def test_a_silence_is_not_part_of_the_word_before_it(work: Path) -> None:
    phones = np.ones(30, np.int16)
    phones[7:9] = phones[28:] = 0
    pausing = lesson()._replace(phones=phones)
    ids, starts = Reader(work).read(pausing, torn=False)
    comma = [tokenizer_text(work, token) for token in ids].index(",")
    assert starts[comma] == 7
    assert starts[-1] == 28
