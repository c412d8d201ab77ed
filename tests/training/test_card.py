"""The card says what the evaluations found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.card import rows, write
from training.voices import VOICES


def evaluation(decoder: str, sentences: int, error: float) -> dict[str, Any]:
    figures = {
        "en": {"word_error_percent": error, "teacher_word_error_percent": 6.5},
        "fr": {"retrieved_percent": 98.0, "duration_kept_percent": 91.0},
    }
    programs = {"talker": "qnn fp16" if decoder == "qnn fp16" else "xnnpack 8da8w", "speech_decoder": decoder}
    endings = {"runs": 500, "frame_cap_percent": 0.2, "rtf": 0.03}
    found = {"programs": programs, "sentences": sentences, "shortest": sentences < 100, "endings": endings}
    return {**found, **dict.fromkeys(VOICES, figures)}


FOUND = [evaluation("xnnpack fp32", 100, 12.5), evaluation("qnn fp16", 10, 13.5)]


def test_every_evaluation_has_a_column_and_every_figure_a_row() -> None:
    table = {row[0]: row[2:] for row in rows(FOUND)}
    assert table[""] == ["xnnpack 8da8w, speech decoder xnnpack fp32", "qnn fp16"]
    assert table["claire, English: word errors (the teacher's own)"] == ["12.5 % (6.5 %)", "13.5 % (6.5 %)"]
    assert table["runs that the frame cap ended"] == ["0.2 % of 500", "0.2 % of 500"]


def test_what_was_not_run_is_said() -> None:
    found = evaluation("xnnpack fp32", 10, 12.5)
    del found["remi"], found["endings"]
    table = {row[0]: row[2] for row in rows([found])}
    assert table["sentences of each language"] == "10 short ones"
    assert table["claire, French: duration within 20 %"] == "91.0 %"
    assert table["remi, French: duration within 20 %"] == "not run"
    assert table["runs that the frame cap ended"] == table["real-time factor"] == "not run"


def test_no_speed_is_claimed_of_an_emulator() -> None:
    assert rows(FOUND)[-1][2:] == ["0.03", "emulated"]


def test_the_card_is_a_page_with_the_table(tmp_path: Path) -> None:
    layers = {"num_hidden_layers": 6, "hidden_size": 256, "code_predictor_config": {"num_hidden_layers": 2}}
    (tmp_path / "config.json").write_text(json.dumps({"talker_config": layers}))
    write(tmp_path, FOUND)
    lines = (tmp_path / "README.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| "))
    assert lines[first + 1] == "|" + " --- |" * 4
    assert len([line for line in lines if line.startswith("| ")]) == len(rows(FOUND)) + 1
