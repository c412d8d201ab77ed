"""A runner that dies, hangs or answers garbage: one line, no half-written file, nothing left running."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from kazeia import runner_client
from kazeia.devices.local import LocalDevice, runner_path
from kazeia.errors import RunnerError
from kazeia.runner_client import RunnerClient
from tests.support.command import Kz

FAKE_RUNNER = Path(__file__).parent / "support" / "fake_runner.py"


@pytest.fixture
def speak(kz: Kz, fake_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Speak through a fake runner with a fault; returns the line of error."""
    np.save(tmp_path / "voice.npy", np.ones(8, np.float32))
    monkeypatch.setenv("KZ_RUNNER", str(FAKE_RUNNER))

    def with_fault(fault: str) -> str:
        monkeypatch.setenv("KZ_FAKE", fault)
        output = tmp_path / "out.wav"
        voice = tmp_path / "voice.npy"
        message = kz.fails("speak", "Hello.", "-o", output, "--bundle", fake_bundle, "--voice", voice)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fake", "voice.npy"]
        return message

    return with_fault


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("garbage at start", "the runner on local answered garbage"),
        ("endless header", "answered garbage (a header without an end)"),
        ("fails to load", "talker.pte is cut short; export the bundle again"),
        (
            "other protocol",
            "speaks protocol 2, contract 1, version 0.1.0; this kz needs 1, 1 and 0.1.0: install the same kazeia on both sides",
        ),
        ("other files", "loaded another talker.pte than this bundle has; run kz deploy again"),
        ("killed", "was killed (signal 9), most likely for memory; close other programs or use a smaller"),
        ("crashes", "ended early (status 139): segmentation fault in layer 3; try again"),
        ("garbage", "answered garbage"),
        ("huge payload", "announced a payload of 99999999999 bytes"),
        ("not a number", "frame 1, codebook 0: logits are not numbers"),
        ("silence", "the speech decoder gave nothing but silence"),
    ],
)
def test_every_fault_is_one_line_and_leaves_no_file(speak, fault: str, message: str) -> None:
    assert message in speak(fault)


def test_a_hanging_runner_is_stopped_after_the_time_limit(speak, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_client, "ANSWER_TIMEOUT_S", 0.5)
    started = time.monotonic()
    assert "did not answer for 0 s and was stopped" in speak("hangs")
    assert time.monotonic() - started < 20


def test_a_missing_runner_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KZ_RUNNER", str(tmp_path / "none"))
    with pytest.raises(RunnerError, match=r"the runner is missing at .*none; install kazeia again"):
        runner_path()


def test_a_runner_that_cannot_be_executed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kz_runner").write_text("not executable")
    monkeypatch.setenv("KZ_RUNNER", str(tmp_path / "kz_runner"))
    with pytest.raises(RunnerError, match=r"cannot start .*kz_runner: Permission denied"):
        RunnerClient(LocalDevice(), tmp_path, "generate")
