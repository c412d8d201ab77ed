"""Safetensors files, read and written without any framework.

A file is an 8-byte little-endian header length, a JSON header (name -> dtype, shape, begin and end offset) and the data.
Reading takes one tensor at a time straight from the file, so a checkpoint never lies in memory as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from kazeia.errors import CheckpointError

Floats = NDArray[np.float32]

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
ALIGNMENT_BYTES = 8
"""The data begins at a multiple of this; spaces fill the header up."""
NAMES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}


class Entry(msgspec.Struct, frozen=True):
    """One tensor: where its bytes lie. `begin` is counted from the start of the file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class _Described(msgspec.Struct, frozen=True):
    """A tensor as the header describes it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file, by name.

    Raises:
        CheckpointError: unreadable, not safetensors, truncated, or a dtype other than bf16, fp16, fp32.
    """
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            if file_bytes < 8 or header_bytes > min(MAX_HEADER_BYTES, file_bytes - 8):
                raise CheckpointError(f"{path} is not a safetensors file or is cut off; download it again")
            header = msgspec.json.decode(file.read(header_bytes), type=dict[str, msgspec.Raw])
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError:
        raise CheckpointError(f"{path} has no valid safetensors header; download it again") from None
    header.pop("__metadata__", None)
    return {name: _entry(path, name, raw, 8 + header_bytes, file_bytes) for name, raw in header.items()}


def _entry(path: Path, name: str, raw: msgspec.Raw, data_begin: int, file_bytes: int) -> Entry:
    wrong = CheckpointError(f"{path} describes tensor {name!r} wrongly; download it again")
    try:
        described = msgspec.json.decode(raw, type=_Described)
    except msgspec.DecodeError:
        raise wrong from None
    (begin, end), item_bytes = described.data_offsets, ITEM_BYTES.get(described.dtype)
    if item_bytes is None:
        raise CheckpointError(
            f"{path}: tensor {name!r} has dtype {described.dtype!r}; kz reads bf16, fp16 and fp32: convert the checkpoint"
        )
    if (
        not name.isprintable()
        or begin < 0
        or min(described.shape, default=0) < 0
        or math.prod(described.shape) * item_bytes != end - begin
    ):
        raise wrong
    if data_begin + end > file_bytes:
        raise CheckpointError(f"{path} is cut off: tensor {name!r} ends beyond the file; download it again")
    return Entry(file=path, dtype=described.dtype, shape=described.shape, begin=data_begin + begin)


def read_tensor(entry: Entry) -> Floats:
    """The tensor's values as a new float32 array of shape `entry.shape`.

    Raises:
        CheckpointError: the file has gone or become shorter.
    """
    stored = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}[entry.dtype]
    try:
        values = np.fromfile(entry.file, dtype=stored, count=entry.size, offset=entry.begin)
    except OSError as error:
        raise CheckpointError(f"cannot read {entry.file}: {error.strerror}") from None
    if values.size != entry.size:
        raise CheckpointError(f"{entry.file} became shorter while it was read; download it again")
    if entry.dtype == "BF16":
        # bfloat16 is the upper half of a float32.
        wide = values.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32).reshape(entry.shape)
    return values.astype(np.float32, copy=False).reshape(entry.shape)


def write_tensors(
    file: BinaryIO, shapes: dict[str, tuple[int, ...]], dtype: str, blocks: Callable[[str], Iterable[Floats]]
) -> None:
    """Write a safetensors file tensor by tensor.

    Args:
        shapes: by name, in the order they are written.
        dtype: `BF16` or `F32`.
        blocks: gives a tensor's float32 values in row-major order, in pieces of any size.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in shapes:
        for block in blocks(name):
            file.write(_to_bfloat16(block).tobytes() if dtype == "BF16" else block.astype("<f4", copy=False).tobytes())


def _to_bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Upper halves of the float32 bits, rounded to the nearest, ties to even. The values must be finite."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.asarray(rounded >> np.uint32(16), dtype="<u2")
