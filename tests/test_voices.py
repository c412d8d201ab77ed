"""Voices on disk, by name, from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kazeia.bundle import Bundle
from kazeia.errors import VoiceError
from kazeia.voices import Voice, list_voices, load_voice, read_codes, read_embedding, read_voice, remove_voice, save_voice

EMBEDDING = np.linspace(-1, 1, 8, dtype=np.float32)


@pytest.fixture
def bundle(fake_bundle: Path) -> Bundle:
    return Bundle.open(fake_bundle)


def test_a_saved_voice_comes_back_whole(bundle: Bundle) -> None:
    codes = np.arange(48, dtype=np.int16).reshape(3, 16)
    save_voice(Voice("anna", EMBEDDING, codes, "Guten Tag.", source="anna.wav"))
    voice = load_voice("anna", bundle)
    np.testing.assert_array_equal(voice.embedding, EMBEDDING)
    assert voice.reference_codes is not None
    np.testing.assert_array_equal(voice.reference_codes, codes)
    assert (voice.name, voice.reference_text, voice.source) == ("anna", "Guten Tag.", "anna.wav")


def test_saving_again_replaces_the_voice(bundle: Bundle) -> None:
    save_voice(Voice("anna", EMBEDDING))
    save_voice(Voice("anna", -EMBEDDING))
    np.testing.assert_array_equal(load_voice("anna", bundle).embedding, -EMBEDDING)
    assert list_voices() == ["anna"]


def test_two_spellings_of_one_accent_are_one_voice(bundle: Bundle) -> None:
    save_voice(Voice("Zo\u00eb", EMBEDDING))
    assert load_voice("Zoe\u0308", bundle).name == "Zo\u00eb"


@pytest.mark.parametrize("name", ["声音", "голос", "a b", "v1.2"])
def test_names_of_any_script_stay_distinct_files(name: str, bundle: Bundle) -> None:
    save_voice(Voice(name, EMBEDDING))
    assert list_voices() == [name]


@pytest.mark.parametrize("name", ["", " ", "../x", "a/b", ".hidden", "-rf", "a\nb", "a:b", "x" * 300, "a\x00b"])
def test_names_that_cannot_be_files_are_refused(name: str) -> None:
    with pytest.raises(VoiceError, match="cannot name a voice"):
        save_voice(Voice(name, EMBEDDING))


def test_an_unknown_voice_lists_the_known(bundle: Bundle) -> None:
    with pytest.raises(VoiceError, match="there is none yet"):
        load_voice("nobody", bundle)
    save_voice(Voice("anna", EMBEDDING))
    with pytest.raises(VoiceError, match="known: anna"):
        load_voice("nobody", bundle)


def test_removing_a_voice_that_is_not_there_says_so() -> None:
    with pytest.raises(VoiceError, match="no voice 'anna'"):
        remove_voice("anna")


def test_a_broken_voice_file_says_what_to_do(bundle: Bundle) -> None:
    path = save_voice(Voice("anna", EMBEDDING))
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(VoiceError, match="add the voice again"):
        read_voice(path)


@pytest.mark.parametrize("shape", [(8,), (1, 8)])
def test_an_embedding_file_is_one_vector(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "x.npy", EMBEDDING.reshape(shape).astype(np.float64))
    np.testing.assert_allclose(read_embedding(tmp_path / "x.npy"), EMBEDDING)


@pytest.mark.parametrize(
    "values", [np.zeros((2, 8)), np.zeros(0), np.arange(8), np.full(8, np.nan), np.zeros((1, 1, 8)), np.array(1.0)]
)
def test_anything_else_is_no_embedding(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(VoiceError, match="not one vector of finite numbers"):
        read_embedding(tmp_path / "x.npy")


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("hello")
    with pytest.raises(VoiceError, match=r"not a \.npy file"):
        read_embedding(tmp_path / "x.npy")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(VoiceError, match=r"not a \.npy file"):
        read_codes(tmp_path / "pickled.npy")
    with pytest.raises(VoiceError, match="does not exist"):
        read_codes(tmp_path / "missing.npy")


@pytest.mark.parametrize(
    "values", [np.zeros((0, 16), np.int16), np.zeros(16, np.int16), np.zeros((2, 16)), -np.ones((2, 16), int)]
)
def test_codes_are_whole_numbers_frame_by_frame(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(VoiceError):
        read_codes(tmp_path / "x.npy")
