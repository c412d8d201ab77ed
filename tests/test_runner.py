"""kz_runner as a process, on the tiny bundle of tests/runner: the same codes as PyTorch, determinism, damage, hang-ups."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.runner.build import built_runner
from tests.runner.client import GREEDY, SAMPLED, Codes, Floats, Runner
from tests.runner.eager_loop import EagerLoop
from tests.runner.tiny_bundle import CODEBOOK, CONTEXT, GROUPS, MEL_BINS, TINY_BUNDLE, WIDTH


def floats(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def codes_of(seed: int, frames: int) -> Codes:
    return np.random.default_rng(seed).integers(0, CODEBOOK, (frames, GROUPS)).astype(np.int16)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tiny bundle to damage."""
    return Path(shutil.copytree(TINY_BUNDLE, tmp_path / "bundle"))


def refusal(bundle: Path, role: str = "generate") -> str:
    """The message of a runner that must fail to load `bundle`."""
    command = [str(built_runner("release")), "--bundle", str(bundle), "--role", role]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["type"], answer["code"]) == ("error", "load_failed")
    assert str(answer["message"]) in done.stderr.decode()
    return str(answer["message"])


def test_greedy_codes_are_those_of_the_models() -> None:
    """Prompts below, at and above the prefill size, with and without trailing text, all in one process."""
    loop = EagerLoop()
    with Runner(TINY_BUNDLE, "generate") as runner:
        for tokens in (1, 3, 4, 5, 10):
            prompt, trailing, pad = floats(tokens, tokens, WIDTH), floats(50 + tokens, tokens % 4, WIDTH), floats(99, WIDTH)
            frames = CONTEXT - tokens
            codes, done = runner.generate(prompt, trailing, pad, **GREEDY)
            expected = loop.generate(prompt, trailing, pad, frames)
            assert codes.tolist() == expected.tolist()
            assert done["frames"] == len(expected)
            assert done["stop_reason"] == ("frame_cap" if len(expected) == frames else "eos")
            assert done["kv_copied_bytes"] == 0


def test_a_seed_decides_whatever_came_before_and_on_any_number_of_threads() -> None:
    prompt, trailing, pad = floats(1, 6, WIDTH), floats(2, 3, WIDTH), floats(3, WIDTH)
    runs: list[Codes] = []
    for threads in ("1", "2"):
        with Runner(TINY_BUNDLE, "generate", "--threads", threads) as runner:
            first, other, again = (runner.generate(prompt, trailing, pad, **{**SAMPLED, "seed": seed})[0] for seed in (7, 8, 7))
        assert first.tolist() == again.tolist()
        assert first.tolist() != other.tolist()
        runs.append(first)
    assert runs[0].tolist() == runs[1].tolist()


def test_sound_does_not_depend_on_the_pieces() -> None:
    codes = codes_of(1, 26)
    with Runner(TINY_BUNDLE, "decode") as runner:
        whole = runner.decode(codes, reset=True)
        for size in (1, 7, 25):
            pieces = [runner.decode(codes[at : at + size], reset=at == 0) for at in range(0, len(codes), size)]
            assert np.array_equal(np.concatenate(pieces), whole)
        assert not np.array_equal(runner.decode(codes, reset=False), whole)


def test_a_code_outside_the_codebook_is_named_and_the_decoder_starts_afresh() -> None:
    codes = codes_of(2, 3)
    wrong = codes.copy()
    wrong[1, 4] = CODEBOOK
    with Runner(TINY_BUNDLE, "decode") as runner:
        whole = runner.decode(codes, reset=True)
        runner.send({"type": "decode", "id": "w", "frames": 3, "reset": False}, wrong.tobytes())
        answer, _ = runner.receive()
        assert answer["message"] == "code 8 of frame 1, codebook 4 is not between 0 and 7; check the codes"
        assert np.array_equal(runner.decode(codes, reset=False), whole)


@pytest.mark.parametrize(("frames", "bins", "message"), [(1, 4, "at least 2"), (65, 4, "at most 64"), (2, 5, "has 5 bins")])
def test_a_mel_that_does_not_fit_is_refused(frames: int, bins: int, message: str) -> None:
    with Runner(TINY_BUNDLE, "embed") as runner:
        runner.send({"type": "embed", "id": "e", "mel_frames": frames, "mel_bins": bins}, floats(1, frames, bins).tobytes())
        answer, _ = runner.receive()
    assert message in answer["message"]


