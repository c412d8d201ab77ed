"""The NPU's part of an export, from recordings to the report: a talker lowered, emulated, measured and heard."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from kazeia.bundle import Bundle, Manifest, Program, read_manifest
from kazeia.checkpoint import Checkpoint
from kazeia.export import qnn_quality
from kazeia.export.bundle_writer import list_files, write_manifest
from kazeia.export.calibration import Calibration, read_index, read_recording, write_index
from kazeia.export.calibration_run import calibrate
from kazeia.export.options import ExportOptions
from kazeia.export.progress import silent
from kazeia.export.qnn_export import NpuExport
from kazeia.export.qnn_program import QnnBuild
from kazeia.export.quiet import quiet
from kazeia.files import sha256
from kazeia.quality import REPORT_NAME, Quality, deploy_objection, read_quality
from scripts.babble_checkpoint import write_babble_checkpoint
from tests.export.test_calibration import TEXTS, place_fp32_bundle
from tests.support.bundles import BABBLE

FRAMES = 12
CONTEXT = 64


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "builtin"
    write_babble_checkpoint(folder)
    return Checkpoint.open(folder)


@pytest.fixture(scope="module")
def calibration(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calibration")
    (root / "phrases.txt").write_text("\n".join(TEXTS))
    np.save(root / "v.npy", np.random.default_rng(0).standard_normal(64, np.float32))
    folder = root / "recorded"
    folder.mkdir()
    place_fp32_bundle(folder, checkpoint.path)
    calibrate(checkpoint.path, folder, root / "phrases.txt", [str(root / "v.npy")], max_frames=FRAMES)
    return folder


def with_talker(bundle: Path, npu: NpuExport, options: ExportOptions) -> Manifest:
    """The built-in bundle with its talker on the NPU."""
    shutil.copytree(BABBLE, bundle)
    manifest = read_manifest(bundle)
    (bundle / "manifest.json").unlink()
    for name, made in npu.programs("talker").items():
        (bundle / f"{name}.pte").write_bytes(made.content)
        manifest.programs[name] = Program(f"{name}.pte", "qnn", options.talker.quant)
    manifest.model.context_length, manifest.model.prefill_tokens = options.context_length, options.prefill_tokens
    manifest.qnn, manifest.soc, manifest.built_for = npu.qnn_version, options.soc, options.built_for
    manifest.files = list_files(bundle)
    write_manifest(bundle, manifest)
    return manifest


def options(calibration: Path, **changes: object) -> ExportOptions:
    given = {"talker_quant": "16a8w", "quant": "fp32", "calibration": calibration, "context_length": CONTEXT, **changes}
    return ExportOptions(**given)  # type: ignore[arg-type]


def test_a_quantised_talker_is_measured_on_all_paths_and_heard(checkpoint: Checkpoint, calibration: Path, tmp_path: Path) -> None:
    chosen = options(calibration, built_for="emulator", quality_frames=FRAMES)
    bundle = tmp_path / "bundle"
    with quiet():
        npu = NpuExport(checkpoint, chosen, silent)
        _, manifest = npu.finish(bundle, with_talker(bundle, npu, chosen))
        write_manifest(bundle, manifest)
    quality = read_quality(Bundle.open(bundle))
    assert quality is not None
    assert quality.passed, quality.failures
    assert deploy_objection(Bundle.open(bundle)) is None
    assert (bundle / REPORT_NAME).stat().st_size > 10_000
    decode, prefill = quality.methods
    assert (decode.program, decode.method, prefill.method) == ("talker", "decode", "prefill")
    for method in quality.methods:
        assert {output.name for output in method.outputs} == {"logits", "hidden", "keys", "values"}
        assert min(output.quantized_db or 0.0 for output in method.outputs) > 25
        assert min(output.lowered_db or 0.0 for output in method.outputs) > 50
        assert any(layer.name == "stack.layers.1.mlp.down_proj" and layer.weighted for layer in method.layers)
    # One held-out phrase: the fifth.
    held_out = Calibration.open(calibration, checkpoint).held_out()
    assert decode.calls == held_out.frames
    (spoken,) = quality.speech
    assert (spoken.text, spoken.seed) == (TEXTS[4], held_out.recorded[0].seed)
    assert [decoded.sound_db for decoded in quality.decoder] == [200.0]
    assert quality.emulated
    assert quality.recipes == {"talker": {"*": "16a8w"}}


@pytest.fixture
def constant_calibration(calibration: Path, tmp_path: Path) -> Path:
    """The recordings as a broken tool would have made them: every input the same."""
    folder = Path(shutil.copytree(calibration, tmp_path / "constant"))
    index = read_index(folder)
    assert index is not None
    for one in index.recorded:
        recording = read_recording(folder / one.file)
        recording.embeds[:] = 0.05
        (folder / one.file).write_bytes(recording.encoded())
        one.sha256 = sha256(folder / one.file)
    write_index(folder, index)
    return folder


def test_constant_recordings_are_named(
    checkpoint: Checkpoint, constant_calibration: Path, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlowered(spec: object, target: object, recipe: object, graphs: object, progress: object) -> QnnBuild:
        return QnnBuild(spec, recipe, graphs, b"")  # type: ignore[arg-type]

    monkeypatch.setattr(qnn_quality, "lower_build", unlowered)
    with quiet():
        npu = NpuExport(checkpoint, options(constant_calibration, quality_frames=0), silent)
        npu.programs("talker")
        quality, _ = npu.finish(fake_bundle, read_manifest(fake_bundle))
    assert not quality.passed
    assert all(fault.kind == "calibration" for fault in quality.faults)
    named = {fault.where: fault.message for fault in quality.faults}
    assert named["embeds"].startswith("constant: the same in all ")
    assert "this input never changed while calibrating" in named["talker.decode embeds"]
    assert isinstance(quality, Quality)
