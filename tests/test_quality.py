"""The gates, and what `kz deploy` makes of a bundle's quality."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kazeia.bundle import Bundle
from kazeia.errors import BundleError
from kazeia.files import sha256
from kazeia.quality import (
    ENOUGH_CALLS,
    QUALITY_NAME,
    Agreement,
    DecoderQuality,
    Fault,
    Gates,
    LayerQuality,
    MethodQuality,
    OutputQuality,
    Quality,
    SpeechQuality,
    deploy_objection,
    judge,
    read_quality,
)
from tests.support.bundles import edit_manifest, write_fake_bundle
from tests.support.command import Kz


def method(precision: str = "16a8w", **changes: object) -> MethodQuality:
    good = MethodQuality(
        program="talker",
        method="decode",
        precision=precision,
        calls=64,
        emulated_calls=32,
        outputs=[OutputQuality("logits", 30.0, 70.0, 30.0)],
        agreement=[Agreement(0, 0.95, 0.95)],
        layers=[LayerQuality(f"layers.{n}", precision, 40.0 - n, 30.0, True) for n in range(20)],
    )
    return msgspec.structs.replace(good, **changes)


def quality(*methods: MethodQuality, **changes: object) -> Quality:
    made = Quality(
        kazeia="0", model="m", emulated=True, gates=Gates(), methods=list(methods), decoder=[], speech=[], stages=[],
        recipes={}, auto=[], faults=[], failures=[], notes=[],
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def speech(eos_difference: int | None) -> SpeechQuality:
    return SpeechQuality("a", 1, 20, 20, None, eos_difference, 0.0, 0.0, 0.0)


DECODER = DecoderQuality("a", 20, 30.0, 0.1, 0.5)


@pytest.mark.parametrize(
    ("made", "failure"),
    [
        (quality(method()), None),
        (quality(), "nothing was measured; export with --calibration DIR"),
        (quality(method(outputs=[OutputQuality("logits", 14.9, 70.0, 14.9)])), "talker.decode logits: 14.9 dB after quantising"),
        (quality(method(outputs=[OutputQuality("logits", 30.0, 39.0, 28.0)])), "talker.decode logits: 39.0 dB after lowering"),
        (quality(method(outputs=[OutputQuality("logits", 30.0, None, None)])), None),
        (quality(method("fp16", outputs=[OutputQuality("logits", None, 31.0, 31.0)])), None),
        (quality(method("fp16", outputs=[OutputQuality("logits", None, 29.0, 29.0)])), "29.0 dB after lowering, at least 30"),
        (quality(method(agreement=[Agreement(0, 0.84, None)])), "84% of codebook 0 agree quantized, at least 85% wanted"),
        (quality(method(agreement=[Agreement(0, 0.9, 0.5)])), "50% of codebook 0 agree emulated"),
        (quality(method(agreement=[Agreement(0, 0.9, 0.5)], emulated_calls=19)), None),
        (quality(method(agreement=[Agreement(1, 1.0, None), Agreement(2, 0.5, None)])), None),
        (quality(method(agreement=[Agreement(1, 0.8, None), Agreement(2, 0.5, None)])), "65% of the codes agree quantized"),
        (quality(decoder=[DECODER]), None),
        (quality(decoder=[msgspec.structs.replace(DECODER, log_mel_db=3.1)]), "the sound is 3.1 dB away in log-mel"),
        (quality(decoder=[DECODER, msgspec.structs.replace(DECODER, level_db=-3.2)]), "the level is off by -3.2 dB"),
        (quality(speech=[speech(None), speech(-12)]), None),
        (quality(speech=[speech(-20), speech(6)]), "ends 13 frames away from where it should"),
        (quality(method(), faults=[Fault("lowering", "talker.decode x", "odd")]), "lowering fault, talker.decode x: odd"),
    ],
)
def test_each_gate(made: Quality, failure: str | None) -> None:
    failures = judge(made)
    assert len(failures) == (failure is not None), failures
    assert failure is None or failure in failures[0]


def test_the_worst_layers_are_those_that_lose_most_by_themselves() -> None:
    worst = method().worst()
    assert [layer.name for layer in worst] == [f"layers.{n}" for n in range(19, 9, -1)]


@pytest.fixture
def npu_bundle(tmp_path: Path) -> Path:
    folder = write_fake_bundle(tmp_path / "npu")
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    manifest["programs"]["talker"]["backend"] = "qnn"
    edit_manifest(folder, programs=manifest["programs"])
    return folder


def add_quality(folder: Path, made: Quality) -> None:
    path = folder / QUALITY_NAME
    path.write_bytes(msgspec.json.encode(made))
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    files = [file for file in manifest["files"] if file["name"] != QUALITY_NAME]
    edit_manifest(folder, files=[*files, {"name": QUALITY_NAME, "bytes": path.stat().st_size, "sha256": sha256(path)}])


def test_only_npu_bundles_need_a_report(npu_bundle: Path, fake_bundle: Path) -> None:
    assert deploy_objection(Bundle.open(fake_bundle)) is None
    assert deploy_objection(Bundle.open(npu_bundle)) == f"the quality of {npu_bundle} is unknown: it has no quality.json"
    add_quality(npu_bundle, quality(method()))
    assert deploy_objection(Bundle.open(npu_bundle)) is None


def test_deploy_refuses_what_is_below_the_gates(npu_bundle: Path, kz: Kz) -> None:
    add_quality(npu_bundle, quality(failures=["the talker is deaf", "and mute"]))
    message = kz.fails("deploy", npu_bundle, "--device", "ssh:nobody@127.0.0.1:9")
    assert f"{npu_bundle} is below the quality gates (the talker is deaf; 1 more in its quality.html)" in message
    assert message.endswith("or deploy it all the same with --accept-quality")
    # Accepted, it gets as far as the device, which is not there.
    message = kz.fails("deploy", npu_bundle, "--device", "ssh:nobody@127.0.0.1:9", "--accept-quality")
    assert "gates" not in message
    assert "127.0.0.1" in message


def test_bundle_info_tells_the_quality(npu_bundle: Path, fake_bundle: Path, kz: Kz) -> None:
    assert "quality" not in kz("bundle", "info", fake_bundle).out
    assert "  quality    the quality of " in kz("bundle", "info", npu_bundle).out
    add_quality(npu_bundle, quality(method()))
    assert "  quality    all gates hold" in kz("bundle", "info", npu_bundle).out


def test_a_broken_report_is_named(npu_bundle: Path) -> None:
    add_quality(npu_bundle, quality(method()))
    path = npu_bundle / QUALITY_NAME
    path.write_bytes(path.read_bytes().replace(b'"speech"', b'"speach"'))
    manifest = msgspec.json.decode((npu_bundle / "manifest.json").read_bytes())
    for file in manifest["files"]:
        if file["name"] == QUALITY_NAME:
            file["sha256"] = sha256(path)
    edit_manifest(npu_bundle, files=manifest["files"])
    with pytest.raises(BundleError, match=r"quality\.json is not valid: .*; export the bundle again"):
        read_quality(Bundle.open(npu_bundle))


def test_the_documented_gates_are_the_real_ones() -> None:
    page = (Path(__file__).parents[1] / "docs" / "quality.md").read_text(encoding="utf-8")
    gates, enough = Gates(), f"{ENOUGH_CALLS} calls or more"
    for row in (
        f"| float to quantised, each output | {gates.quantized_db:g} dB or more |",
        f"| quantised to emulated, each output | {gates.lowered_db:g} dB or more |",
        f"| float to emulated, each output of an fp16 program | {gates.fp16_db:g} dB or more |",
        f"| codebook 0, teacher-forced ({enough}) | {100 * gates.first_agreement:g} % or more stay the same |",
        f"| other codebooks, teacher-forced, mean ({enough}) | {100 * gates.other_agreement:g} % or more stay the same |",
        f"| speech decoder: log-mel distance; level | {gates.decoder_log_mel_db:g} dB or less; within {gates.level_db:g} dB |",
        f"| end of free speech, mean | {gates.eos_frames} frames or less away |",
    ):
        assert row in page, row
