"""Every bad input a person can give: one clear line that says what to do, a non-zero exit, no file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.bundles import BABBLE, fake_model, write_fake_bundle
from tests.support.command import Kz


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the built-in bundle to damage."""
    return Path(shutil.copytree(BABBLE, tmp_path / "copy"))


def refused(kz: Kz, output: Path, *arguments: object) -> str:
    """The error of a `kz speak` that must fail and leave no file behind."""
    before = sorted(output.parent.iterdir())
    message = kz.fails("speak", *arguments, "-o", output)
    assert sorted(output.parent.iterdir()) == before
    return message


@pytest.mark.parametrize("text", ["", "   ", "\n", "...", "?!", "😄"])
def test_nothing_to_say(kz: Kz, tmp_path: Path, text: str) -> None:
    assert refused(kz, tmp_path / "a.wav", text) == "kz: nothing to say: the text has no letter or digit; give at least one word"


def test_text_beyond_the_context(kz: Kz, tmp_path: Path) -> None:
    message = refused(kz, tmp_path / "a.wav", "word " * 3000)
    assert "more positions than this bundle's context of 1024; shorten it by about" in message


@pytest.mark.parametrize("name", ["talker.pte", "code_predictor.pte", "speech_decoder.pte", "codec_embeddings.bin"])
@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_a_truncated_or_empty_file(kz: Kz, tmp_path: Path, copy: Path, name: str, keep: float) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    assert f"{name} has " in refused(kz, tmp_path / "a.wav", "Hi.", "--bundle", copy)


def test_a_foreign_program(kz: Kz, tmp_path: Path, copy: Path) -> None:
    path = copy / "talker.pte"
    path.write_bytes((b"This is no program. " * 1_000_000)[: path.stat().st_size])
    assert "talker.pte is not an ExecuTorch program (found b' is ', want b'ET12')" in refused(
        kz, tmp_path / "a.wav", "Hi.", "--bundle", copy
    )


def test_a_changed_program(kz: Kz, tmp_path: Path, copy: Path) -> None:
    path = copy / "talker.pte"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "talker.pte was changed after the export (SHA-256 differs)" in refused(kz, tmp_path / "a.wav", "Hi.", "--bundle", copy)


def test_a_folder_that_is_no_bundle(kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "it has no manifest.json; make one with kz export" in refused(kz, tmp_path / "a.wav", "Hi.", "--bundle", tmp_path)
    monkeypatch.setenv("KZ_BUNDLE", str(tmp_path / "gone"))
    assert refused(kz, tmp_path / "a.wav", "Hi.").startswith("kz: $KZ_BUNDLE: ")


def test_a_voice_of_the_wrong_width(kz: Kz, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.ones(77, np.float32))
    message = refused(kz, tmp_path / "a.wav", "Hi.", "--voice", tmp_path / "wide.npy")
    assert "voice 'wide' has 77 numbers, babble needs" in message


def test_an_unknown_voice(kz: Kz, tmp_path: Path) -> None:
    assert "unknown voice 'nobody' (known: babble, murmur)" in refused(kz, tmp_path / "a.wav", "Hi.", "--voice", "nobody")


def test_an_unknown_language(kz: Kz, tmp_path: Path) -> None:
    message = refused(kz, tmp_path / "a.wav", "Hi.", "--language", "klingon")
    assert "unknown language 'klingon'; this bundle has auto, chinese, english, french" in message


def test_an_unknown_speaker(kz: Kz, tmp_path: Path) -> None:
    bundle = write_fake_bundle(tmp_path / "custom", fake_model("custom_voice"))
    assert "unknown speaker 'bob'; this bundle has dylan, ryan" in _prompt_error(bundle, speaker="bob")
    assert "choose one of the built-in speakers with --speaker: dylan, ryan" in _prompt_error(bundle)
    assert "cannot clone a voice (it is a custom_voice model)" in _prompt_error(bundle, speaker="ryan", voice=True)


def test_a_speaker_for_a_base_model(kz: Kz, tmp_path: Path) -> None:
    assert "babble has no built-in speakers; use --voice" in refused(kz, tmp_path / "a.wav", "Hi.", "--speaker", "ryan")


def test_instruct_on_a_06b_model_is_ignored_with_a_warning(kz: Kz, tmp_path: Path) -> None:
    outcome = kz("speak", "Hi.", "-o", tmp_path / "a.wav", "--instruct", "whisper", "--seed", 1)
    assert outcome.status == 0
    assert "is a 0.6B model and ignores --instruct" in outcome.err


def test_instruct_on_a_large_base_model(tmp_path: Path) -> None:
    bundle = write_fake_bundle(tmp_path / "large", fake_model("base", "1b7"))
    assert "takes no --instruct" in _prompt_error(bundle, voice=True, instruct="whisper")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--temperature", -1),
        ("--temperature", "nan"),
        ("--top-k", -1),
        ("--top-p", 0),
        ("--top-p", 2),
        ("--repetition-penalty", "nan"),
        ("--predictor-temperature", "-inf"),
        ("--predictor-top-k", -2),
        ("--predictor-top-p", "nan"),
        ("--seed", -1),
    ],
)
def test_options_out_of_range(kz: Kz, tmp_path: Path, option: str, value: object) -> None:
    assert f"{option} must be between" in refused(kz, tmp_path / "a.wav", "Hi.", option, value)


