"""Builds the runner and its tests with the CMake and ninja of this Python environment."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]

Preset = Literal["release", "sanitize"]


def tool(name: str) -> str:
    """A program of this environment, or of the PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    assert found is not None, f"{name} is missing; install the tests' requirements: pip install .[test]"
    return found


def run(*command: str) -> str:
    """Output of a build step; its failure shows all of it."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT / "runner", check=False)
    assert done.returncode == 0, done.stdout[-20000:]
    return done.stdout


@functools.cache
def build(preset: Preset) -> Path:
    """Configure and build a preset of runner/CMakePresets.json, once a session; its build folder."""
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    run(tool("cmake"), "--preset", preset, ninja, f"-DPython_EXECUTABLE={sys.executable}")
    run(tool("cmake"), "--build", "--preset", preset)
    return ROOT / "build" / f"runner-{preset}"


def built_runner(preset: Preset) -> Path:
    """The kz_runner of a preset."""
    return build(preset) / "kz_runner"
