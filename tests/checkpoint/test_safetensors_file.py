"""Safetensors files, against the library of that name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kazeia.checkpoint.safetensors_file import read_header, read_tensor, write_tensors
from kazeia.errors import CheckpointError


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_files_of_the_library_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {"x": torch.randn(3, 5).to(dtype), "scalar": torch.tensor(2.5).to(dtype), "none": torch.zeros(0, 4).to(dtype)}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    header = read_header(path)
    assert set(header) == set(tensors)
    for name, value in tensors.items():
        assert header[name].shape == tuple(value.shape)
        read = read_tensor(header[name])
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, value.float().numpy())


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_the_library_reads_what_is_written(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "b.safetensors"
    values = np.linspace(-3, 3, 12, dtype=np.float32)
    with path.open("wb") as file:
        write_tensors(file, {"x": (3, 4), "y": (12,)}, dtype, lambda name: np.split(values, 4))
    loaded = safetensors.torch.load_file(path)
    expected = torch.from_numpy(values).to(torch.bfloat16 if dtype == "BF16" else torch.float32)
    assert torch.equal(loaded["x"], expected.reshape(3, 4))
    assert torch.equal(loaded["y"], expected)


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**127), max_value=2.0**127), min_size=1)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bfloat16_is_rounded_as_torch_does(tmp_path: Path, numbers: list[float]) -> None:
    path = tmp_path / "c.safetensors"
    values = np.array(numbers, np.float32)
    with path.open("wb") as file:
        write_tensors(file, {"x": values.shape}, "BF16", lambda name: [values])
    expected = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(read_tensor(read_header(path)["x"]), expected)


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    path = tmp_path / "valid.safetensors"
    safetensors.numpy.save_file({"x": np.ones((2, 3), np.float32)}, path)
    return path


def _with_header(path: Path, header: object) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))
    return path


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F8_E4M3", "shape": [24], "data_offsets": [0, 24]}, "has dtype 'F8_E4M3'; kz reads bf16, fp16 and fp32"),
        ({"dtype": "F32", "shape": [7], "data_offsets": [0, 28]}, "is cut off: tensor 'x' ends beyond the file"),
        ({"dtype": "F32", "shape": [5], "data_offsets": [0, 24]}, "describes tensor 'x' wrongly"),
        ({"dtype": "F32", "shape": [-6], "data_offsets": [0, 24]}, "describes tensor 'x' wrongly"),
        ({"dtype": "F32", "shape": [6], "data_offsets": [-24, 0]}, "describes tensor 'x' wrongly"),
        ({"dtype": "F32", "shape": "6", "data_offsets": [0, 24]}, "describes tensor 'x' wrongly"),
        ({"dtype": "F32", "shape": [6]}, "describes tensor 'x' wrongly"),
        ({"dtype": ["F32"], "shape": [6], "data_offsets": [0, 24]}, "describes tensor 'x' wrongly"),
        ({"dtype": "F32", "shape": [6], "data_offsets": [0.5, 24]}, "describes tensor 'x' wrongly"),
        (5, "describes tensor 'x' wrongly"),
    ],
)
def test_a_broken_entry_is_named(tmp_path: Path, entry: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_header(_with_header(tmp_path / "broken.safetensors", {"x": entry}))


@pytest.mark.parametrize("kept", [0, 4, 8, 20, -1])
def test_a_cut_file_is_refused(valid: Path, kept: int) -> None:
    valid.write_bytes(valid.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="download it again"):
        read_header(valid)


def test_a_file_cut_after_opening_is_refused(valid: Path) -> None:
    entry = read_header(valid)["x"]
    valid.write_bytes(valid.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="became shorter"):
        read_tensor(entry)
    valid.unlink()
    with pytest.raises(CheckpointError, match="cannot read"):
        read_tensor(entry)


def _refusal(path: Path) -> str:
    """What is said of a file; nothing if it can be read."""
    try:
        read_header(path)
    except CheckpointError as error:
        return str(error)
    return ""


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: len(data).to_bytes(8, "little") + data))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.safetensors"
    path.write_bytes(data)
    assert "\n" not in _refusal(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "x"]), inner),
    max_leaves=12,
)


@given(JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header_is_read_or_refused(tmp_path: Path, header: object) -> None:
    path = _with_header(tmp_path / "any.safetensors", header)
    assert "\n" not in _refusal(path)
