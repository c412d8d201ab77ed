"""A talker on the NPU, spoken to through kz_runner in the emulator: the codes of the CPU, and what is counted on the way."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kazeia.benchmark import random_prompt
from kazeia.bundle import Bundle, Program, read_manifest
from kazeia.checkpoint import Checkpoint
from kazeia.errors import RunnerError
from kazeia.export.bundle_writer import list_files, write_manifest
from kazeia.export.lowering import lower
from kazeia.export.options import ExportOptions
from kazeia.export.service import export_bundle
from kazeia.export.talker import talker_program
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.synthesis import Statistics, Synthesizer
from tests.support.command import Kz
from tests.support.learnt import FRAMES, write_learnt_checkpoint
from tests.support.npu_programs import npu_predictor

CONTEXT, PREFILL = 64, 8
SEED = 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_learnt_checkpoint(folder)
    return folder


@pytest.fixture(scope="module")
def npu(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Talker on the NPU, code predictor and speech decoder on the CPU."""
    folder = tmp_path_factory.mktemp("npu") / "bundle"
    options = ExportOptions(
        backend="qnn", predictor_quant="fp32", built_for="emulator", context_length=CONTEXT, prefill_tokens=PREFILL
    )
    export_bundle(checkpoint, folder, options)
    return folder


@pytest.fixture(scope="module")
def cpu(checkpoint: Path, npu: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same bundle, but for its talker: float32 on the CPU."""
    folder = tmp_path_factory.mktemp("cpu") / "bundle"
    shutil.copytree(npu, folder)
    (folder / "manifest.json").unlink()
    spec = talker_program(Checkpoint.open(checkpoint), CONTEXT, PREFILL)
    (folder / "talker.pte").write_bytes(lower(spec, "xnnpack", "fp32"))
    manifest = read_manifest(npu)
    programs = {**manifest.programs, "talker": Program("talker.pte", "xnnpack", "fp32")}
    changes = {"programs": programs, "files": list_files(folder), "soc": None, "qnn": None, "built_for": None}
    write_manifest(folder, msgspec.structs.replace(manifest, **changes))
    return folder


@pytest.fixture(scope="module")
def fused(npu: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Talker and code predictor on the NPU, with the steps for what the frame has not got."""
    return with_predictor(npu, tmp_path_factory.mktemp("fused") / "bundle", steps=True)


def with_predictor(npu: Path, folder: Path, steps: bool) -> Path:
    """The same bundle with its code predictor on the NPU, too."""
    shutil.copytree(npu, folder)
    (folder / "manifest.json").unlink()
    predictor, manifest = npu_predictor(), read_manifest(npu)
    programs = dict(manifest.programs)
    for built in (predictor.frame, predictor.steps)[: 1 + steps]:
        file = f"{built.spec.name}.pte"
        (folder / file).write_bytes(built.program)
        programs[built.spec.name] = Program(file, "qnn", "fp16")
    write_manifest(folder, msgspec.structs.replace(manifest, programs=programs, files=list_files(folder)))
    return folder


GREEDY, SAMPLED = Overrides(greedy=True), Overrides()


def speak(bundle: Path, overrides: Overrides = GREEDY, seed: int = SEED) -> tuple[np.ndarray, Statistics]:
    """Codes of 40 frames of babble; the end is forbidden."""
    with Synthesizer(bundle, "local", 1) as synthesizer:
        sampling = resolve_sampling(synthesizer.bundle.manifest.sampling, overrides)
        sampling = dataclasses.replace(sampling, min_frames=FRAMES)
        stream = synthesizer.run(random_prompt(synthesizer.bundle.manifest.model), sampling, seed, FRAMES)
        for _ in stream:
            pass
        return stream.codes(), stream.statistics()


def test_greedy_codes_are_those_of_the_cpu(npu: Path, cpu: Path) -> None:
    ours, statistics = speak(npu)
    theirs, plain = speak(cpu)
    assert len(ours) == FRAMES
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours[:, 0])) > 4, "a talker that repeats itself proves nothing"
    assert (statistics.npu_calls_per_frame, plain.npu_calls_per_frame) == (1.0, 0.0)
    assert (statistics.npu_emulated, plain.npu_emulated) == (True, False)


def test_only_new_slices_of_the_cache_are_moved(npu: Path) -> None:
    model = Bundle.open(npu).manifest.model
    _, statistics = speak(npu, SAMPLED)
    row_bytes = model.kv_heads * model.head_dim * 2  # float16
    assert statistics.kv_copied_bytes_per_step == 2 * model.layers * row_bytes


def test_the_manifest_says_what_loads_the_bundle(npu: Path) -> None:
    manifest = read_manifest(npu)
    assert (manifest.soc, manifest.qnn, manifest.built_for) == ("SM8750", "2.49.40", "emulator")
    assert manifest.programs["talker"] == Program("talker.pte", "qnn", "fp16")
    assert manifest.programs["code_predictor"].backend == "xnnpack"


def test_speaking_says_that_the_npu_is_emulated(npu: Path, kz: Kz, tmp_path: Path) -> None:
    voice = tmp_path / "voice.npy"
    np.save(voice, np.random.default_rng(0).standard_normal(64).astype(np.float32))
    arguments = ("speak", "Bonjour.", "--bundle", npu, "--device", "local", "--voice", voice, "--seed", 1, "--max-frames", 3)
    outcome = kz(*arguments, "-o", tmp_path / "a.wav")
    assert outcome.out.endswith("seed 1, NPU emulated on this machine\n")
    assert kz(*arguments, "-o", tmp_path / "b.wav", "--json").json["npu_emulated"] is True


def test_a_frame_takes_two_calls_of_the_npu(fused: Path, cpu: Path) -> None:
    ours, statistics = speak(fused)
    theirs, _ = speak(cpu)
    np.testing.assert_array_equal(ours, theirs)
    assert statistics.npu_calls_per_frame == 2.0


def test_a_seed_means_the_same_in_one_call(fused: Path, npu: Path) -> None:
    """Where two scores are as near as float16 resolves, the draw may differ, and what follows is another sentence."""
    hot = Overrides(temperature=1.5, predictor_temperature=2.5)
    ours, theirs = speak(fused, hot, seed=4)[0], speak(npu, hot, seed=4)[0]
    assert (theirs != speak(npu, GREEDY)[0]).any()
    np.testing.assert_array_equal(ours[:8], theirs[:8])


def test_other_settings_are_drawn_step_by_step(fused: Path, npu: Path) -> None:
    overrides = Overrides(predictor_top_p=0.8)
    ours, statistics = speak(fused, overrides)
    assert statistics.npu_calls_per_frame == 16.0
    np.testing.assert_array_equal(ours[:3], speak(npu, overrides)[0][:3])


def test_without_steps_other_settings_are_refused(npu: Path, tmp_path: Path) -> None:
    bundle = with_predictor(npu, tmp_path / "bundle", steps=False)
    with pytest.raises(RunnerError, match=r"draws without top-p, not with predictor_top_p 0\.8; leave the option out, or export"):
        speak(bundle, Overrides(predictor_top_p=0.8))
