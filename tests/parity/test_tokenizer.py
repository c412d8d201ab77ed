"""Token ids against the reference's processor, with the real vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kazeia.tokenizer import Tokenizer, build_tokenizer
from tests.parity.reference import reference
from tests.parity.tokenizer_oracle import GOLDEN, PlainOracle, load_processor, write_model_files
from tests.support.awkward import AWKWARD, PLAIN
from tests.support.real_vocabulary import write_real_tokenizer

START, END, ASSISTANT, USER, NEWLINE = 151644, 151645, 77091, 872, 198


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reference()
    return write_model_files(write_real_tokenizer(tmp_path_factory.mktemp("real")))


@pytest.fixture(scope="module")
def processor(folder: Path) -> Any:
    return load_processor(folder, fix_mistral_regex=False)


@pytest.fixture(scope="module")
def oracle(folder: Path) -> PlainOracle:
    return PlainOracle(folder)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(build_tokenizer(folder))


def test_texts_without_markers_equal_the_references_turns(processor: Any, tokenizer: Tokenizer) -> None:
    for text in PLAIN:
        turns = {
            f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n": tokenizer.encode_assistant(text),
            f"<|im_start|>assistant\n{text}<|im_end|>\n": tokenizer.encode_reference(text),
            f"<|im_start|>user\n{text}<|im_end|>\n": tokenizer.encode_instruct(text),
        }
        for joined, ids in turns.items():
            assert ids == processor(text=joined)["input_ids"][0], repr(text)


def test_all_texts_equal_the_reference_with_markers_as_plain_characters(oracle: PlainOracle, tokenizer: Tokenizer) -> None:
    for text in AWKWARD:
        spoken = oracle(f"assistant\n{text}")
        assert tokenizer.encode(text) == oracle(text), repr(text)
        assert tokenizer.encode_reference(text) == [START, *spoken, END, NEWLINE], repr(text)
        assert tokenizer.encode_assistant(text) == [START, *spoken, END, NEWLINE, START, ASSISTANT, NEWLINE], repr(text)
        assert tokenizer.encode_instruct(text) == [START, *oracle(f"user\n{text}"), END, NEWLINE], repr(text)


def test_the_golden_file_is_the_references(oracle: PlainOracle) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert golden == [{"text": text, "ids": oracle(text)} for text in AWKWARD]


def test_the_written_file_loads_in_transformers_and_agrees(folder: Path, processor: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(build_tokenizer(folder).to_str().encode())
    loaded = reference("transformers").PreTrainedTokenizerFast(tokenizer_file=str(path))
    assert loaded.get_added_vocab() == processor.tokenizer.get_added_vocab()
    special = {token.content for token in processor.tokenizer.added_tokens_decoder.values() if token.special}
    assert {token.content for token in loaded.added_tokens_decoder.values() if token.special} == special
    for text in AWKWARD:
        assert loaded(text)["input_ids"] == processor(text=text)["input_ids"][0], repr(text)


def test_the_reference_takes_a_local_folder_for_a_mistral_model(folder: Path, tokenizer: Tokenizer) -> None:
    """Loaded from a local folder, qwen-tts 0.1.1 with transformers 4.57.3 swaps Qwen's split pattern for Mistral's, because it
    passes `fix_mistral_regex=True` and the configuration's `transformers_version` is in the range that is searched. Loaded by
    its name on the hub it keeps Qwen's, as the model was trained; so does kz."""
    swapped = load_processor(folder, fix_mistral_regex=True)
    assert swapped(text="iPhone")["input_ids"][0] == [72, 6939]
    assert tokenizer.encode("iPhone") == [44740]
