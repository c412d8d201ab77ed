"""The runner's C++ unit tests, plain and under the address and undefined behaviour sanitizers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.runner.build import Preset, build, run, tool

PRESETS: tuple[Preset, ...] = ("release", "sanitize")


@pytest.mark.parametrize("preset", PRESETS)
def test_unit_tests(preset: Preset) -> None:
    build(preset)
    output = run(tool("ctest"), "--preset", preset)
    assert "100% tests passed" in output


def test_each_noun_has_a_test() -> None:
    folder = Path(__file__).parent / "runner"
    tested = {path.stem.removeprefix("test_") for path in folder.glob("test_*.cpp")}
    listed = {
        line.split("(")[1].split(")")[0].split()[0]
        for line in (folder / "CMakeLists.txt").read_text().splitlines()
        if line.startswith("kz_add_test(")
    }
    assert tested == listed


def test_the_sampler_tool_answers_a_line_with_a_line() -> None:
    case = {"logits": [1.0, 3.0, 2.0, 9.0], "options": {"top_k": 2, "suppress_from": 3}, "seed": 1, "frame": 5, "draws": 3}
    tool_path = build("release") / "tests" / "sampler_tool"
    done = subprocess.run([tool_path], input=json.dumps(case) + "\n", capture_output=True, text=True, timeout=60, check=True)
    answer = json.loads(done.stdout)
    assert answer["kept"] == [1, 2]
    assert len(answer["codes"]) == 3
    assert set(answer["codes"]) <= {1, 2}
