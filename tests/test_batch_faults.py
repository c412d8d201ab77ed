"""`kz batch` when things go wrong: phrases, runners, devices, disks, processes and indexes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kazeia import batch_devices, phrase_tasks
from kazeia.batch_index import Index, Record
from kazeia.errors import DeviceError, RunnerError
from kazeia.phrase_tasks import derived_seed, retry_seed
from kazeia.phrases import Phrase
from kazeia.synthesis import Speech, Synthesizer
from tests.support.batches import LINES, batch, index_of, out, phrases, sounds, spoken, write, write_objects
from tests.support.bundles import BABBLE
from tests.support.command import Kz

__all__ = ["out", "phrases"]


def test_a_phrase_that_fails_does_not_stop_the_rest_and_is_tried_again(kz: Kz, tmp_path: Path, out: Path) -> None:
    objects = [{"text": "Un."}, {"text": "😀"}, {"text": "Deux.", "voice": "nobody"}, {"text": "x" * 9000}, {"text": "Trois."}]
    outcome = kz("batch", write_objects(tmp_path / "a.jsonl", *objects), "-o", out, "--json")
    assert outcome.status == 13
    assert "3 of 5 phrases have no sound (0 hit the frame cap, 1 had nothing to say, 2 failed)" in outcome.err
    records = index_of(out)
    assert [record["status"] for record in records] == ["ok", "nothing_to_say", "failed", "failed", "ok"]
    assert "unknown voice 'nobody'" in records[2]["message"]
    assert "shorten it" in records[3]["message"]
    assert sorted(sounds(out)) == ["000001-Un.wav", "000005-Trois.wav"]
    objects[1:4] = [{"text": "Mieux."}] * 3
    result = batch(kz, write_objects(tmp_path / "a.jsonl", *objects), out)
    assert (result["done_before"], result["ok"]) == (2, 3)


def test_a_failure_leaves_no_sound_of_before(kz: Kz, tmp_path: Path, out: Path) -> None:
    objects = tmp_path / "a.jsonl"
    batch(kz, write_objects(objects, {"text": "Un.", "id": "a"}), out)
    batch(kz, write_objects(objects, {"text": "Un.", "id": "a", "voice": "nobody"}), out, status=13)
    assert sounds(out) == {}


def test_the_frame_cap_is_a_failure_of_its_own_and_other_seeds_are_tried(kz: Kz, tmp_path: Path, out: Path) -> None:
    lines = [f"Phrase {number}." for number in range(12)]
    batch(kz, write(tmp_path / "a.txt", *lines), out, "--max-frames", 6, status=13)
    records = index_of(out)
    capped = [record for record in records if record["status"] == "frame_cap"]
    rescued = [record for record in records if record["status"] == "ok" and record["seeds_tried"] > 1]
    assert capped
    assert rescued
    for record in capped:
        assert record["message"].startswith("the model had not ended after 6 frames, with 3 seeds in turn")
        assert not (out / record["output"]).exists()
    record = rescued[0]
    first = derived_seed(Phrase(text=record["text"]))
    assert record["seed"] == retry_seed(first, record["seeds_tried"] - 1)
    assert spoken(kz, tmp_path, record["text"], record["seed"], "--max-frames", 6) == (out / record["output"]).read_bytes()


def test_a_seed_of_its_own_is_never_replaced(kz: Kz, tmp_path: Path, out: Path) -> None:
    objects = [{"text": "Bonjour.", "seed": seed, "max_frames": 2} for seed in range(4)]
    batch(kz, write_objects(tmp_path / "a.jsonl", *objects), out, status=13)
    assert [(record["seed"], record["seeds_tried"]) for record in index_of(out)] == [(seed, 1) for seed in range(4)]
    assert batch(kz, write(tmp_path / "b.txt", "Bonjour."), out, "--retries", 0, "--max-frames", 2, status=13)["frame_cap"] == 1
    assert index_of(out)[0]["seeds_tried"] == 1


class Dying:
    """Makes the runners of chosen texts die, the first so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: dict[str, int]) -> None:
        self.restarts = 0
        speak, restart = Synthesizer.speak, Synthesizer.restart

        def speak_or_die(synthesizer: Synthesizer, text: str, *rest: Any) -> Speech:
            if times.get(text, 0):
                times[text] -= 1
                synthesizer._generator._channel.kill()
            return speak(synthesizer, text, *rest)

        def counted(synthesizer: Synthesizer) -> None:
            self.restarts += 1
            restart(synthesizer)

        monkeypatch.setattr(Synthesizer, "speak", speak_or_die)
        monkeypatch.setattr(Synthesizer, "restart", counted)


