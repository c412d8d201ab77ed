"""Framed scripts: what a shell made of them, whatever the way there adds."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kazeia.devices.shell import Completed, Frame, quote

SHELLS = ["dash", "mksh", "busybox sh", "bash"]


def run(script: str, shell: str = "sh", *, before: bytes = b"", line_end: bytes = b"\n") -> Completed | None:
    frame = Frame(script)
    done = subprocess.run(shell.split(), input=frame.text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return frame.result(before + done.stdout.replace(b"\n", line_end))


def has(shell: str) -> bool:
    return subprocess.run(["which", shell.split()[0]], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("shell", [name for name in SHELLS if has(name)])
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo out; echo err >&2; exit 3", Completed(3, "out\n", "err")),
        ("true", Completed(0, "", "")),
        ("printf 'no line end'", Completed(0, "no line end", "")),
        ("cat; echo after", Completed(0, "after\n", "")),
        ("sh -c 'kill -9 $$'", Completed(137, "", "")),
        ("echo 'a b'; exit 255", Completed(255, "a b\n", "")),
        ("printf 'x\\ny\\n' >&2", Completed(0, "", "x\ny")),
    ],
)
def test_status_output_and_errors_are_told_apart(shell: str, script: str, expected: Completed) -> None:
    done = run(script, shell)
    assert done is not None
    if expected.status == 137:  # some shells add a line about the signal
        done = Completed(done.status, done.stdout, "")
    assert done == expected


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r\r\n"])
def test_carriage_returns_are_stripped(line_end: bytes) -> None:
    assert run("echo one; echo two", line_end=line_end) == Completed(0, "one\ntwo\n", "")


def test_noise_before_the_script_is_not_its_output() -> None:
    assert run("echo out", before=b"WARNING: linker: unused DT entry\n\xff\xfe") == Completed(0, "out\n", "")


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert run(r"printf '\377x'; printf '\376y' >&2") == Completed(0, "\ufffdx", "\ufffdy")


def test_a_cut_off_answer_is_no_answer() -> None:
    frame = Frame("echo out; echo err >&2")
    whole = subprocess.run(["sh"], input=frame.text, capture_output=True, check=True).stdout
    assert frame.result(whole) is not None
    for length in range(len(whole) - 1):
        assert frame.result(whole[:length]) is None


def test_output_that_looks_like_another_scripts_end_changes_nothing() -> None:
    other = Frame("true")
    text = other.text.decode().split()[2]
    assert run(f"echo {text} 0; echo {text}") == Completed(0, f"{text} 0\n{text}\n", "")


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=40))
def test_quoting_keeps_any_text_one_word(text: str) -> None:
    assert run(f"printf %s {quote(text)}") == Completed(0, text, "")


@pytest.mark.parametrize("text", ["", " ", "it's", '"', "$(id)", "`id`", "a;b", "-n", "*", "~", "a\nb", "\\"])
def test_quoting_of_the_usual_suspects(text: str) -> None:
    assert run(f"printf %s {quote(text)}") == Completed(0, text, "")
