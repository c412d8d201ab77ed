"""The model card: what the checkpoint is, and the figures that `training.evaluate` found.

usage: python -m training.card CHECKPOINT EVALUATION.json...

Writes CHECKPOINT/README.md, one column for each evaluation, in their order; the first is the built-in bundle's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from training.voices import VOICES

Found = dict[str, Any]
NOT_RUN = "not run"


def rows(evaluations: list[Found]) -> list[list[str]]:
    """A table: what was measured, what is wanted, and the figure of each evaluation."""
    table = [
        ["", "wanted", *(_precision(e["programs"]) for e in evaluations)],
        ["sentences of each language", "100", *(f"{e['sentences']}{' short ones' * e['shortest']}" for e in evaluations)],
    ]
    for voice in VOICES:
        for measured, wanted, figure in VOICE_ROWS:
            table.append([f"{voice}, {measured}", wanted, *(figure(e[voice]) if voice in e else NOT_RUN for e in evaluations)])
    ends = [e.get("endings") for e in evaluations]
    figures = (f"{e['frame_cap_percent']} % of {e['runs']}" if e else NOT_RUN for e in ends)
    table.append(["runs that the frame cap ended", "at most 1 %", *figures])
    table.append(["real-time factor", "under 0.3", *(_speed(e) for e in evaluations)])
    return table


def _word_errors(figures: Found) -> str:
    return f"{figures['en']['word_error_percent']} % ({figures['en']['teacher_word_error_percent']} %)"


VOICE_ROWS: tuple[tuple[str, str, Callable[[Found], str]], ...] = (
    ("English: word errors (the teacher's own)", "at most 15 %", _word_errors),
    ("French: nearest recording is its own", "at least 95 %", lambda figures: f"{figures['fr']['retrieved_percent']} %"),
    ("French: duration within 20 %", "at least 90 %", lambda figures: f"{figures['fr']['duration_kept_percent']} %"),
)


def _precision(programs: dict[str, str]) -> str:
    talker, decoder = programs["talker"], programs["speech_decoder"]
    return talker if talker == decoder else f"{talker}, speech decoder {decoder}"


def _speed(evaluation: Found) -> str:
    emulated = any(program.startswith("qnn") for program in evaluation["programs"].values())
    if emulated:
        return "emulated"
    return str(evaluation["endings"]["rtf"]) if "endings" in evaluation else NOT_RUN


def write(checkpoint: Path, evaluations: list[Found]) -> None:
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True)
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    card = environment.get_template("card.md.j2").render(table=rows(evaluations), talker=config["talker_config"])
    (checkpoint / "README.md").write_text(card, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("evaluations", type=Path, nargs="+")
    options = parser.parse_args()
    write(options.checkpoint, [json.loads(file.read_text("utf-8")) for file in options.evaluations])
    print(options.checkpoint / "README.md")


if __name__ == "__main__":
    main()
