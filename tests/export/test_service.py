"""The export as a whole: what a person sees, and what is left when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kazeia.bundle import Bundle
from kazeia.bundle_choice import choose_bundle
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import BundleError
from kazeia.export import service
from tests.support.command import Kz

KZ = [sys.executable, "-c", "from kazeia.cli import main; main()"]


def environment() -> dict[str, str]:
    """Of a `kz` in a process of its own, which finds what this one has."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-base"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=5)
    return folder


@pytest.fixture
def no_lowering(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Programs become empty shells; the calls that would have lowered them."""
    import kazeia.export.lowering as lowering

    calls: list[tuple[Any, ...]] = []

    def lower(spec: Any, backend: str, quant: str, progress: Any) -> bytes:
        calls.append((spec.name, backend, quant))
        print("chatter of a library")
        return b"\0\0\0\0ET12" + spec.name.encode()

    monkeypatch.setattr(lowering, "lower", lower)
    return calls


def test_export_of_a_tiny_checkpoint_end_to_end(checkpoint: Path, tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    command = [*KZ, "export", checkpoint, "-o", target, "--quant", "8da4w", "--context", "128", "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bundle"] == str(target)
    assert report["size_bytes"] == sum(report["files"].values())
    quantised = ("read", "quantise", "trace", "lower", "serialise")
    plain = ("read", "trace", "lower", "serialise")
    programs = {"talker": quantised, "code_predictor": quantised, "speech_decoder": plain, "speaker_encoder": plain}
    stages = [f"{program}: {stage}" for program, names in programs.items() for stage in names]
    shown = [line.split(" ... ")[0] for line in done.stderr.splitlines()]
    assert shown == ["start PyTorch", *stages, "text table", "codec tables", "tokenizer", "hashes"]
    manifest = Bundle.open(target).manifest
    assert {name: part.quant for name, part in manifest.programs.items()} == {
        "talker": "8da4w",
        "code_predictor": "8da4w",
        "speech_decoder": "fp32",
        "speaker_encoder": "fp32",
    }
    assert manifest.model.context_length == 128
    assert os.listdir(tmp_path) == ["bundle"]


def test_ctrl_c_while_lowering(checkpoint: Path, tmp_path: Path) -> None:
    command = [*KZ, "export", checkpoint, "-o", tmp_path / "bundle"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        shown = ""
        while not shown.endswith("talker: lower ..."):
            shown += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().split("\n")[-2] == "kz: interrupted; nothing was left half-written"
    assert process.returncode == 130
    assert os.listdir(tmp_path) == []


def test_the_report_and_the_manifest(checkpoint: Path, tmp_path: Path, kz: Kz, no_lowering: list[tuple[Any, ...]]) -> None:
    outcome = kz("export", checkpoint, "-o", tmp_path / "bundle", "--prefill-tokens", "8")
    assert outcome.status == 0, outcome
    assert outcome.out.startswith(f"{tmp_path / 'bundle'}: tiny-base for xnnpack, 8da8w, context 1024, ")
    assert "chatter" not in outcome.out + outcome.err
    assert no_lowering == [
        ("talker", "xnnpack", "8da8w"),
        ("code_predictor", "xnnpack", "8da8w"),
        ("speech_decoder", "xnnpack", "fp32"),
        ("speaker_encoder", "xnnpack", "fp32"),
    ]
    bundle = Bundle.open(tmp_path / "bundle")
    assert bundle.manifest.model.prefill_tokens == 8
    assert bundle.manifest.tables["text_embeddings"].dtype == "f16"
    assert bundle.manifest.sampling.max_new_tokens == 8192
    assert choose_bundle(None) == tmp_path / "bundle"


def test_other_kinds_have_no_speaker_encoder(tmp_path: Path, kz: Kz, no_lowering: list[tuple[Any, ...]]) -> None:
    write_random_checkpoint(tmp_path / "custom", size="tiny", kind="custom_voice", seed=5)
    assert kz("export", tmp_path / "custom", "-o", tmp_path / "bundle", "--quant", "fp32").status == 0
    manifest = Bundle.open(tmp_path / "bundle").manifest
    assert "speaker_encoder" not in manifest.programs
    assert manifest.model.speakers["dylan"].dialect == "beijing_dialect"
    assert manifest.model.speakers["ryan"].dialect is None
    assert manifest.tables["codec_embeddings"].dtype == "f32"


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")], ids=["ctrl-c", "full disk"])
def test_a_failure_leaves_nothing_behind(
    checkpoint: Path,
    tmp_path: Path,
    kz: Kz,
    no_lowering: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
) -> None:
    def fail(*arguments: object) -> None:
        raise failure

    monkeypatch.setattr(service, "list_files", fail)
    message = kz.fails("export", checkpoint, "-o", tmp_path / "bundle")
    assert message.startswith("kz: interrupted" if isinstance(failure, KeyboardInterrupt) else "kz: cannot write")
    assert os.listdir(tmp_path) == []
    assert choose_bundle(None) != tmp_path / "bundle"


def test_without_torch_the_extra_is_named(checkpoint: Path, tmp_path: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    message = kz.fails("export", checkpoint, "-o", tmp_path / "bundle")
    assert message == "kz: exporting needs PyTorch, which is not installed; run pip install 'kazeia[export]'"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--backend", "cuda"], "'cuda' is not one of 'xnnpack', 'qnn'"),
        (["--backend", "qnn", "--quant", "16a8w"], "16a8w has fixed scales, which come from recorded speech"),
        (["--backend", "qnn", "--soc", "SM1"], "unknown SoC 'SM1'; choose one of SM8650, SM8750, SM8850"),
        (["--quant", "int3"], "'int3' is not one of 'fp32', '8da8w', '8da4w', 'fp16', '16a8w', '16a4w'"),
        (["--context", "8"], "the context of 8 is too small; choose 32 or more"),
        (["--context", "40000"], "longer than the model's 32768 positions; choose 32768 or less"),
        (["--prefill-tokens", "0"], "0 prefill tokens do not fit a context of 1024"),
    ],
)
def test_bad_options(checkpoint: Path, tmp_path: Path, kz: Kz, arguments: list[str], part: str) -> None:
    assert part in kz.fails("export", checkpoint, "-o", tmp_path / "bundle", *arguments)
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_that_is_none(tmp_path: Path, kz: Kz) -> None:
    assert "is not a folder" in kz.fails("export", tmp_path / "nowhere", "-o", tmp_path / "bundle")
    with pytest.raises(BundleError):
        Bundle.open(tmp_path / "bundle")