@pytest.mark.parametrize("value", [0, -5])
def test_a_frame_cap_below_one(kz: Kz, tmp_path: Path, value: int) -> None:
    assert "--max-frames must be at least 1" in refused(kz, tmp_path / "a.wav", "Hi.", "--max-frames", value)


@pytest.mark.parametrize("value", ["abc", "1.5"])
def test_options_that_are_no_numbers(kz: Kz, tmp_path: Path, value: str) -> None:
    assert f"'{value}' is not a valid integer" in refused(kz, tmp_path / "a.wav", "Hi.", "--seed", value)


def test_an_output_that_cannot_be_written(kz: Kz, tmp_path: Path) -> None:
    assert "it is a folder; name a file in it" in kz.fails("speak", "Hi.", "-o", tmp_path)
    missing = kz.fails("speak", "Hi.", "-o", tmp_path / "no" / "a.wav")
    assert "No such file or directory; choose another place with -o" in missing
    assert "cannot write /proc/a.wav" in kz.fails("speak", "Hi.", "-o", "/proc/a.wav")


def test_input_that_is_not_utf8(kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_bytes(b"caf\xe9")
    with (tmp_path / "text").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert "standard input is not UTF-8 (byte 3); convert it with iconv" in refused(kz, tmp_path / "a.wav", "-")


def test_an_unknown_device(kz: Kz, tmp_path: Path) -> None:
    assert "unknown device 'toaster'" in refused(kz, tmp_path / "a.wav", "Hi.", "--device", "toaster")


@pytest.mark.parametrize("shape", [(3, 15), (3, 17)])
def test_codes_of_another_shape_do_not_decode(kz: Kz, tmp_path: Path, shape: tuple[int, int]) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape, np.int16))
    message = kz.fails("decode", tmp_path / "x.npy", "-o", tmp_path / "a.wav")
    assert f"holds {list(shape)} codes up to 0; babble takes [frames, 16] below" in message


def test_codes_beyond_the_codebook_do_not_decode(kz: Kz, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((3, 16), 5000, np.int16))
    assert "codes up to 5000" in kz.fails("decode", tmp_path / "x.npy", "-o", tmp_path / "a.wav")
    assert not (tmp_path / "a.wav").exists()


def _prompt_error(folder: Path, *, speaker: str | None = None, voice: bool = False, instruct: str | None = None) -> str:
    """The message of a prompt that cannot be built."""
    from kazeia.bundle import Bundle
    from kazeia.errors import KazeiaError
    from kazeia.prompt import Request, build_prompt
    from kazeia.voices import Voice

    given = Voice("v", np.ones(8, np.float32)) if voice else None
    with pytest.raises(KazeiaError) as caught:
        build_prompt(Bundle.open(folder), Request("Hi.", given, speaker, instruct))
    return str(caught.value)
