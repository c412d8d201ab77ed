"""`kz batch` on the built-in bundle: what is spoken, kept, skipped, counted and refused."""

from __future__ import annotations

import fcntl
import html.parser
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kazeia import batch_devices, batch_report, phrase_tasks
from kazeia.batch import speak_list
from kazeia.batch_index import Index, Record
from kazeia.bundle import Bundle
from kazeia.bundle_choice import BUILTIN
from kazeia.errors import DeviceError, RunnerError, VoiceError
from kazeia.phrase_tasks import Outcome, Preparer, Task, derived_seed, retry_seed
from kazeia.phrases import Phrase, PhraseList
from kazeia.synthesis import Options, Speech, Synthesizer
from kazeia.voices import Voice, save_voice
from tests.support.command import Kz

LINES = ["Bonjour.", "Hello there, you.", "Un, deux, trois.", "Good night."]


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    return write(tmp_path / "list.txt", *LINES)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def write_objects(path: Path, *objects: dict[str, Any]) -> Path:
    return write(path, *(json.dumps(each) for each in objects))


def index_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


def sounds(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.wav"))}


def batch(kz: Kz, phrases: Path, out: Path, *options: object, status: int = 0) -> dict[str, Any]:
    outcome = kz("batch", phrases, "-o", out, "--json", *options)
    assert outcome.status == status, outcome
    result: dict[str, Any] = outcome.json
    return result


def spoken(kz: Kz, folder: Path, text: str, seed: int, *options: object) -> bytes:
    assert kz("speak", text, "-o", folder / "alone.wav", "--seed", seed, *options).status == 0
    return (folder / "alone.wav").read_bytes()


def test_a_list_becomes_a_folder_with_an_index(kz: Kz, phrases: Path, out: Path) -> None:
    outcome = kz("batch", phrases, "-o", out)
    assert outcome.status == 0
    assert outcome.out.startswith(f"{out}: 4 of 4 phrases spoken, 0 were there, 0 failed; ")
    records = index_of(out)
    assert [record["output"] for record in records] == sorted(sounds(out))
    assert [record["text"] for record in records] == LINES
    assert {path.name for path in out.iterdir()} == {".lock", "index.jsonl", *sounds(out)}
    for record in records:
        assert (record["status"], record["message"], record["seeds_tried"], record["restarts"]) == ("ok", None, 1, 0)
        assert (out / record["output"]).stat().st_size == record["bytes"] == 44 + 2 * 1920 * record["frames"]
        assert record["seed"] == derived_seed(Phrase(text=record["text"]))


def test_the_result_as_json_counts_everything(kz: Kz, tmp_path: Path, out: Path) -> None:
    result = batch(kz, write(tmp_path / "a.txt", "One.", "", "Two.", "...", ""), out, status=13)
    counts = {
        name: result[name] for name in ("phrases", "done_before", "ok", "frame_cap", "nothing_to_say", "failed", "blank_lines")
    }
    assert list(counts.values()) == [3, 0, 2, 0, 1, 0, 2]
    assert result["audio_s"] == pytest.approx(sum(record["audio_s"] or 0 for record in index_of(out)))
    assert 0 < result["rtf_first"] == result["rtf_last"]
    assert result["rtf"] == pytest.approx(result["elapsed_s"] / result["audio_s"])


def test_the_same_line_and_seed_give_the_same_bytes_alone_and_anywhere_in_a_batch(kz: Kz, tmp_path: Path) -> None:
    line, others = "Bonjour, toi.", ["Un.", "Deux, trois.", "Quatre."]
    expected = spoken(kz, tmp_path, line, derived_seed(Phrase(text=line)))
    places = {"first": [line, *others], "middle": [others[0], line, *others[1:]], "last": [*others, line]}
    for place, lines in places.items():
        devices = "local,local" if place == "middle" else "local"
        batch(kz, write(tmp_path / "a.txt", *lines), tmp_path / place, "--devices", devices)
        (found,) = (tmp_path / place).glob("*Bonjour*.wav")
        assert found.read_bytes() == expected, place
    objects = write_objects(tmp_path / "a.jsonl", {"text": line, "seed": 7}, {"text": line, "seed": 8}, {"text": line, "seed": 7})
    batch(kz, objects, tmp_path / "seeds")
    seven, eight, again = sounds(tmp_path / "seeds").values()
    assert seven == again == spoken(kz, tmp_path, line, 7) != eight


def test_the_seed_option_is_that_of_every_phrase_without_one(kz: Kz, tmp_path: Path, out: Path) -> None:
    batch(kz, write_objects(tmp_path / "a.jsonl", {"text": "Bonjour."}, {"text": "Bonjour.", "seed": 7}), out, "--seed", 9)
    assert [record["seed"] for record in index_of(out)] == [9, 7]
    assert list(sounds(out).values()) == [spoken(kz, tmp_path, "Bonjour.", 9), spoken(kz, tmp_path, "Bonjour.", 7)]


def test_an_id_is_what_the_seed_comes_from() -> None:
    seeds = [derived_seed(phrase) for phrase in (Phrase(text="a"), Phrase(text="a", id="x"), Phrase(text="b", id="x"))]
    assert seeds[0] != seeds[1] == seeds[2]
    assert derived_seed(Phrase(text="a", id="é")) == derived_seed(Phrase(text="a", id="e\u0301"))
    assert seeds[0] == 221021742702426, "seeds of a release stay those of the next"


def test_what_is_there_and_right_is_not_spoken_again(kz: Kz, phrases: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch(kz, phrases, out)
    before, stamps = sounds(out), [path.stat().st_mtime_ns for path in sorted(out.glob("*.wav"))]
    monkeypatch.setattr(Synthesizer, "__init__", lambda *_: pytest.fail("no runner is needed"))
    result = batch(kz, phrases, out)
    assert (result["done_before"], result["ok"]) == (4, 0)
    assert [path.stat().st_mtime_ns for path in sorted(out.glob("*.wav"))] == stamps
    assert sounds(out) == before


def test_only_what_is_missing_changed_or_damaged_is_spoken_again(kz: Kz, phrases: Path, out: Path) -> None:
    batch(kz, phrases, out)
    before = sounds(out)
    names = sorted(before)
    (out / names[0]).unlink()
    (out / names[1]).write_bytes(before[names[1]][:-2] + b"\x01\x01")
    write(phrases, *LINES[:3], "Good morning.", "And one more.")
    result = batch(kz, phrases, out)
    assert (result["done_before"], result["ok"]) == (1, 4)
    after = sounds(out)
    assert {name: after[name] for name in names[:3]} == {name: before[name] for name in names[:3]}
    assert sorted(after)[3:] == ["000004-Good-morning.wav", "000005-And-one-more.wav"], "the old fourth one is gone"
    assert len(index_of(out)) == 5, "one line a phrase"


@pytest.mark.parametrize("option", [("--temperature", "0.5"), ("--language", "en"), ("--max-frames", "200"), ("--seed", "5")])
def test_another_option_means_another_result(kz: Kz, phrases: Path, out: Path, option: tuple[str, str]) -> None:
    inputs = {task.inputs for task in tasks_of(phrases, Options())}
    changed = {"--temperature": {}, "--language": {"language": "en"}, "--max-frames": {"max_frames": 200}, "--seed": {"seed": 5}}
    batch(kz, phrases, out)
    assert batch(kz, phrases, out, *option)["done_before"] == 0
    if changed[option[0]]:
        assert not inputs & {task.inputs for task in tasks_of(phrases, Options(**changed[option[0]]))}


def tasks_of(phrases: Path, options: Options) -> list[Task]:
    preparer = Preparer(Bundle.open(BUILTIN), options)
    with PhraseList(phrases) as opened:
        return [preparer.task(phrase) for phrase in opened]


def test_a_voice_of_the_same_name_but_another_sound_means_another_result(kz: Kz, tmp_path: Path, out: Path) -> None:
    width = Bundle.open(BUILTIN).manifest.model.speaker_embedding_size
    objects = write_objects(tmp_path / "a.jsonl", {"text": "Bonjour.", "voice": "me"}, {"text": "Bonsoir."})
    for value in (0.01, 0.03):
        save_voice(Voice("me", np.full(width, value, np.float32)))
        assert batch(kz, objects, out)["ok"] == (2 if value == 0.01 else 1)


def test_lines_the_list_no_longer_has_are_left_and_told(kz: Kz, phrases: Path, out: Path) -> None:
    batch(kz, phrases, out)
    write(phrases, *LINES[:2])
    outcome = kz("batch", phrases, "-o", out, "--json")
    assert outcome.json["leftover_results"] == 2
    assert "also has 2 results of lines that the list no longer has" in outcome.err
    assert len(sounds(out)) == 4


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


def test_a_device_that_is_not_there_is_refused_before_anything_is_spoken(kz: Kz, phrases: Path, out: Path) -> None:
    assert "unknown device 'moon'" in kz.fails("batch", phrases, "-o", out, "--devices", "local,moon")
    assert index_of(out) == []


@pytest.mark.parametrize(
    ("options", "status", "problem"),
    [
        (("--voice", "nobody"), VoiceError.exit_code, "unknown voice 'nobody'"),
        (("--language", "klingon"), 2, "unknown language 'klingon'"),
        (("--seed", -1), 2, "--seed must be between"),
        (("--max-frames", 0), 2, "--max-frames must be at least 1"),
        (("--temperature", -1), 2, "--temperature must be between"),
        (("--speaker", "ryan"), 2, "no built-in speakers"),
        (("--bundle", "/nowhere"), 6, "is not a bundle"),
    ],
)
def test_what_would_be_wrong_for_every_phrase_is_refused_at_once(
    kz: Kz, phrases: Path, out: Path, options: tuple[object, ...], status: int, problem: str
) -> None:
    outcome = kz("batch", phrases, "-o", out, *options)
    assert outcome.status == status
    assert problem in outcome.err
    assert not out.exists()


def test_a_broken_list_is_refused_at_once(kz: Kz, tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\nbad \x9d\n")
    assert "line 2: is not UTF-8" in kz.fails("batch", tmp_path / "a.txt", "-o", out)
    assert not out.exists()


def test_twin_names_are_told_and_kept_apart(kz: Kz, tmp_path: Path, out: Path) -> None:
    names = ["../x", "Hello", "hello", "é", "e\u0301", "x" * 300]
    objects = [{"text": "Un.", "id": name} for name in names]
    outcome = kz("batch", write_objects(tmp_path / "a.jsonl", *objects), "-o", out)
    assert outcome.status == 0
    assert "ids that came before: 2 (first: 'hello')" in outcome.err
    assert len({name.casefold() for name in sounds(out)}) == 6
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".wav"] == []


def test_a_second_batch_in_the_folder_is_refused_while_the_first_runs(kz: Kz, phrases: Path, out: Path) -> None:
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("123\n")
        lock.flush()
        assert "another kz batch (process 123) is writing to" in kz.fails("batch", phrases, "-o", out)
    batch(kz, phrases, out)


def test_a_folder_that_cannot_be_written_or_is_none_is_refused(kz: Kz, phrases: Path, tmp_path: Path) -> None:
    for place in (phrases, phrases / "below", Path("/proc/out")):
        assert "choose another folder with -o" in kz.fails("batch", phrases, "-o", place)


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


def test_devices_and_a_cluster_exclude_each_other(kz: Kz, phrases: Path, out: Path) -> None:
    assert "--devices does not go with --dask" in kz.fails("batch", phrases, "-o", out, "--devices", "local", "--dask", "x:1")


def test_a_list_may_come_from_standard_input(phrases: Path, out: Path) -> None:
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "batch", "-", "-o", str(out)]
    subprocess.run(command, input=phrases.read_bytes(), check=True, capture_output=True)
    assert [record["text"] for record in index_of(out)] == LINES, "nothing else reads standard input"


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


def test_tasks_are_made_as_they_are_asked_for_and_results_are_on_the_disk_at_once(tmp_path: Path) -> None:
    made = 0

    class Counting(Preparer):
        def task(self, phrase: Phrase) -> Task:
            nonlocal made
            made += 1
            return super().task(phrase)

    def speaking(tasks: Iterator[Task]) -> Iterator[Outcome]:
        for number, task in enumerate(tasks, 1):
            assert made == number
            assert len(index_of(tmp_path / "out")) == number - 1
            yield Outcome(task, "failed", None, "no", (), 0)

    with PhraseList(write(tmp_path / "a.txt", *(f"{n}." for n in range(200)))) as opened, Index(tmp_path / "out") as index:
        speak_list(opened, opened.survey(), index, Counting(Bundle.open(BUILTIN)), speaking, lambda _: None)  # type: ignore[arg-type]


def test_the_report_is_one_page_with_everything_in_it(kz: Kz, tmp_path: Path, out: Path) -> None:
    lines = ["Bonjour.", "<script>alert('&amp;')</script> 1", "...", "\u202eשלום 2"]
    result = batch(kz, write(tmp_path / "a.txt", *lines), out, "--report", out / "report.html", status=13)
    page = (out / "report.html").read_text()
    parser = Page(page)
    assert result["report"] == str(out / "report.html")
    assert parser.count == {"audio": 3, "svg": 3, "path": 3}
    assert all(source.startswith("data:audio/flac;base64,") for source in parser.sources)
    assert [text for text in parser.texts if text in lines] == ["...", *lines]
    assert "nothing_to_say: nothing to say: the text has no letter or digit; give at least one word" in parser.texts
    assert "http" not in page.replace("http-equiv", "")
    batch(kz, write(tmp_path / "a.txt", *lines), out, "--report", out / "report.html", status=13)
    assert Page((out / "report.html").read_text()).count == parser.count, "also of what was there before"


class Page(html.parser.HTMLParser):
    """What a browser would find."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.sources: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        if tag in ("audio", "svg", "path"):
            self.count[tag] = self.count.get(tag, 0) + 1
        self.sources += [value or "" for name, value in attributes if name == "src"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_waveform_shows_the_sound() -> None:
    quiet, loud = np.zeros(4800, np.int16), np.full(4800, 32767, np.int16)
    path = batch_report.waveform(np.concatenate([quiet, loud]))
    assert path.startswith("M0 20.0V20.5M1 20.0V20.5")
    assert path.endswith("M239 0.0V0.5")
    assert batch_report.waveform(np.array([1], np.int16)).count("M") == 1


def test_the_library_speaks_a_batch_too(tmp_path: Path) -> None:
    with Synthesizer() as synthesizer:
        found = list(synthesizer.batch(["Bonjour.", "...", Phrase(text="Bonjour.", seed=7)]))
        assert [outcome.status for outcome in found] == ["ok", "nothing_to_say", "ok"]
        for outcome in (found[0], found[2]):
            assert outcome.speech is not None
            alone = synthesizer.speak("Bonjour.", Options(seed=outcome.seeds[-1]))
            np.testing.assert_array_equal(outcome.speech.samples, alone.samples)


def test_ctrl_c_leaves_what_is_done_and_no_runner_and_a_rerun_goes_on(kz: Kz, tmp_path: Path, out: Path) -> None:
    lines = [f"{number} {'encore ' * 8}" for number in range(60)]
    phrases = write(tmp_path / "a.txt", *lines)
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "batch", str(phrases), "-o", str(out)]
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


def test_progress_tells_phrases_sound_speed_and_time_left(
    kz: Kz, phrases: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kazeia.commands import output

    monkeypatch.setattr(output, "FIRST_PROGRESS_S", 0.0)
    monkeypatch.setattr(output, "PLAIN_PROGRESS_EVERY_S", 0.0)
    lines = [line for line in kz("batch", phrases, "-o", out).err.splitlines() if "phrases, " in line]
    assert [line.split(" ")[0] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]
    assert " s of sound, RTF " in lines[0]
    assert lines[-1].endswith(", 0:00 left")


def test_an_opening_that_fails_closes_the_others() -> None:
    opened = Synthesizer(BUILTIN, "local")

    def fail() -> Synthesizer:
        raise RunnerError("no")

    with pytest.raises(RunnerError):
        batch_devices.open_synthesizers([lambda: opened, fail])
    assert opened._generator._channel._process.poll() is not None  # type: ignore[attr-defined]


def test_an_option_of_speak_is_one_of_batch(kz: Kz) -> None:
    from kazeia.commands.batch import AS_SPEAK, command

    assert set(AS_SPEAK) <= {param.name for param in command.params}
