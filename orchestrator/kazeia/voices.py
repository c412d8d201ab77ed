"""Voices: a named speaker embedding and, for in-context cloning, reference frames with their transcript.

A voice is one safetensors file, `NAME.voice`, in `voices/` of Kazeia's folder or inside a bundle.
"""

from __future__ import annotations

import json
import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kazeia.errors import VoiceError
from kazeia.files import write_atomically
from kazeia.home import home

if TYPE_CHECKING:
    from kazeia.bundle import Bundle

SUFFIX = ".voice"
NAME_LIMIT_BYTES = 200


@dataclass(frozen=True)
class Voice:
    """What a prompt needs to sound like someone."""

    name: str
    embedding: NDArray[np.float32]
    """`[speaker_embedding_size]`"""
    reference_codes: NDArray[np.int16] | None = None
    """`[frames, 16]`; ICL only."""
    reference_text: str | None = None
    """Transcript of the reference frames; ICL only."""
    source: str = ""
    """Where the embedding came from, for people."""


def load_voice(given: str, bundle: Bundle) -> Voice:
    """A voice by name (yours first, then the bundle's), or from a `.npy` file with one embedding.

    Raises:
        VoiceError: no such voice (lists the known), or a broken file.
    """
    if given.endswith(".npy"):
        return Voice(Path(given).stem, read_embedding(Path(given)), source=given)
    name = unicodedata.normalize("NFC", given)
    own = _folder() / (name + SUFFIX)
    if _is_valid(name) and own.is_file():
        return read_voice(own)
    if name in bundle.manifest.voices:
        return read_voice(bundle.folder / bundle.manifest.voices[name])
    known = sorted({*list_voices(), *bundle.manifest.voices})
    listed = f"known: {', '.join(known)}" if known else "there is none yet"
    raise VoiceError(f"unknown voice {given!r} ({listed}); make one with kz voice add NAME RECORDING")


def default_voice(bundle: Bundle) -> Voice | None:
    """The bundle's first voice, if it brings any."""
    for file in bundle.manifest.voices.values():
        return read_voice(bundle.folder / file)
    return None


def list_voices() -> list[str]:
    """Names of the voices in Kazeia's folder."""
    return sorted(path.stem for path in _folder().glob("*" + SUFFIX))


def voice_file(name: str) -> Path:
    """The file of a voice in Kazeia's folder.

    Raises:
        VoiceError: there is none of this name.
    """
    path = _folder() / (checked_name(name) + SUFFIX)
    if not path.is_file():
        raise VoiceError(f"there is no voice {name!r}; kz voice list shows what there is")
    return path


def save_voice(voice: Voice) -> Path:
    """Store a voice under its name, replacing an older one.

    Raises:
        VoiceError: a name that cannot be a file name, or a folder that cannot be written.
    """
    path = _folder() / (checked_name(voice.name) + SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encode_voice(voice))
    except OSError as error:
        raise VoiceError(f"cannot write {path}: {error.strerror}; set $KZ_HOME to a folder you can write") from None
    return path


def remove_voice(name: str) -> None:
    """Delete a voice from Kazeia's folder.

    Raises:
        VoiceError: there is none of this name.
    """
    voice_file(name).unlink()


def checked_name(name: str) -> str:
    """The name in NFC, so that two spellings of one accent are one voice.

    Raises:
        VoiceError: it cannot be a file name everywhere.
    """
    normal = unicodedata.normalize("NFC", name)
    if not _is_valid(normal):
        raise VoiceError(
            f"{name!r} cannot name a voice; use letters, digits, spaces, dots and dashes, at most {NAME_LIMIT_BYTES} bytes"
        )
    return normal


def read_embedding(path: Path) -> NDArray[np.float32]:
    """Read one speaker embedding from a `.npy` file: any float vector, or a matrix of one row.

    Raises:
        VoiceError: missing, not a `.npy`, or not one finite vector.
    """
    values = _read_npy(path)
    vector = values.reshape(-1) if values.ndim <= 2 and max(values.shape, default=0) == values.size else None
    if vector is None or vector.size < 2 or vector.dtype.kind != "f" or not np.isfinite(vector).all():
        raise VoiceError(f"{path} holds {values.dtype} {list(values.shape)}, not one vector of finite numbers")
    return vector.astype(np.float32)


def read_codes(path: Path) -> NDArray[np.int16]:
    """Read codebook IDs `[frames, 16]` from a `.npy` file.

    Raises:
        VoiceError: missing, not a `.npy`, or of another shape or type.
    """
    values = _read_npy(path)
    if values.ndim != 2 or values.shape[0] == 0 or values.dtype.kind not in "iu":
        raise VoiceError(f"{path} holds {values.dtype} {list(values.shape)}, not whole numbers [frames, 16]")
    if values.min() < 0 or values.max() > np.iinfo(np.int16).max:
        raise VoiceError(f"{path} holds codes from {values.min()} to {values.max()}; they must be 0 or more and fit 16 bits")
    return values.astype(np.int16)


def read_voice(path: Path) -> Voice:
    """Read a voice file.

    Raises:
        VoiceError: it cannot be read or is no voice.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = path.read_bytes()
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        return Voice(
            name=metadata["name"],
            embedding=arrays["embedding"].astype(np.float32),
            reference_codes=arrays.get("reference_codes"),
            reference_text=metadata.get("reference_text"),
            source=metadata["source"],
        )
    except OSError as error:
        raise VoiceError(f"cannot read {path}: {error.strerror}") from None
    except (SafetensorError, ValueError, KeyError):
        raise VoiceError(f"{path} is not a voice; remove it and add the voice again with kz voice add") from None


def encode_voice(voice: Voice) -> bytes:
    """A voice file's bytes."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[np.float32] | NDArray[np.int16]] = {"embedding": voice.embedding}
    metadata = {"name": voice.name, "source": voice.source}
    if voice.reference_codes is not None and voice.reference_text is not None:
        arrays["reference_codes"] = voice.reference_codes
        metadata["reference_text"] = voice.reference_text
    return save(arrays, metadata)


def _read_npy(path: Path) -> NDArray[np.generic]:
    try:
        values = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise VoiceError(f"{path} does not exist") from None
    except (OSError, ValueError, EOFError):
        raise VoiceError(f"{path} is not a .npy file with one array") from None
    if not isinstance(values, np.ndarray):
        raise VoiceError(f"{path} is not a .npy file with one array")
    return values


def _folder() -> Path:
    return home() / "voices"


def _is_valid(name: str) -> bool:
    forbidden = set('/\\:*?"<>|')
    return (
        bool(name.strip())
        and not name.startswith((".", "-"))
        and len(os.fsencode(name)) <= NAME_LIMIT_BYTES
        and not any(character in forbidden or unicodedata.category(character).startswith("C") for character in name)
    )
