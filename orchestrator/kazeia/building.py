"""Building the runner for another system: Android with the NDK, or 64-bit Arm Linux with a cross compiler.

    check tools and SDKs ─► cmake --preset TARGET ─► build ─► kz_runner and its libraries in the output folder

The Android build has never been run by this project's tests, which have no NDK; deploy/building.md says what was checked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kazeia import __version__
from kazeia.bundle import EXECUTORCH_VERSION
from kazeia.errors import RunnerError, UsageError

Target: TypeAlias = Literal["android-arm64", "linux-arm64"]

TARGETS: tuple[Target, ...] = ("android-arm64", "linux-arm64")
RUNNER = "kz_runner"
NDK_TOOLCHAIN = Path("build", "cmake", "android.toolchain.cmake")
CROSS_COMPILER = "aarch64-linux-gnu-g++"
QNN_LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so", "libQnnHtpPrepare.so")
"""Of the SDK's lib/aarch64-android, with a stub and a skel for every Hexagon version."""


@dataclass(frozen=True)
class BuildOptions:
    """What to build, and with what."""

    target: Target
    output: Path
    executorch: Path | None = None
    """Android: the install prefix of a source build. Linux: the aarch64 wheel, or the folder it was unpacked to."""
    ndk: Path | None = None
    qnn_sdk: Path | None = None


def build_runner(options: BuildOptions, progress: Callable[[str], None]) -> Path:
    """Build the runner and gather the libraries it needs; returns the runner.

    Raises:
        UsageError: a tool, an SDK or a package is missing or not what it should be.
        RunnerError: CMake or the compiler failed.
    """
    if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
        raise UsageError(f"{options.output} exists already; give a new or empty folder with -o")
    cmake, ninja = _tool("cmake"), _tool("ninja")
    source = runner_source()
    with tempfile.TemporaryDirectory(prefix="kz-build-") as scratch, _target(options, Path(scratch)) as (package, settings):
        build = Path(scratch) / "build"
        configure = [cmake, "--preset", options.target, "-B", str(build), f"-DCMAKE_MAKE_PROGRAM={ninja}", *settings]
        environment = {**os.environ, "ANDROID_NDK": str(options.ndk or "")}
        progress(f"configuring for {options.target}")
        _run(configure, source, environment)
        progress(f"compiling for {options.target}")
        _run([cmake, "--build", str(build), "--target", RUNNER], source, environment)
        part = Path(scratch) / "output"
        _gather(part, build / RUNNER, _libraries(options, package))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(part, options.output, dirs_exist_ok=True)
    return options.output / RUNNER


def runner_source() -> Path:
    """The runner's sources: beside the package in a source tree, inside it when it was installed.

    Raises:
        RunnerError: they are not there.
    """
    package = Path(__file__).parent
    for folder in (package / "runner", package.parents[1] / "runner"):
        if (folder / "CMakePresets.json").is_file():
            return folder
    raise RunnerError("the runner's sources are missing from this installation; install kazeia again")


@contextlib.contextmanager
def _target(options: BuildOptions, scratch: Path) -> Iterator[tuple[Path, list[str]]]:
    """Check what the target needs; the ExecuTorch package, and CMake's settings."""
    common = [f"-DPython_EXECUTABLE={sys.executable}", f"-DKZ_VERSION={__version__}", "-DKZ_RUNPATH=$ORIGIN"]
    if options.target == "android-arm64":
        package = _android_package(options)
        yield package, [*common, f"-DCMAKE_PREFIX_PATH={package}", f"-DKZ_EXECUTORCH_VERSION={EXECUTORCH_VERSION}"]
    else:
        if shutil.which(CROSS_COMPILER) is None:
            raise UsageError(f"{CROSS_COMPILER} is missing; run: apt-get install g++-aarch64-linux-gnu")
        package = _linux_package(options.executorch, scratch)
        yield package, [*common, f"-DCMAKE_PREFIX_PATH={package}/share/cmake"]


def _android_package(options: BuildOptions) -> Path:
    if options.ndk is None or options.executorch is None:
        raise UsageError("an Android build needs --ndk DIR (Android's NDK) and --executorch PREFIX (see deploy/building.md)")
    if not (options.ndk / NDK_TOOLCHAIN).is_file():
        raise UsageError(f"{options.ndk} is no Android NDK: it has no {NDK_TOOLCHAIN}; download r27 or newer and unpack it")
    configs = ("lib/cmake/ExecuTorch/executorch-config.cmake", "share/cmake/executorch-config.cmake")
    if not any((options.executorch / config).is_file() for config in configs):
        lacks = f"it has no {configs[0]}; see deploy/building.md"
        raise UsageError(f"{options.executorch} is no install prefix of ExecuTorch: {lacks}")
    return options.executorch.absolute()


def _linux_package(given: Path | None, scratch: Path) -> Path:
    """The aarch64 wheel's package folder, unpacked if need be."""
    if given is None:
        raise UsageError(
            f"give the aarch64 wheel with --executorch; get it with: pip download --no-deps --only-binary=:all: "
            f"--platform manylinux_2_28_aarch64 executorch=={EXECUTORCH_VERSION}"
        )
    if given.is_file():
        try:
            with zipfile.ZipFile(given) as wheel:
                wheel.extractall(scratch / "wheel")
        except (zipfile.BadZipFile, OSError) as error:
            raise UsageError(f"{given} is not a wheel ({error}); download it again") from None
        given = scratch / "wheel"
    package = given / "executorch" if (given / "executorch").is_dir() else given
    config = Path("share", "cmake", "executorch-config.cmake")
    if not (package / config).is_file():
        raise UsageError(f"{given} is not ExecuTorch's wheel: it has no {config}; give the aarch64 wheel")
    return package.absolute()


def _libraries(options: BuildOptions, package: Path) -> list[Path]:
    """Shared libraries that travel with the runner."""
    if options.target == "linux-arm64":
        return sorted((package / "lib").glob("libexecutorch*.so"))
    if options.qnn_sdk is None:
        return []
    folder = options.qnn_sdk / "lib"
    stubs = sorted((folder / "aarch64-android").glob("libQnnHtpV*Stub.so"))
    skels = sorted(folder.glob("hexagon-v*/unsigned/libQnnHtpV*Skel.so"))
    named = [folder / "aarch64-android" / name for name in QNN_LIBRARIES]
    missing = [path for path in named if not path.is_file()]
    if missing or not stubs or not skels:
        wanted = missing[0] if missing else folder / "hexagon-v79/unsigned/libQnnHtpV79Skel.so"
        raise UsageError(
            f"{options.qnn_sdk} is no QNN SDK: it has no {wanted.relative_to(options.qnn_sdk)}; unpack Qualcomm's again"
        )
    return [*named, *stubs, *skels]


def _gather(part: Path, runner: Path, libraries: list[Path]) -> None:
    part.mkdir()
    for file in (runner, *libraries):
        shutil.copy2(file, part / file.name)


def _tool(name: str) -> str:
    """A program of this environment, or of the PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise UsageError(f"{name} is missing; run pip install 'kazeia[build]'")
    return found


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a step; on failure its last lines are kept in a log that the error names."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        log = Path(tempfile.gettempdir()) / "kz-build.log"
        log.write_text(done.stdout)
        cause = next((line.strip() for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
        raise RunnerError(f"{Path(command[0]).name} failed: {cause}; all of its output is in {log}")
