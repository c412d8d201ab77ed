"""Phrase lists: what a file of each format means, and what it is refused for."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kazeia.batch import SLUG_LIMIT_BYTES, output_name
from kazeia.errors import UsageError
from kazeia.phrases import LINE_LIMIT_BYTES, Format, Phrase, PhraseList, Survey


def read(folder: Path, data: bytes | str, name: str = "list.txt", format: Format | None = None) -> list[Phrase]:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with PhraseList(path, format) as phrases:
        return list(phrases)


def texts(folder: Path, data: bytes | str, name: str = "list.txt") -> list[str]:
    return [phrase.text for phrase in read(folder, data, name)]


def survey(folder: Path, data: str, name: str = "list.txt") -> Survey:
    (folder / name).write_bytes(data.encode())
    with PhraseList(folder / name) as phrases:
        return phrases.survey()


def refusal(folder: Path, data: bytes | str, name: str = "list.txt") -> str:
    with pytest.raises(UsageError) as caught:
        read(folder, data, name)
    return str(caught.value).removeprefix(str(folder) + "/")


def test_a_plain_list_is_one_phrase_a_line_and_nothing_in_it_is_special(tmp_path: Path) -> None:
    lines = [
        '"lone quote',
        "a, b\tc",
        "# no comment",
        " spaces stay ",
        "\\n",
        "-5 degrees",
        "a\u2028b\x0bc\x85d",
        "'",
        '""',
        "last",
    ]
    assert texts(tmp_path, "\n".join(lines)) == lines


def test_line_ends_and_marks_are_no_part_of_a_phrase(tmp_path: Path) -> None:
    assert texts(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n") == ["one", "two", "three"]
    assert texts(tmp_path, b"\xef\xbb\xbftext\r\none\r\n", "list.tsv") == ["one"]
    assert texts(tmp_path, "one\n\ufefftwo") == ["one", "\ufefftwo"], "a mark only counts at the start"


def test_blank_lines_are_counted_and_numbers_do_not_depend_on_them(tmp_path: Path) -> None:
    found = read(tmp_path, "\n\none\n  \t\ntwo\n\n")
    assert [(phrase.number, phrase.line, phrase.text) for phrase in found] == [(1, 3, "one"), (2, 5, "two")]
    assert survey(tmp_path, "\n\none\n  \t\ntwo\n\n") == Survey(2, 6, 4, 0, None, False)


@pytest.mark.parametrize("data", ["", "\n \n", "\ufeff"])
def test_a_list_without_a_phrase_is_refused(tmp_path: Path, data: str) -> None:
    with pytest.raises(UsageError, match="has no phrase; write one a line"):
        survey(tmp_path, data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_utf_16_is_refused_by_name(tmp_path: Path, encoding: str, mark: str) -> None:
    found = refusal(tmp_path, f"{mark}Bonjour\nici".encode(encoding))
    assert "UTF-16" in found or "UTF-32" in found
    assert "iconv -f UTF-" in found


@pytest.mark.parametrize("byte", [b"\x9d", "你好".encode("gbk"), b"caf\xe9"])
def test_a_bad_byte_is_refused_with_its_line(tmp_path: Path, byte: bytes) -> None:
    assert refusal(tmp_path, b"one\n\nfine " + byte + b"\n").startswith("list.txt, line 3: is not UTF-8 (byte 0x")


def test_an_endless_line_is_refused_without_reading_it(tmp_path: Path) -> None:
    assert texts(tmp_path, "x" * (LINE_LIMIT_BYTES - 1) + "\n") == ["x" * (LINE_LIMIT_BYTES - 1)]
    assert "line 2: is longer than 1,048,576 bytes" in refusal(tmp_path, "a\n" + "x" * (LINE_LIMIT_BYTES + 1))


def test_columns_of_a_table(tmp_path: Path) -> None:
    data = 'Text\tid\tseed\tlanguage\tmax_frames\n"a, b\tx/1\t7\tfr\t\nnull\tnull\t\t\t9\n'
    first, second = read(tmp_path, data, "list.tsv")
    assert (first.text, first.id, first.seed, first.language, first.max_frames) == ('"a, b', "x/1", 7, "fr", None)
    assert (second.text, second.id, second.seed, second.language, second.max_frames) == ("null", "null", None, None, 9)


def test_quotes_in_csv(tmp_path: Path) -> None:
    data = 'id,text\n1,"He said ""no"", twice"\n2,say "hi"\n3,\n'
    assert [(phrase.id, phrase.text) for phrase in read(tmp_path, data, "list.csv")] == [
        ("1", 'He said "no", twice'),
        ("2", 'say "hi"'),
        ("3", ""),
    ]


def test_a_lone_quote_swallows_nothing(tmp_path: Path) -> None:
    assert "line 2: is not CSV (a quoted cell does not end on its line)" in refusal(
        tmp_path, 'text\n"one\ntwo\nthree"\n', "list.csv"
    )


def test_objects(tmp_path: Path) -> None:
    data = '{"text": "a\\nb", "id": 7, "seed": 18446744073709551615}\n\n{"text": "", "voice": "me", "text_mode": "full"}\n'
    first, second = read(tmp_path, data, "list.jsonl")
    assert (first.text, first.id, first.seed, first.number, first.line) == ("a\nb", "7", (1 << 64) - 1, 1, 1)
    assert (second.text, second.voice, second.text_mode, second.number, second.line) == ("", "me", "full", 2, 3)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.tsv", "text\tsead\nx\t7\n", "line 1: names an unknown column 'sead'; known: text, id, voice"),
        ("a.tsv", "text\tnumber\nx\t7\n", "line 1: names an unknown column 'number'"),
        ("a.tsv", "id\tseed\nx\t7\n", "line 1: does not name a column text"),
        ("a.tsv", "text\ttext\nx\t7\n", "line 1: names the column 'text' twice"),
        ("a.tsv", "text\tid\nx\n", "line 2: has 1 cells, but there are 2 columns"),
        ("a.tsv", "text\tid\nx\t1\t2\n", "line 2: has 3 cells, but there are 2 columns"),
        ("a.tsv", "text\tseed\nx\tseven\n", "line 2: is not right: Expected `int"),
        ("a.tsv", "text\tseed\nx\t-1\n", "line 2: has seed -1; seeds are between 0 and 18446744073709551615"),
        ("a.tsv", "text\tseed\nx\t18446744073709551616\n", "line 2: has seed 18446744073709551616"),
        ("a.tsv", "text\tmax_frames\nx\t0\n", "line 2: has max_frames 0; it must be at least 1"),
        ("a.tsv", "text\ttext_mode\nx\tfast\n", "line 2: is not right: Invalid enum value 'fast'"),
        ("a.jsonl", '{"text": "a", "sead": 7}\n', "line 1: names an unknown column 'sead'"),
        ("a.jsonl", '{"text": "a"}\n{"text": 7}\n', "line 2: is not right: Expected `str`, got `int`"),
        ("a.jsonl", '{"text": "a", "seed": "7"}\n', "line 1: is not right: Expected `int"),
        ("a.jsonl", '{"text": "a", "id": true}\n', "line 1: is not right: Expected `str"),
        ("a.jsonl", '{"id": "a"}\n', "line 1: is not right: Object missing required field `text`"),
        ("a.jsonl", '[{"text": "a"}]\n', "line 1: starts an array; write one object a line"),
        ("a.jsonl", "Bonjour.\n", "line 1: is not right: JSON is malformed"),
        ("a.jsonl", '{"text": "\\ud800"}\n', "line 1: is not right"),
    ],
)
def test_a_broken_list_is_refused_with_the_line_and_the_reason(tmp_path: Path, name: str, data: str, problem: str) -> None:
    assert problem in refusal(tmp_path, data, name)


def test_a_missing_list_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            PhraseList(path)


def test_a_list_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    with PhraseList(Path("-")) as phrases:
        assert [phrase.text for phrase in phrases] == ["one", "two"]
        assert phrases.survey().phrases == 2, "it can be read again"


def test_changing_a_list_that_is_open_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("one\ntwo\n")
    with PhraseList(tmp_path / "list.txt") as phrases:
        (tmp_path / "list.txt").write_text("other")
        assert [phrase.text for phrase in phrases] == ["one", "two"]


def test_twin_ids_are_counted(tmp_path: Path) -> None:
    data = "id\ttext\nHello\ta\nhello\tb\ncafé\tc\ncafe\u0301\td\nx\te\n"
    found = survey(tmp_path, data, "list.tsv")
    assert (found.twin_ids, found.first_twin) == (2, "hello")


@pytest.mark.parametrize("suffix", ["txt", "jsonl"])
def test_a_hundred_thousand_lines_take_no_memory(tmp_path: Path, suffix: str) -> None:
    text = "This is a phrase of some length, as they are. " * 2
    line = text if suffix == "txt" else json.dumps({"text": text})
    path = tmp_path / f"list.{suffix}"
    path.write_text(f"{line}\n" * 100_000)
    with PhraseList(path) as phrases:
        next(iter(phrases))
        tracemalloc.start()
        assert sum(1 for _ in phrases) == 100_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1_000_000


PLAIN_LINE = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda line: bool(line.strip())
)


@given(st.lists(PLAIN_LINE, min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_every_plain_line_comes_out_as_it_went_in(tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str) -> None:
    data = "\ufeff" + end.join(lines) + end
    assert texts(tmp_path_factory.mktemp("lists"), data) == lines


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_every_object_comes_out_as_it_went_in(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    data = "\n".join(json.dumps({"text": line, "id": line}) for line in lines)
    found = read(tmp_path_factory.mktemp("lists"), data, "list.jsonl")
    assert [(phrase.text, phrase.id) for phrase in found] == [(line, line or None) for line in lines]


@given(st.binary(), st.sampled_from(["plain", "tsv", "csv", "jsonl"]))
def test_any_bytes_parse_or_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, format: Format) -> None:
    with contextlib.suppress(UsageError):
        found = read(tmp_path_factory.mktemp("lists"), data, format=format)
        assert [phrase.number for phrase in found] == list(range(1, len(found) + 1))


HOSTILE = [
    "../x",
    "a/b\\c",
    "CON",
    ".",
    "..",
    "-rf",
    "what?: yes*",
    "$(id)",
    "a\nb",
    "x" * 300,
    "你" * 200,
    "é" * 200,
    "😀",
    "\u202eabc",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_become_safe_ones(name: str) -> None:
    check_name(output_name(Phrase(text="x", id=name, number=12)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_becomes_a_safe_name(text: str) -> None:
    check_name(output_name(Phrase(text=text, number=12)))


def check_name(found: str) -> None:
    assert found.startswith("000012")
    assert found.endswith(".wav")
    assert len(found.encode()) <= SLUG_LIMIT_BYTES + 11
    kinds = {unicodedata.category(character)[0] for character in found}
    assert kinds <= set("LNMP")
    assert not set(found.removesuffix(".wav")) & set('/\\:*?"<>|.$& ')


def test_names_are_readable_and_tell_twins_apart() -> None:
    names = [output_name(Phrase(text=text, number=number)) for number, text in enumerate(["Hello, you!", "hello you", "…"], 1)]
    assert names == ["000001-Hello-you.wav", "000002-hello-you.wav", "000003.wav"]
    composed, apart = (output_name(Phrase(text="x", id=name, number=1)) for name in ("café", "cafe\u0301"))
    assert composed == apart == "000001-café.wav"
    assert output_name(Phrase(text="你" * 200, number=1_234_567)) == f"1234567-{'你' * 21}.wav"
