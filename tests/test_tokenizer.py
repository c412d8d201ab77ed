"""The tokenizer: markers by id, every text as plain characters, the golden ids of the reference."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.checkpoint.tiny_tokenizer import MARKERS, tokenizer_config, tokenizer_files
from kazeia.errors import BundleError, CheckpointError, UsageError
from kazeia.tokenizer import Tokenizer, build_tokenizer, write_tokenizer
from tests.support.awkward import AWKWARD
from tests.support.real_vocabulary import write_real_tokenizer

GOLDEN = Path(__file__).parent / "data" / "tokenizer_golden.json"
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.sampled_from([*MARKERS, " ", "\n", "a"])).map("".join)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=1)
    return Checkpoint.open(folder)


@pytest.fixture(scope="module")
def path(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "tokenizer.json"
    write_tokenizer(checkpoint, path)
    return path


@pytest.fixture(scope="module")
def tiny(path: Path) -> Tokenizer:
    return Tokenizer.load(path)


@pytest.fixture(scope="module")
def decoder(path: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def real_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_real_tokenizer(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def real(real_folder: Path) -> Tokenizer:
    return Tokenizer(build_tokenizer(real_folder))


def test_awkward_texts_have_the_references_ids(real: Tokenizer) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [entry["text"] for entry in golden] == AWKWARD
    for entry in golden:
        assert real.encode(entry["text"]) == entry["ids"], repr(entry["text"])


def test_turns_have_their_markers(real: Tokenizer) -> None:
    start, end, assistant, user, newline = 151644, 151645, 77091, 872, 198
    hello = [9707]
    assert real.encode_reference("Hello") == [start, assistant, newline, *hello, end, newline]
    assert real.encode_assistant("Hello") == [*real.encode_reference("Hello"), start, assistant, newline]
    assert real.encode_instruct("Hello") == [start, user, newline, *hello, end, newline]


def test_a_leading_newline_joins_that_of_the_role(real: Tokenizer, tiny: Tokenizer) -> None:
    assert real.encode_reference("\nHello") == [151644, 77091, 271, 9707, 151645, 198]
    plain, leading = tiny.encode_reference("a"), tiny.encode_reference("\na")
    assert len(leading) == len(plain)
    assert leading[2] != plain[2]


def test_merges_that_begin_with_a_hash_are_kept(real: Tokenizer, tiny: Tokenizer) -> None:
    assert real.encode("##") == [565]
    assert len(tiny.encode("####")) == 1


def test_roles_are_single_tokens_as_prompts_are_cut_by_count(tiny: Tokenizer) -> None:
    assert len(tiny.encode_assistant("")) == 3 + 5
    assert len(tiny.encode_instruct("")) == 3 + 2


@pytest.mark.parametrize("marker", MARKERS)
def test_markers_in_a_text_are_plain_characters(real: Tokenizer, tiny: Tokenizer, marker: str) -> None:
    assert max(real.encode(f"a{marker}b")) < 151643
    assert max(tiny.encode(f"a{marker}b")) < 576


@given(text=TEXTS)
def test_every_text_comes_back_and_gives_no_control_id(tiny: Tokenizer, decoder: tokenizers.Tokenizer, text: str) -> None:
    ids = tiny.encode(text)
    assert all(token_id < 576 for token_id in ids)
    assert decoder.decode(ids) == unicodedata.normalize("NFC", text)


@given(text=TEXTS)
def test_turns_begin_and_end_the_same_whatever_the_text(tiny: Tokenizer, text: str) -> None:
    empty, ids = tiny.encode_assistant(""), tiny.encode_assistant(text)
    assert ids[:2] == empty[:2]
    assert ids[-5:] == empty[-5:]
    assert set(ids[2:-5]).isdisjoint(range(576, 609))


def test_texts_that_are_no_unicode_are_refused(tiny: Tokenizer) -> None:
    with pytest.raises(UsageError, match="the text is not valid Unicode; save it as UTF-8 and try again"):
        tiny.encode("\ud800")


def test_tokenising_imports_neither_torch_nor_transformers(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kazeia.tokenizer import Tokenizer;"
        f"Tokenizer.load(Path({str(path)!r})).encode_assistant('a'); assert not {{'torch', 'transformers'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_bundles_tokenizer_that_is_missing_or_broken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(BundleError, match=r"cannot read .*; export the checkpoint again with kz export"):
        Tokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(BundleError, match=r"is not a tokenizer .*; export the checkpoint again with kz export"):
        Tokenizer.load(path)
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(path))
    with pytest.raises(BundleError, match=r"the bundle's tokenizer has no <\|im_start\|>"):
        Tokenizer.load(path)


def broken(folder: Path, name: str, data: bytes) -> Path:
    """The small tokenizer with one file replaced."""
    for file, content in (tokenizer_files() | {name: data}).items():
        (folder / file).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("vocab.json", b"[", r"vocab.json is not as expected \(.*\); download it again"),
        ("vocab.json", b'{"a": "b"}', "vocab.json is not as expected"),
        ("merges.txt", b"a b c\n", "merges.txt has a line that is no pair: 'a b c'; download it again"),
        ("merges.txt", b"abc\n", "merges.txt has a line that is no pair: 'abc'"),
        ("merges.txt", b"qqq zzz\n", "merges.txt does not fit vocab.json"),
        ("tokenizer_config.json", b"{}", "tokenizer_config.json is not as expected"),
        (
            "tokenizer_config.json",
            json.dumps(tokenizer_config(5)).encode(),
            r"gives <\|endoftext\|> the id 5, vocab.json leaves it 576",
        ),
    ],
)
def test_a_checkpoints_broken_tokenizer_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        build_tokenizer(broken(tmp_path, name, data))


def test_a_version_line_at_the_top_of_the_merges_is_a_comment(tiny: Tokenizer, tmp_path: Path) -> None:
    folder = broken(tmp_path, "merges.txt", b"#version: 0.2\n" + tokenizer_files()["merges.txt"])
    assert build_tokenizer(folder).encode("#### assistant").ids == tiny.encode("#### assistant")


def test_a_tokenizer_that_does_not_fit_the_model_is_refused(checkpoint: Checkpoint, real_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=1)
    for name in tokenizer_files():
        (folder / name).write_bytes((real_folder / name).read_bytes())
    with pytest.raises(CheckpointError, match=r"config.json gives <\|im_start\|> the id 577, its tokenizer 151644"):
        write_tokenizer(Checkpoint.open(folder), tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokenizer.json").exists()
