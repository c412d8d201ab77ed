"""`kz` run inside the test's process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from kazeia.cli import run


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Kz:
    """Call it with arguments, as a shell would."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> Outcome:
        self._capture.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = self._capture.readouterr()
        return Outcome(status, captured.out.decode(), captured.err.decode())

    def fails(self, *arguments: object) -> str:
        """Run a command that must fail: returns its one line of error."""
        outcome = self(*arguments)
        assert outcome.status != 0, outcome
        assert outcome.out == "", outcome
        lines = [line for line in outcome.err.splitlines() if not line.startswith("kz: this bundle is")]
        assert "Traceback" not in outcome.err
        assert lines, outcome
        return lines[-1]
