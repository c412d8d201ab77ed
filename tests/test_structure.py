"""The layers: commands → services → devices and what they stand on; never backwards. torch only where models are exported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "orchestrator" / "kazeia"
SOURCES = sorted(PACKAGE.rglob("*.py"))

FOUNDATION = {"kazeia", "kazeia.errors", "kazeia.files", "kazeia.home", "kazeia.bundle", "kazeia.defaults", "kazeia.qnn_sdk"}
"""What devices may stand on."""
LONGEST_FILE = 400


def imports(path: Path) -> set[str]:
    """Modules a file imports, anywhere in it, but for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_but_the_command_line_knows_commands(path: Path) -> None:
    if path.parent.name != "commands":
        assert not {name for name in imports(path) if name.startswith("kazeia.commands")}


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parent.name == "devices"], ids=relative)
def test_devices_stand_on_the_foundation_alone(path: Path) -> None:
    ours = {name for name in imports(path) if name.split(".")[0] == "kazeia" and not name.startswith("kazeia.devices")}
    assert ours <= FOUNDATION


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_exporting_imports_torch(path: Path) -> None:
    heavy = {name.split(".")[0] for name in imports(path)} & {"torch", "torchao", "executorch", "transformers"}
    assert not heavy or relative(path).startswith(("export/", "checkpoint/"))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_stay_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_every_dependency_is_justified_in_its_line() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("dependencies = [")
    listed = lines[start + 1 : lines.index("]", start)]
    obvious = ("click", "numpy", "ninja")
    assert [line for line in listed if "#" not in line and not any(name in line for name in obvious)] == []
