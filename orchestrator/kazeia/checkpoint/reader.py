"""Checkpoints: a Hugging Face folder of Qwen3-TTS 12Hz, opened without PyTorch and read one tensor at a time."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kazeia.checkpoint.checks import check_config
from kazeia.checkpoint.config import CodecConfig, Config, GenerationConfig, Section
from kazeia.checkpoint.layout import Layout, check_layout, codec_layout, main_layout
from kazeia.checkpoint.official import WEIGHTS, recognise
from kazeia.checkpoint.safetensors_file import NAMES, Entry, Floats, read_header, read_tensor
from kazeia.errors import CheckpointError

if TYPE_CHECKING:
    import torch

SectionT = TypeVar("SectionT", bound=Section)

CODEC = "speech_tokenizer"
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
        self.codec_config = _read_json(path / CODEC / "config.json", CodecConfig)
        check_config(path, self.config, self.codec_config)
        self.generation = _read_json(path / "generation_config.json", GenerationConfig)
        self._tensors = _read_headers(path, main_layout(self.config))
        self._codec_tensors = _read_headers(path / CODEC, codec_layout(self.codec_config))

    @classmethod
    def open(cls, path: Path | str) -> Checkpoint:
        """Open and check a checkpoint folder; imports no torch and reads no weights.

        Raises:
            CheckpointError: not a folder, a file missing or broken, another model, or tensors that do not fit the config.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise CheckpointError(f"{folder} is not a folder; give the folder of a Qwen3-TTS 12Hz checkpoint")
        checkpoint = cls(folder)
        for name in TEXT_FILES:
            if not (folder / name).is_file():
                raise _missing(folder / name)
        return checkpoint

    @property
    def name(self) -> str:
        """The official name, or the folder's: Hugging Face's cache names folders by revision."""
        return self.official or self.path.resolve().name

    @cached_property
    def official(self) -> str | None:
        """The name of the official checkpoint that config and size of weights say this is, or None."""
        official = recognise(self.path)
        return official.name if official else None

    @property
    def dtype(self) -> str:
        """What the main model's weights are stored in: `bf16`, `fp16`, `fp32`, or `mixed`."""
        return _dtype(self._tensors)

    @property
    def codec_dtype(self) -> str:
        """What the speech tokenizer's weights are stored in."""
        return _dtype(self._codec_tensors)

    @cached_property
    def parameters(self) -> int:
        """Number of parameters of the main model (talker, code predictor, speaker encoder)."""
        return sum(entry.size for entry in self._tensors.values())

    @cached_property
    def codec_parameters(self) -> int:
        """Number of parameters of the speech tokenizer."""
        return sum(entry.size for entry in self._codec_tensors.values())

    @property
    def weight_files(self) -> set[Path]:
        """The safetensors files of the main model and the speech tokenizer."""
        return {entry.file for entry in (*self._tensors.values(), *self._codec_tensors.values())}

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


def _dtype(tensors: dict[str, Entry]) -> str:
    found = {entry.dtype for entry in tensors.values()}
    return NAMES[found.pop()] if len(found) == 1 else "mixed"


def _missing(path: Path) -> CheckpointError:
    return CheckpointError(f"{path.parent} has no {path.name}; download the whole Qwen3-TTS 12Hz checkpoint again")


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


def _read_headers(folder: Path, layout: Layout) -> dict[str, Entry]:
    """The tensors of a folder's `model.safetensors`, or of the shards that `model.safetensors.index.json` names."""
    if (folder / WEIGHTS).is_file():
        shards = [folder / WEIGHTS]
    elif (folder / INDEX).is_file():
        shards = [folder / name for name in sorted(set(_read_index(folder / INDEX).values()))]
    else:
        raise _missing(folder / WEIGHTS)
    tensors: dict[str, Entry] = {}
    for shard in shards:
        if not shard.is_file():
            raise _missing(shard)
        tensors.update(read_header(shard))
    check_layout(layout, {name: entry.shape for name, entry in tensors.items()}, str(folder / WEIGHTS))
    return tensors


def _read_index(path: Path) -> dict[str, str]:
    """The file each tensor is in, by tensor name."""
    try:
        names = msgspec.json.decode(path.read_bytes(), type=_Index).weight_map
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{path} is not a shard index ({error}); download it again") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    if any(Path(name).name != name for name in names.values()):
        raise CheckpointError(f"{path} names files outside its folder; download it again")
    return names


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]
