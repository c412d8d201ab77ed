"""Qualcomm's QNN libraries of this machine: the NPU's compiler and its emulator. Needs neither PyTorch nor ExecuTorch.

They come with the Python package `onnxruntime-qnn`, or from a QNN SDK named by `$QNN_SDK_ROOT`.
"""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kazeia.errors import UsageError

PACKAGE, PACKAGE_VERSION = "onnxruntime-qnn", "2.5.0"
"""The version whose compiler and emulator work with ExecuTorch 1.5.1."""
FAILING_VERSIONS = ("2.3.0", "2.4.0", "2.6.0", "2.7.0")
"""Versions of the package that fail when they create a device: `unknown custom config socModel 0`."""

ROOT_VARIABLE = "QNN_SDK_ROOT"
HTP_LIBRARY = "libQnnHtp.so"
SDK_FOLDER = Path("lib", "x86_64-linux-clang")
"""Where an SDK keeps the libraries of this kind of machine."""

_BUILD_ID = re.compile(rb"v(\d+\.\d+\.\d+)\.\d{6,}")
_INSTALL = f"pip install {PACKAGE}=={PACKAGE_VERSION}"


@dataclass(frozen=True)
class QnnSdk:
    """Libraries that belong together."""

    folder: Path
    """Holds `libQnnHtp.so`, `libQnnSystem.so` and the HTP's compiler."""
    version: str
    """Of QNN, such as `2.49.40`; a device needs this one or a newer one."""
    source: str
    """Where they come from, as a person would say it."""


def find_qnn_sdk() -> QnnSdk:
    """The libraries of `$QNN_SDK_ROOT`, else of the installed package.

    Raises:
        UsageError: there are none, or of a version that is known to fail; says what to install.
    """
    if root := os.environ.get(ROOT_VARIABLE):
        folder = Path(root) / SDK_FOLDER
        if not (folder / HTP_LIBRARY).is_file():
            raise UsageError(f"${ROOT_VARIABLE} is {root}, which has no {SDK_FOLDER / HTP_LIBRARY}; correct it, or unset it")
        return QnnSdk(folder, library_version(folder / HTP_LIBRARY), f"${ROOT_VARIABLE} {root}")
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        raise UsageError(
            f"the NPU's compiler and emulator are not installed; run {_INSTALL} (Python 3.11 to 3.13), "
            f"or set ${ROOT_VARIABLE} to a QNN SDK"
        ) from None
    if found in FAILING_VERSIONS:
        raise UsageError(f"{PACKAGE} {found} fails when it creates a device, {PACKAGE_VERSION} works; run {_INSTALL}")
    spec = find_spec("onnxruntime_qnn")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders or not Path(folders[0], HTP_LIBRARY).is_file():
        raise UsageError(
            f"{PACKAGE} {found} has no {HTP_LIBRARY} for this machine; it needs Linux on x86-64, run {_INSTALL} there"
        )
    return QnnSdk(Path(folders[0]), library_version(Path(folders[0], HTP_LIBRARY)), f"{PACKAGE} {found}")


def keep_executorch_offline() -> None:
    """ExecuTorch downloads an SDK unless the variable is set, be it to nothing."""
    os.environ.setdefault(ROOT_VARIABLE, "")


@cache
def library_version(library: Path) -> str:
    """QNN's version as its HTP library carries it.

    Raises:
        UsageError: the file is not such a library.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = _BUILD_ID.search(content)
        if found is None:
            raise UsageError(f"{library} does not tell QNN's version; run {_INSTALL}")
        return found[1].decode()


def version_numbers(version: str) -> list[int]:
    """`2.49.40` as numbers that compare."""
    return [int(part) for part in version.split(".") if part.isdigit()]
