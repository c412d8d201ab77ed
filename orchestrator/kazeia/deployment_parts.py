"""What a deployment consists of: the bundle's files, the runner with its libraries, the launch script, voices, a listing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kazeia import __version__
from kazeia.bundle import MANIFEST_NAME, Bundle
from kazeia.device_store import Blob
from kazeia.devices import layout
from kazeia.devices.description import Description
from kazeia.devices.local import runner_path
from kazeia.elf import read_elf, shared_libraries
from kazeia.errors import RunnerError
from kazeia.files import sha256
from kazeia.templates import render
from kazeia.voices import voice_file

KEPT_RUNS = 8
"""Runs whose logs stay on the device."""


class ListedFile(msgspec.Struct):
    path: str
    bytes: int
    sha256: str


class Listing(msgspec.Struct):
    """`deployment.json`. Nothing in it changes with time, so that the same deployment has the same id."""

    kazeia: str
    model: str
    backend: str
    """Of the talker."""
    quant: str
    context_length: int
    executorch: str
    qnn: str | None
    soc: str | None
    files: list[ListedFile]


@dataclass(frozen=True)
class Parts:
    """Everything to send, by path in the deployment; programs come first, so that they can be tried before the models travel."""

    programs: dict[str, Blob]
    """The runner, its libraries and the launch script."""
    contents: dict[str, Blob]
    """The bundle, voices, and the listing last."""
    deployment: str
    """Id of the listing."""
    bundle: str
    """Id of the manifest."""

    @property
    def all(self) -> dict[str, Blob]:
        return {**self.programs, **self.contents}


def choose_runner(given: Path | None, device: str, description: Description) -> Path:
    """`given`, or else the runner installed here if the device can run it.

    Raises:
        RunnerError: the device cannot run it, or it is no program; says how to get one that fits.
    """
    remedy = "build one for it with kz build, then kz deploy --runner FILE"
    runner = given or runner_path()
    machine = read_elf(runner).machine
    if machine != description.machine:
        whose = f"{given} is" if given else "the runner installed here is"
        raise RunnerError(f"{device} is {description.abi}, {whose} for {machine}; {remedy}")
    return runner


def collect(
    bundle: Bundle, runner: Path, voices: Sequence[str], description: Description, log_level: str, scratch: Path
) -> Parts:
    """Gather the parts; what is made here is written into the folder `scratch`.

    Raises:
        RunnerError: the runner or a library is not what it should be.
        VoiceError: an unknown voice.
    """
    script = scratch / layout.LAUNCH_SCRIPT
    values = {"kept_runs": KEPT_RUNS, "performance_mask": description.performance_mask(), "log_level": log_level}
    script.write_text(render(f"{layout.LAUNCH_SCRIPT}.j2", **values), encoding="utf-8", newline="\n")
    libraries = shared_libraries(runner)
    programs = {layout.RUNNER: _blob(runner, executable=True), layout.LAUNCH_SCRIPT: _blob(script, executable=True)}
    programs |= {f"{layout.LIBRARIES}/{name}": _blob(path) for name, path in sorted(libraries.items())}
    # The manifest is copied: what is sent must be what was read, whatever an export does meanwhile.
    manifest = Path(shutil.copy(bundle.folder / MANIFEST_NAME, scratch))
    contents = {
        f"{layout.BUNDLE}/{file.name}": Blob(bundle.folder / file.name, file.bytes, file.sha256) for file in bundle.manifest.files
    }
    contents |= {f"{layout.VOICES}/{voice_file(name).name}": _blob(voice_file(name)) for name in voices}
    contents[f"{layout.BUNDLE}/{MANIFEST_NAME}"] = _blob(manifest)
    listing = scratch / layout.LISTING
    listing.write_bytes(_listing(bundle, {**programs, **contents}))
    contents[layout.LISTING] = _blob(listing)
    return Parts(programs, contents, layout.content_id(listing.read_bytes()), layout.content_id(manifest.read_bytes()))


def _listing(bundle: Bundle, blobs: dict[str, Blob]) -> bytes:
    manifest = bundle.manifest
    talker = manifest.programs["talker"]
    files = [ListedFile(path, blob.bytes, blob.sha256) for path, blob in blobs.items()]
    return msgspec.json.encode(
        Listing(
            kazeia=__version__,
            model=manifest.model.name,
            backend=talker.backend,
            quant=talker.quant,
            context_length=manifest.model.context_length,
            executorch=manifest.executorch,
            qnn=manifest.qnn,
            soc=manifest.soc,
            files=files,
        )
    )


def _blob(path: Path, *, executable: bool = False) -> Blob:
    return Blob(path, path.stat().st_size, sha256(path), executable)
