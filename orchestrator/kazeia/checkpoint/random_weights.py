"""Made-up checkpoints: random weights in the exact files, names, shapes and dtypes of Qwen3-TTS 12Hz.

The weights are scaled so that a made-up model behaves like one: its codes vary, its speech can end, its sound is audible.
One seed always gives the same bytes: every weight comes from the raw 16-bit words of a counter-based generator keyed on the
seed and the tensor's name, which no version of numpy changes.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from kazeia.checkpoint.config import CodecConfig, Config, Kind
from kazeia.checkpoint.layout import Layout, Shape, codec_layout, main_layout
from kazeia.checkpoint.official import WEIGHTS
from kazeia.checkpoint.presets import GENERATION, Size, codec_config, model_config
from kazeia.checkpoint.reader import CODEC
from kazeia.checkpoint.safetensors_file import Floats, write_tensors
from kazeia.checkpoint.tiny_tokenizer import tokenizer_files
from kazeia.errors import CheckpointError, UsageError
from kazeia.tokenizer import TokenizerConfig

T = TypeVar("T")

BLOCK_WEIGHTS = 1 << 22
"""Weights drawn at a time: memory stays flat whatever the size of a tensor."""

KIND_OF_NAME: dict[str, Kind] = {"base": "base", "custom-voice": "custom_voice", "voice-design": "voice_design"}
"""The kinds as the command line spells them."""

MARKER_OF_KEY = {
    "im_start_token_id": "<|im_start|>",
    "im_end_token_id": "<|im_end|>",
    "tts_pad_token_id": "<tts_pad>",
    "tts_bos_token_id": "<tts_text_bos>",
    "tts_eos_token_id": "<tts_text_eod>",
}
PREPROCESSOR = {"padding_side": "left", "padding": True, "processor_class": "Qwen3TTSProcessor"}
CODEC_PREPROCESSOR = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}
CODEC_CONFIGURATION = {"framework": "pytorch", "task": "text-to-speech"}


@dataclass(frozen=True)
class Spread:
    """How a tensor's weights are drawn: uniformly around `mean` with deviation `gain`, or `gain / sqrt(inputs)`."""

    mean: float = 0.0
    gain: float = 1.0
    by_inputs: bool = False


RULES: tuple[tuple[str, Spread], ...] = (
    (r"codebook\.initialized$", Spread(mean=1.0, gain=0.0)),
    (r"cluster_usage$", Spread(mean=1.0, gain=0.2)),
    (r"(embedding_sum|embed_sum)$", Spread(gain=1.0)),
    (r"(^|\.)[a-z_]*norm\.weight$", Spread(mean=1.0, gain=0.1)),
    (r"(layer_scale\.scale|\.gamma)$", Spread(mean=0.3, gain=0.05)),
    (r"\.(alpha|beta)$", Spread(gain=0.2)),
    (r"\.bias$", Spread(gain=0.05)),
    (r"text_embedding\.weight$", Spread(gain=1.0)),
    (r"codec_embedding\.", Spread(gain=0.5)),
    # Logits with a deviation of 3: neither one code nor noise.
    (r"(codec_head|lm_head\.\d+)\.weight$", Spread(gain=3.0, by_inputs=True)),
    # Halved by the activation between the two.
    (r"text_projection\.linear_fc2\.weight$", Spread(gain=2.0, by_inputs=True)),
    # Residual units add up: a small share each keeps the sum in bounds.
    (r"decoder\.decoder\.\d+\.block\.\d\.conv2\.", Spread(gain=0.3, by_inputs=True)),
    # Speech at a fifth of full scale, hardly ever clipped.
    (r"decoder\.decoder\.6\.conv\.weight$", Spread(gain=0.08, by_inputs=True)),
    # A voice's embedding is as long as a code's, so that neither drowns the other.
    (r"speaker_encoder\.fc\.weight$", Spread(gain=0.25, by_inputs=True)),
    (r"^(speaker_encoder|encoder\.encoder)\..*\.weight$", Spread(gain=1.4, by_inputs=True)),
    (r"\.weight$", Spread(by_inputs=True)),
)
"""The first pattern that a tensor's name holds decides."""

UPSAMPLING = re.compile(r"^decoder\.(upsample\.\d+\.0|decoder\.\d+\.block\.1)\.conv\.weight$")
"""Transposed convolutions: `[in, out, kernel]`."""