def test_a_dead_runner_is_started_again_and_the_phrase_said_with_the_same_seed(
    kz: Kz, phrases: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(kz, phrases, tmp_path / "undisturbed")
    dying = Dying(monkeypatch, {LINES[1]: 1})
    result = batch(kz, phrases, out)
    assert (result["ok"], result["restarts"], dying.restarts) == (4, 1, 1)
    assert sounds(out) == sounds(tmp_path / "undisturbed")
    assert [record["restarts"] for record in index_of(out)] == [0, 1, 0, 0]


def test_a_phrase_that_kills_every_runner_fails_alone(kz: Kz, phrases: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = Dying(monkeypatch, {LINES[1]: 99})
    result = batch(kz, phrases, out, status=13)
    assert (result["ok"], result["failed"], dying.restarts) == (3, 1, 2)
    assert "was killed (signal 9)" in index_of(out)[1]["message"]


def lose(monkeypatch: pytest.MonkeyPatch, lost: list[str], synthesizers: dict[int, str]) -> None:
    """Make the named devices fail for good at their first phrase."""
    monkeypatch.setattr(phrase_tasks, "RESTART_PAUSES_S", (0.0, 0.0))
    speak, restart = Synthesizer.speak, Synthesizer.restart

    def gone(synthesizer: Synthesizer) -> bool:
        return synthesizers.setdefault(id(synthesizer), f"d{len(synthesizers)}") in lost

    def speak_or_fail(synthesizer: Synthesizer, *rest: Any) -> Speech:
        if gone(synthesizer):
            raise DeviceError("the tablet was unplugged; plug it in again")
        return speak(synthesizer, *rest)

    def restart_or_fail(synthesizer: Synthesizer) -> None:
        if gone(synthesizer):
            raise DeviceError("the tablet was unplugged; plug it in again")
        restart(synthesizer)

    monkeypatch.setattr(Synthesizer, "speak", speak_or_fail)
    monkeypatch.setattr(Synthesizer, "restart", restart_or_fail)


def test_a_lost_device_hands_its_phrase_to_the_other(
    kz: Kz, phrases: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(kz, phrases, tmp_path / "undisturbed")
    write(phrases, *LINES, *(f"{number}." for number in range(20)))
    lose(monkeypatch, ["d0"], {})
    outcome = kz("batch", phrases, "-o", out, "--devices", "local,local", "--json")
    assert (outcome.status, outcome.json["ok"]) == (0, 24)
    assert "going on without local: the tablet was unplugged" in outcome.err
    assert sounds(tmp_path / "undisturbed").items() <= sounds(out).items()


def test_when_the_last_device_is_lost_the_batch_ends_and_can_be_resumed(
    kz: Kz, phrases: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lose(patch, ["d0"], {})
        assert kz("batch", phrases, "-o", out).status == DeviceError.exit_code
    assert index_of(out) == []
    assert batch(kz, phrases, out)["ok"] == 4


def test_a_second_batch_in_the_folder_is_refused_while_the_first_runs(kz: Kz, phrases: Path, out: Path) -> None:
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("123\n")
        lock.flush()
        assert "another kz batch (process 123) is writing to" in kz.fails("batch", phrases, "-o", out)
    batch(kz, phrases, out)


def test_a_foreign_index_is_refused_and_a_torn_line_dropped(kz: Kz, phrases: Path, out: Path) -> None:
    batch(kz, phrases, out)
    good = (out / "index.jsonl").read_bytes()
    (out / "index.jsonl").write_bytes(good[:-100])
    (out / ".000004-Good-night.wav.abc.part").write_bytes(b"RIFF")
    assert batch(kz, phrases, out)["done_before"] == 3
    assert len(index_of(out)) == 4
    assert not list(out.glob(".*.part"))
    (out / "index.jsonl").write_text('{"my": "notes"}\n')
    assert "index.jsonl, line 1 is not a result of this kz" in kz.fails("batch", phrases, "-o", out)
    assert (out / "index.jsonl").read_text() == '{"my": "notes"}\n'


def test_a_sound_whose_record_never_came_does_not_stay(kz: Kz, phrases: Path, out: Path) -> None:
    batch(kz, phrases, out)
    lines = (out / "index.jsonl").read_bytes().splitlines(keepends=True)
    (out / "index.jsonl").write_bytes(b"".join(lines[:3]))
    write(phrases, *LINES[:3], "Something else.")
    assert batch(kz, phrases, out)["done_before"] == 3
    assert sorted(sounds(out))[3:] == ["000004-Something-else.wav"]


def test_a_full_disk_ends_the_batch_and_a_rerun_goes_on(
    kz: Kz, phrases: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        if len(sounds(out)) == 3:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        outcome = kz("batch", phrases, "-o", out)
    assert outcome.status == 8
    assert f"cannot write in {out}: No space left on device; free some space" in outcome.err
    assert batch(kz, phrases, out)["done_before"] == 2
    assert len(sounds(out)) == 4


def test_an_index_never_reaches_outside_its_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim.wav"
    victim.touch()
    (tmp_path / "out").mkdir()
    hostile = record(1, output="../victim.wav")
    (tmp_path / "out/index.jsonl").write_bytes(msgspec.json.encode(hostile) + b"\n")
    with Index(tmp_path / "out") as index:
        index.add(record(1, output="000001.wav"))
    assert victim.exists()


def record(number: int, output: str = "", status: phrase_tasks.Status = "ok") -> Record:
    return Record(
        number=number, line=number, id=None, text=f"Text {number}.", output=output, status=status, message=None, inputs="0" * 64
    )


def test_an_index_of_a_hundred_thousand_lines_is_not_held_in_memory(tmp_path: Path) -> None:
    lines = [msgspec.json.encode(record(number)) for number in (*range(100_000, 0, -1), 7)]
    (tmp_path / "index.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    del lines
    tracemalloc.start()
    with Index(tmp_path) as index:
        found = index.get(99_999)
        assert found is not None
        assert found.number == 99_999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000
    with (tmp_path / "index.jsonl").open() as file:
        assert [json.loads(line)["number"] for line in islice(file, 10)] == list(range(1, 11)), "compacted, in order"


def test_ctrl_c_leaves_what_is_done_and_no_runner_and_a_rerun_goes_on(kz: Kz, tmp_path: Path, out: Path) -> None:
    lines = [f"{number} {'encore ' * 8}" for number in range(60)]
    phrases = write(tmp_path / "a.txt", *lines)
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "batch", str(phrases), "-o", str(out)]
    command += ["--bundle", str(BABBLE)]
    # A group of its own, as a terminal has: Ctrl-C reaches the runners as well.
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(sounds(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert errors.decode().splitlines()[-1] == "kz: interrupted; nothing was left half-written"
    assert b"Traceback" not in errors
    assert b"ignored" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert not list(out.glob(".*.part"))
    kept = len(index_of(out))
    assert len(sounds(out)) - kept in (0, 1), "it may come between a sound and its record"
    assert batch(kz, phrases, out)["done_before"] == kept


def test_an_opening_that_fails_closes_the_others() -> None:
    opened = Synthesizer(BABBLE, "local")

    def fail() -> Synthesizer:
        raise RunnerError("no")

    with pytest.raises(RunnerError):
        batch_devices.open_synthesizers([lambda: opened, fail])
    assert opened._generator._channel._process.poll() is not None  # type: ignore[attr-defined]
