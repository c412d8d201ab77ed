"""Checkpoints: a Hugging Face folder of Qwen3-TTS 12Hz, opened without PyTorch and read one tensor at a time."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kazeia.checkpoint.config import MODEL_TYPE, TOKENIZER_TYPE, CodecConfig, Config, GenerationConfig, Section
from kazeia.checkpoint.safetensors_file import NAMES, Entry, Floats, read_header, read_tensor
from kazeia.errors import CheckpointError

if TYPE_CHECKING:
    import torch

SectionT = TypeVar("SectionT", bound=Section)

CODEC = "speech_tokenizer"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TEXT_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")


class Checkpoint:
    """An opened checkpoint. Weights are read from disk at each call and not kept."""

    path: Path
    config: Config
    """`config.json`"""
    generation: GenerationConfig
    """`generation_config.json`"""
    codec_config: CodecConfig
    """`speech_tokenizer/config.json`"""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = _read_json(path / "config.json", Config)
        _require(self.config.model_type == MODEL_TYPE, path, f"its model_type is {self.config.model_type!r}")
        _require(self.config.tokenizer_type == TOKENIZER_TYPE, path, f"its tokenizer_type is {self.config.tokenizer_type!r}")
        self.generation = _read_json(path / "generation_config.json", GenerationConfig)
        self.codec_config = _read_json(path / CODEC / "config.json", CodecConfig)
        _require(self.codec_config.model_type == TOKENIZER_TYPE, path, f"its codec is {self.codec_config.model_type!r}")
        self._tensors = _read_headers(path)
        self._codec_tensors = _read_headers(path / CODEC)

    @classmethod
    def open(cls, path: Path | str) -> Checkpoint:
        """Open and check a checkpoint folder; imports no torch and reads no weights.

        Raises:
            CheckpointError: not a folder, a file missing or broken, another model, or tensors that do not fit the config.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise CheckpointError(f"{folder} is not a folder; give the folder of a Qwen3-TTS 12Hz checkpoint")
        for name in TEXT_FILES:
            if not (folder / name).is_file():
                raise _missing(folder / name)
        return cls(folder)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def dtype(self) -> str:
        """What the main model's weights are stored in: `bf16`, `fp16`, `fp32`, or `mixed`."""
        found = {entry.dtype for entry in self._tensors.values()}
        return NAMES[found.pop()] if len(found) == 1 else "mixed"

    @cached_property
    def parameters(self) -> int:
        """Number of parameters of the main model (talker, code predictor, speaker encoder)."""
        return sum(entry.size for entry in self._tensors.values())

    @cached_property
    def codec_parameters(self) -> int:
        """Number of parameters of the speech tokenizer."""
        return sum(entry.size for entry in self._codec_tensors.values())

    def array(self, name: str) -> Floats:
        """The main model's tensor `name` as a new float32 array; the names are the file's, `layout.py` lists them."""
        return read_tensor(self._tensors[name])

    def codec_array(self, name: str) -> Floats:
        """The speech tokenizer's tensor `name` as a new float32 array."""
        return read_tensor(self._codec_tensors[name])

    def tensor(self, name: str) -> torch.Tensor:
        """The main model's tensor `name` as a new float32 torch tensor."""
        import torch

        return torch.from_numpy(self.array(name))

    def codec_tensor(self, name: str) -> torch.Tensor:
        """The speech tokenizer's tensor `name` as a new float32 torch tensor."""
        import torch

        return torch.from_numpy(self.codec_array(name))


def _missing(path: Path) -> CheckpointError:
    return CheckpointError(f"{path.parent} has no {path.name}; download the whole Qwen3-TTS 12Hz checkpoint again")


def _require(fits: bool, path: Path, reason: str) -> None:
    if not fits:
        raise CheckpointError(f"{path} is not a Qwen3-TTS 12Hz checkpoint: {reason}; give the folder of one")


def _read_json(path: Path, kind: type[SectionT]) -> SectionT:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path} is not a Qwen3-TTS 12Hz configuration: {error}; give the folder of one") from None
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); download it again") from None


def _read_headers(folder: Path) -> dict[str, Entry]:
    """The tensors of a folder's `model.safetensors`, or of the shards that `model.safetensors.index.json` names."""
    if (folder / WEIGHTS).is_file():
        return read_header(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        raise _missing(folder / WEIGHTS)
    try:
        index = msgspec.json.decode((folder / INDEX).read_bytes(), type=_Index)
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{folder / INDEX} is not a shard index ({error}); download it again") from None
    tensors: dict[str, Entry] = {}
    for shard in sorted(set(index.weight_map.values())):
        if not (folder / shard).is_file():
            raise _missing(folder / shard)
        tensors.update(read_header(folder / shard))
    return tensors


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]