def write_random_checkpoint(
    folder: Path,
    *,
    size: Size,
    kind: Kind,
    seed: int,
    tokenizer: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> None:
    """Write a made-up checkpoint: bf16 weights (as published) and an fp32 speech tokenizer.

    Args:
        folder: must not exist, or be empty.
        size: widths and number of layers.
        kind: base has a speaker encoder, custom_voice built-in speakers and dialects.
        seed: 0 to 2**64 - 1.
        tokenizer: folder whose tokenizer files are taken; None for a small made-up one.
        progress: told each file that is begun.

    Raises:
        UsageError: the folder is not empty or cannot be written, or the seed is out of range.
        CheckpointError: the tokenizer's files are missing or lack a control marker.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"the seed is {seed}; give a whole number from 0 to 2**64 - 1")
    files = _small_files(size, kind, seed, tokenizer)
    with _new_folder(folder.resolve()) as part:
        _write(part, files, seed, progress)


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside `folder` that takes its name at the end, or is removed if anything fails."""
    part = folder.parent / f".{folder.name[:64]}.{secrets.token_hex(4)}.part"
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists already; give a new or empty folder")
        part.mkdir(parents=True)
        yield part
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}; free space or choose another place") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _small_files(size: Size, kind: Kind, seed: int, tokenizer: Path | None) -> dict[str, bytes]:
    files = tokenizer_files() if tokenizer is None else _copied_tokenizer(tokenizer)
    ids, text_ids = token_ids(files)
    config = model_config(size, kind, ids, text_ids) | {"kz_random_seed": seed}
    return files | {
        "config.json": _json(config),
        "generation_config.json": _json(GENERATION),
        "preprocessor_config.json": _json(PREPROCESSOR),
        f"{CODEC}/config.json": _json(codec_config(size)),
        f"{CODEC}/preprocessor_config.json": _json(CODEC_PREPROCESSOR),
        f"{CODEC}/configuration.json": _json(CODEC_CONFIGURATION),
    }


def token_ids(tokenizer: dict[str, bytes]) -> tuple[dict[str, int], int]:
    """The control ids by config key, and how many ids there are, of a tokenizer's three files.

    Raises:
        CheckpointError: a control marker, or the role `assistant` as one token, is missing.
    """
    vocabulary = _decode(tokenizer, "vocab.json", dict[str, int])
    added = _decode(tokenizer, "tokenizer_config.json", TokenizerConfig).added_tokens_decoder
    markers = {token.content: token_id for token_id, token in added.items()}
    missing = [marker for marker in MARKER_OF_KEY.values() if marker not in markers]
    missing += [role for role in ("assistant",) if role not in vocabulary]
    if missing:
        raise CheckpointError(f"the tokenizer lacks {', '.join(missing)}; take that of a Qwen3-TTS checkpoint")
    ids = {key: markers[marker] for key, marker in MARKER_OF_KEY.items()}
    return ids | {"assistant_token_id": vocabulary["assistant"]}, 1 + max(markers.values())


def _decode(files: dict[str, bytes], name: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(files[name], type=kind)
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"the tokenizer's {name} is not as expected ({error}); take that of a Qwen3-TTS checkpoint"
        ) from None


def _copied_tokenizer(folder: Path) -> dict[str, bytes]:
    files = {}
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"cannot read {folder / name}: {error.strerror}; give a folder with a tokenizer") from None
    return files


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _write(folder: Path, files: dict[str, bytes], seed: int, progress: Callable[[str], None]) -> None:
    (folder / CODEC).mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    config = msgspec.json.decode(files["config.json"], type=Config)
    codec = msgspec.json.decode(files[f"{CODEC}/config.json"], type=CodecConfig)
    for name, layout, dtype in (
        (WEIGHTS, main_layout(config), "BF16"),
        (f"{CODEC}/{WEIGHTS}", codec_layout(codec), "F32"),
    ):
        progress(f"writing {name}")
        _write_weights(folder / name, layout, dtype, seed)


def _write_weights(path: Path, layout: Layout, dtype: str, seed: int) -> None:
    with path.open("wb") as file:
        write_tensors(file, dict(sorted(layout.items())), dtype, lambda name: draw(name, layout[name], seed))


def draw(name: str, shape: Shape, seed: int) -> Iterator[Floats]:
    """The weights of tensor `name` in row-major order, in flat blocks: the same for the same seed, everywhere."""
    spread = next(spread for pattern, spread in RULES if re.search(pattern, name))
    deviation = spread.gain / math.sqrt(_inputs(name, shape)) if spread.by_inputs else spread.gain
    # Words 0 .. 65535 are spread evenly over mean +- sqrt(3) deviations.
    step = np.float32(2 * math.sqrt(3) * deviation / 65535)
    bits = np.random.Philox(key=seed + (zlib.crc32(name.encode()) << 64))
    left = math.prod(shape)
    while left:
        count = min(left, BLOCK_WEIGHTS)
        words = bits.random_raw(-(-count // 4)).astype("<u8", copy=False).view("<u2")[:count]
        yield (words.astype(np.float32) - np.float32(32767.5)) * step + np.float32(spread.mean)
        left -= count


def _inputs(name: str, shape: Shape) -> int:
    """How many products one output sums up."""
    if UPSAMPLING.match(name):
        # Kernels are one stride (upsample) or two strides (decoder) long: so many taps meet in one sample.
        return shape[0] * (1 if name.startswith("decoder.upsample.") else 2)
    return math.prod(shape[1:])
