"""runner/PROTOCOL.md is true: each of its examples, replayed byte for byte on a real runner."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.runner.build import built_runner

ROOT = Path(__file__).parents[1]
PROTOCOL = ROOT / "runner" / "PROTOCOL.md"
HEX_LINE = re.compile(r"([0-9a-f]{2} ?)+")


@dataclass
class Example:
    """One `protocol` block: a command, all that is sent to it and all that must come back."""

    arguments: list[str] = field(default_factory=list)
    sent: bytes = b""
    expected: bytes = b""
    exit_code: int = 0

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """What the answers must match in full: themselves, with a number for every `*`."""
        return re.compile(re.escape(self.expected).replace(rb":\*", rb":[0-9.e+-]+"), re.DOTALL)


def example_bytes(text: str) -> bytes:
    """A line of an example as it travels: a header gets its newline, hexadecimal is payload."""
    return bytes.fromhex(text) if HEX_LINE.fullmatch(text) else text.encode() + b"\n"


def parse(block: str) -> Example:
    """Read one block of PROTOCOL.md."""
    example = Example()
    for line in block.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "$":
            example.arguments = rest.split()[1:]
        elif mark == ">" and rest != "end":
            example.sent += example_bytes(rest)
        elif mark == "<":
            example.expected += example_bytes(rest)
        elif mark == "exit":
            example.exit_code = int(rest)
    return example


def examples() -> list[Example]:
    """All blocks of PROTOCOL.md."""
    return [parse(block) for block in re.findall(r"```protocol\n(.*?)```", PROTOCOL.read_text(), re.DOTALL)]


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"{example.arguments[3]}-{len(example.sent)}")
def test_example(example: Example) -> None:
    done = subprocess.run(
        [built_runner("release"), *example.arguments], input=example.sent, capture_output=True, cwd=ROOT, timeout=60, check=False
    )
    assert example.pattern.fullmatch(done.stdout), f"got {done.stdout!r}"
    assert done.returncode == example.exit_code, done.stderr.decode()


def test_every_message_has_an_example() -> None:
    text = b"".join(example.sent + example.expected for example in examples())
    for kind in ("ready", "generate", "frame", "done", "cancel", "decode", "audio", "embed", "embedding", "error"):
        assert b'{"type":"%s",' % kind.encode() in text


def test_every_error_code_is_listed() -> None:
    source = (ROOT / "runner" / "src" / "error.cpp").read_text()
    codes = set(re.findall(r'return "([a-z_]+)";', source)) - {"bad_usage", "stream_closed", "unknown"}
    listed = set(re.findall(r"`([a-z_]+)`", PROTOCOL.read_text()))
    assert codes <= listed


def test_version_is_one_line_of_json() -> None:
    done = subprocess.run([built_runner("release"), "--version"], capture_output=True, timeout=60, check=True)
    version = json.loads(done.stdout)
    assert (version["protocol"], version["contract"], version["executorch"]) == (1, 1, "1.5.1")
    assert "xnnpack" in version["backends"]
    assert done.stdout.count(b"\n") == 1
