"""The runner built for 64-bit Arm, deployed to the test device, executed there under qemu: the same codes as here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from kazeia.building import runner_source
from kazeia.elf import read_elf
from tests.support.adbd import Adbd
from tests.support.bundles import BABBLE
from tests.support.command import Kz
from tests.support.needs import unavailable
from tests.support.sandbox import TABLET, Sandbox

LIBRARIES = ("libexecutorch.so", "libexecutorch_backend_xnnpack.so", "libexecutorch_kernels_optimized.so")
HOST_ONLY = (
    "gnu/libc-version.h",
    "execinfo.h",
    "pthread_setname_np",
    "std::filesystem",
    "program_invocation_name",
    "secure_getenv",
)
"""Of glibc, or missing from older NDKs."""


@pytest.fixture(scope="module")
def arm_runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`kz build --target linux-arm64` against ExecuTorch's aarch64 wheel, whose path is in `$KZ_TEST_AARCH64_WHEEL`."""
    wheel = os.environ.get("KZ_TEST_AARCH64_WHEEL")
    if not wheel:
        unavailable("no aarch64 wheel of executorch; name one in $KZ_TEST_AARCH64_WHEEL (see deploy/building.md)")
    if shutil.which("aarch64-linux-gnu-g++") is None:
        unavailable("aarch64-linux-gnu-g++ is missing; run: apt-get install g++-aarch64-linux-gnu")
    from kazeia.building import BuildOptions, build_runner

    return build_runner(BuildOptions("linux-arm64", tmp_path_factory.mktemp("arm") / "out", Path(wheel)), print)


def test_the_build_is_for_arm_and_brings_its_libraries(arm_runner: Path) -> None:
    elf = read_elf(arm_runner)
    assert elf.machine == "aarch64"
    assert elf.search == [arm_runner.parent]
    for name in LIBRARIES:
        assert (arm_runner.parent / name).is_file()


@pytest.mark.parametrize("sandbox", [TABLET], indirect=True)
def test_the_arm_runner_gives_the_same_codes_as_this_machine(
    kz: Kz, arm_runner: Path, adbd: Adbd, sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.need_aarch64()
    device = f"adb:{adbd.serial}"
    deployed = kz("deploy", BABBLE, "--device", device, "--runner", arm_runner, "--json")
    assert deployed.status == 0, deployed
    codes = {}
    for name in ("local", device):
        path = tmp_path / f"{len(codes)}.npy"
        options = ["--bundle", BABBLE, "--seed", 5, "--codes-out", path, "-o", tmp_path / "a.wav", "--max-frames", 25]
        outcome = kz("speak", "Bonjour, toi.", "--device", name, *options)
        assert outcome.status in (0, 12), outcome
        codes[name] = np.load(path)
    np.testing.assert_array_equal(codes[device], codes["local"])


def test_the_sources_use_nothing_of_glibc_alone() -> None:
    for path in sorted((runner_source() / "src").iterdir()):
        text = path.read_text()
        assert not [word for word in HOST_ONLY if word in text], path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "an Android build needs --ndk DIR (Android's NDK) and --executorch PREFIX (see deploy/building.md)"),
        (("--ndk", "{empty}", "--executorch", "{empty}"), "is no Android NDK: it has no build/cmake/android.toolchain.cmake"),
        (("--ndk", "{ndk}", "--executorch", "{empty}"), "is no install prefix of ExecuTorch"),
    ],
)
def test_an_android_build_names_what_is_missing(kz: Kz, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty").mkdir()
    toolchain = tmp_path / "ndk" / "build" / "cmake" / "android.toolchain.cmake"
    toolchain.parent.mkdir(parents=True)
    toolchain.touch()
    words = [word.format(empty=tmp_path / "empty", ndk=tmp_path / "ndk") for word in options]
    assert message in kz.fails("build", "--target", "android-arm64", "-o", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_a_linux_build_without_the_wheel_says_how_to_get_it(kz: Kz, tmp_path: Path) -> None:
    message = kz.fails("build", "--target", "linux-arm64", "-o", tmp_path / "out")
    assert "--platform manylinux_2_28_aarch64 executorch==1.5.1" in message or "apt-get install g++-aarch64-linux-gnu" in message


def test_a_build_never_overwrites_a_folder(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()
    message = kz.fails("build", "--target", "linux-arm64", "-o", tmp_path / "out")
    assert "exists already; give a new or empty folder with -o" in message
