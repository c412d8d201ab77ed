"""The README is true: its marked examples are run as they stand, its commands and files exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kazeia.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- run -->\n```(sh|python)\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("language", "code"), EXAMPLES, ids=[code.split("\n")[0] for _, code in EXAMPLES])
def test_an_example_runs_as_it_stands(language: str, code: str, tmp_path: Path, kz_home: Path) -> None:
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "KZ_HOME": str(kz_home)}
    command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"^(?:.*&& )?kz ([a-z]+)", README, re.MULTILINE))
    assert shown
    assert shown <= set(COMMANDS)


def test_every_option_the_readme_shows_exists() -> None:
    from click.testing import CliRunner

    from kazeia.cli import kz

    for command, rest in re.findall(r"^(?:.*&& )?kz ((?:[a-z]+ ){1,2})(.*)$", README, re.MULTILINE):
        words = command.split()
        text = CliRunner().invoke(kz, [*words, "--help"]).output
        if "Usage" not in text or "Error" in text:
            text = CliRunner().invoke(kz, [words[0], "--help"]).output
        for option in re.findall(r"(--[a-z-]+)", rest.split("#")[0]):
            assert option in text, (command, option)


def test_every_path_the_readme_names_exists() -> None:
    paths = re.findall(r"\]\(([^)#:]+)\)", README) + re.findall(r"`((?:runner|orchestrator|tests|docs|deploy)/[^`*]*)`", README)
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
