"""A service on the scripted runner."""

from __future__ import annotations

from pathlib import Path

from tests.serve.service import SCRIPTED_RUNNER, Service
from tests.support.bundles import BABBLE


class Scripted(Service):
    """What the runner did can be read, and its gate opened."""

    def __init__(self, folder: Path, home: Path, *options: object) -> None:
        self.folder = folder
        runner = {"KZ_RUNNER": str(SCRIPTED_RUNNER), "KZ_SCRIPT": str(folder)}
        super().__init__(home, "--bundle", BABBLE, "--device", "local", *options, **runner)

    @property
    def steps(self) -> list[str]:
        """What both runners did so far, across restarts."""
        return (self.folder / "log").read_text().splitlines()

    def allow(self, frames: int) -> None:
        """Let a gated generation go on until it has this many frames."""
        part = self.folder / "frames.part"
        part.write_text(str(frames))
        part.rename(self.folder / "frames")

    def pid(self, role: str) -> int:
        return int((self.folder / f"{role}.pid").read_text())
