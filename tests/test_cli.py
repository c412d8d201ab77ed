"""The command line: lazy, quick, one line for every failure."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from kazeia import cli
from kazeia.errors import KazeiaError
from tests.support.command import Kz


def test_help_lists_every_command_without_importing_one(kz: Kz) -> None:
    code = (
        "import sys; from kazeia.cli import run; run(['--help']); sys.exit(1 if {'numpy', 'msgspec'} & set(sys.modules) else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    for name, line in cli.COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert line in result.stdout


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help_that_fits_its_line_in_the_list(kz: Kz, name: str) -> None:
    outcome = kz(name, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith(f"Usage: kz {name}")


@pytest.mark.parametrize("arguments", [["speek"], ["speak"], ["speak", "a", "--no-such-option"], ["voice", "steal"]])
def test_a_wrong_command_line_is_explained_with_status_2(kz: Kz, arguments: list[str]) -> None:
    outcome = kz(*arguments)
    assert outcome.status == 2
    assert "Try 'kz" in outcome.err


def test_every_error_class_has_its_own_exit_code() -> None:
    classes = KazeiaError.__subclasses__()
    codes = [error.exit_code for error in classes]
    assert len(set(codes)) == len(codes)
    assert 1 not in codes
    import kazeia.errors

    for error in classes:
        assert f"{error.__name__:<18}" in (kazeia.errors.__doc__ or "")
        assert f"exit {error.exit_code} " in (kazeia.errors.__doc__ or "") + " "


def test_an_unforeseen_error_is_one_line_too(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError("oops\nsecond line")

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: broken)
    outcome = kz("speak")
    assert outcome.status == 70
    assert (
        outcome.err == "kz: internal error: ZeroDivisionError: oops second line; set KZ_TRACEBACK=1 to see where, and report it\n"
    )
