"""Finding the NPU's compiler and emulator, and refusing bundles that this machine cannot run, before anything is loaded."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kazeia import qnn_sdk
from kazeia.devices.local import _environment
from kazeia.errors import BundleError, UsageError
from kazeia.qnn_sdk import FAILING_VERSIONS, PACKAGE_VERSION, find_qnn_sdk, library_version, version_numbers
from tests.support.bundles import edit_manifest
from tests.support.command import Kz

GENERATE, DECODE = ("--role", "generate"), ("--role", "decode")


@pytest.fixture(autouse=True)
def no_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$QNN_SDK_ROOT` with a library of QNN 2.40.1."""
    folder = tmp_path / "sdk" / "lib" / "x86_64-linux-clang"
    folder.mkdir(parents=True)
    (folder / "libQnnHtp.so").write_bytes(b"\x7fELF v1.0 \0v2.40.1.260101123456_118\0")
    monkeypatch.setenv("QNN_SDK_ROOT", str(tmp_path / "sdk"))
    return folder


def npu_bundle(bundle: Path, **changes: object) -> Path:
    """The bundle with a talker for the NPU."""
    programs = {
        name: {"file": f"{name}.pte", "backend": "xnnpack", "quant": "fp32"} for name in ("code_predictor", "speech_decoder")
    }
    programs["talker"] = {"file": "talker.pte", "backend": "qnn", "quant": "fp16"}
    edit_manifest(bundle, programs=programs, **{"soc": "SM8750", "qnn": "2.40.1", "built_for": "emulator", **changes})
    return bundle


def test_the_package_is_found() -> None:
    found = find_qnn_sdk()
    assert found.version == "2.49.40"
    assert found.source == f"onnxruntime-qnn {PACKAGE_VERSION}"
    assert (found.folder / "libQnnSystem.so").is_file()


def test_nothing_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(qnn_sdk, "version", missing)
    with pytest.raises(UsageError, match=r"not installed; run pip install onnxruntime-qnn==2.5.0 .*, or set \$QNN_SDK_ROOT"):
        find_qnn_sdk()


@pytest.mark.parametrize("version", FAILING_VERSIONS)
def test_a_version_that_fails_is_named_with_the_one_that_works(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(qnn_sdk, "version", lambda name: version)
    with pytest.raises(UsageError) as caught:
        find_qnn_sdk()
    assert str(caught.value) == (
        f"onnxruntime-qnn {version} fails when it creates a device, 2.5.0 works; run pip install onnxruntime-qnn==2.5.0"
    )


def test_an_sdk_comes_first_and_tells_its_version(sdk: Path) -> None:
    found = find_qnn_sdk()
    assert (found.folder, found.version) == (sdk, "2.40.1")
    (sdk / "libQnnHtp.so").unlink()
    with pytest.raises(UsageError, match=r"which has no lib/x86_64-linux-clang/libQnnHtp.so; correct it, or unset it"):
        find_qnn_sdk()


def test_a_library_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libQnnHtp.so").write_bytes(b"\x7fELF v2.40")
    with pytest.raises(UsageError, match="does not tell QNN's version"):
        library_version(tmp_path / "libQnnHtp.so")


def test_versions_compare_as_numbers() -> None:
    assert version_numbers("2.49.40") > version_numbers("2.5.0")


def test_the_runner_is_told_where_the_emulator_is(fake_bundle: Path, sdk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    bundle = npu_bundle(fake_bundle)
    environment = _environment(bundle, GENERATE)
    assert environment is not None
    assert environment["LD_LIBRARY_PATH"] == f"{sdk}:/mine"
    assert _environment(bundle, DECODE) is None


def test_a_bundle_of_a_newer_qnn_is_refused_before_loading(fake_bundle: Path, sdk: Path, kz: Kz) -> None:
    bundle = npu_bundle(fake_bundle, qnn="2.49.40")
    with pytest.raises(BundleError, match=r"was exported with QNN 2.49.40, this machine has the older 2.40.1"):
        _environment(bundle, GENERATE)
    message = kz.fails("speak", "Hello.", "--bundle", bundle, "--device", "local", "-o", bundle.parent / "x.wav")
    assert "exported with QNN 2.49.40" in message


def test_a_bundle_for_a_device_does_not_run_here(fake_bundle: Path, sdk: Path) -> None:
    bundle = npu_bundle(fake_bundle, built_for="device")
    with pytest.raises(BundleError, match=r"is for a device with a SM8750: .* give --device, or export with --for emulator"):
        _environment(bundle, GENERATE)
    assert _environment(bundle, DECODE) is None
