"""`kz batch` on the built-in bundle: what is spoken, kept, skipped, counted and refused."""

from __future__ import annotations

import html.parser
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kazeia import batch_report
from kazeia.batch import speak_list
from kazeia.batch_index import Index
from kazeia.bundle import Bundle
from kazeia.errors import VoiceError
from kazeia.phrase_tasks import Outcome, Preparer, Task, derived_seed
from kazeia.phrases import Phrase, PhraseList
from kazeia.synthesis import Options, Synthesizer
from kazeia.voices import Voice, save_voice
from tests.support.batches import LINES, batch, index_of, out, phrases, sounds, spoken, write, write_objects
from tests.support.bundles import BABBLE
from tests.support.command import Kz

__all__ = ["out", "phrases"]


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
    preparer = Preparer(Bundle.open(BABBLE), options)
    with PhraseList(phrases) as opened:
        return [preparer.task(phrase) for phrase in opened]


def test_a_voice_of_the_same_name_but_another_sound_means_another_result(kz: Kz, tmp_path: Path, out: Path) -> None:
    width = Bundle.open(BABBLE).manifest.model.speaker_embedding_size
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


def test_a_folder_that_cannot_be_written_or_is_none_is_refused(kz: Kz, phrases: Path, tmp_path: Path) -> None:
    for place in (phrases, phrases / "below", Path("/proc/out")):
        assert "choose another folder with -o" in kz.fails("batch", phrases, "-o", place)


def test_devices_and_a_cluster_exclude_each_other(kz: Kz, phrases: Path, out: Path) -> None:
    assert "--devices does not go with --dask" in kz.fails("batch", phrases, "-o", out, "--devices", "local", "--dask", "x:1")


def test_a_list_may_come_from_standard_input(phrases: Path, out: Path) -> None:
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "batch", "-", "-o", str(out)]
    subprocess.run(command, input=phrases.read_bytes(), check=True, capture_output=True)
    assert [record["text"] for record in index_of(out)] == LINES, "nothing else reads standard input"


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
        speak_list(opened, opened.survey(), index, Counting(Bundle.open(BABBLE)), speaking, lambda _: None)  # type: ignore[arg-type]


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


def test_an_option_of_speak_is_one_of_batch(kz: Kz) -> None:
    from kazeia.commands.batch import AS_SPEAK, command

    assert set(AS_SPEAK) <= {param.name for param in command.params}