def test_a_prompt_beyond_the_context_says_by_how_much() -> None:
    with Runner(TINY_BUNDLE, "generate") as runner:
        _, answer = runner.generate(floats(1, CONTEXT + 1, WIDTH), floats(2, 0, WIDTH), floats(3, WIDTH), **GREEDY)
    assert answer["code"] == "too_long"
    assert "has 25 tokens, 2 more than leave room for a frame in a context of 24" in answer["message"]


def test_all_roles_are_clean_under_the_sanitizers() -> None:
    with Runner(TINY_BUNDLE, "generate", preset="sanitize") as runner:
        codes, done = runner.generate(floats(1, 7, WIDTH), floats(2, 3, WIDTH), floats(3, WIDTH), **SAMPLED)
        assert done["type"] == "done"
        assert runner.finish() == 0
    with Runner(TINY_BUNDLE, "decode", preset="sanitize") as runner:
        assert len(runner.decode(codes, reset=True)) > 0
        assert runner.finish() == 0
    with Runner(TINY_BUNDLE, "embed", preset="sanitize") as runner:
        runner.send({"type": "embed", "id": "e", "mel_frames": 3, "mel_bins": MEL_BINS}, floats(1, 3, MEL_BINS).tobytes())
        assert runner.receive()[0]["type"] == "embedding"
        assert runner.finish() == 0


@pytest.mark.parametrize(
    ("name", "role"),
    [("talker", "generate"), ("code_predictor", "generate"), ("speech_decoder", "decode"), ("speaker_encoder", "embed")],
)
def test_damaged_programs_are_named(copy: Path, name: str, role: str) -> None:
    path = copy / f"{name}.pte"
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    assert f"{name}.pte has {len(data) - 100} bytes instead of {len(data)}; it is truncated or foreign" in refusal(copy, role)
    path.write_bytes(b"")
    assert f"{name}.pte is empty; export the checkpoint again with kz export" in refusal(copy, role)
    path.write_bytes(b"RIFF" + bytes(len(data) - 4))
    assert f"{name}.pte is not an ExecuTorch program" in refusal(copy, role)
    path.write_bytes(data[:4] + b"ET99" + data[8:])
    assert f"{name}.pte was made for another version of ExecuTorch" in refusal(copy, role)
    path.unlink()
    assert f"{name}.pte cannot be read" in refusal(copy, role)


def test_programs_of_another_export_are_named(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["context_length"] = 1024
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "says context_length is 1024, its program says 24: they come from two exports" in refusal(copy)


def test_a_program_in_the_place_of_another_is_named(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["programs"]["talker"]["file"] = "speech_decoder.pte"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "speech_decoder.pte lacks the constant context_length; export" in refusal(copy)


def test_a_damaged_table_is_named(copy: Path) -> None:
    table = copy / "codec_embeddings.bin"
    table.write_bytes(table.read_bytes()[:-1])
    assert "codec_embeddings.bin has 2111 bytes instead of 2112; it is truncated or foreign" in refusal(copy)


def test_a_missing_speaker_encoder_is_named(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["programs"]["speaker_encoder"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert "has no speaker_encoder; use a bundle exported from a checkpoint that has one" in refusal(copy, "embed")


def test_a_client_that_hangs_up_ends_the_runner_quietly() -> None:
    with Runner(TINY_BUNDLE, "generate") as runner:
        assert runner.process.stdout is not None
        runner.process.stdout.close()
        prompt = floats(1, 2, WIDTH)
        header = {"prompt_tokens": 2, "trailing_tokens": 0, "hidden_size": WIDTH, "seed": 1, "max_frames": 9, "min_frames": 9}
        payload = prompt.tobytes() + prompt[0].tobytes()
        runner.send({"type": "generate", "id": "g", **header, **GREEDY}, payload)
        assert runner.process.wait(timeout=60) == 0
        assert runner.process.stderr is not None
        assert runner.process.stderr.read() == b""


def test_a_wrong_command_line_is_told_on_standard_error() -> None:
    done = subprocess.run([built_runner("release"), "--role", "sing"], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b'--role does not take "sing"; use generate, decode or embed' in done.stderr
