"""The reference, qwen-tts 0.1.1: imported without what it does not need, and tiny checkpoints it writes itself."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import types
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kazeia.checkpoint.config import Kind
from kazeia.checkpoint.presets import GENERATION, Size, codec_config, model_config
from kazeia.checkpoint.random_weights import CODEC_PREPROCESSOR, PREPROCESSOR, draw, token_ids
from kazeia.checkpoint.tiny_tokenizer import tokenizer_files

INSTALL = "pip install -e '.[test]' && pip install --no-deps -r tests/requirements-reference.txt"
SEED = 11

UNUSED = ("onnxruntime", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")
"""Wanted by the reference's 25 Hz tokenizer alone, which no 12Hz checkpoint uses."""


def reference(module: str = "qwen_tts") -> Any:
    """A module of the reference; skips the test where it is not installed, fails it in CI."""
    if find_spec("qwen_tts") is None or find_spec("transformers") is None:
        reason = f"the reference is not installed, so nothing is compared with it; run: {INSTALL}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return _import(module)


@cache
def _import(module: str) -> Any:
    for name in [name for name in UNUSED if find_spec(name.split(".")[0]) is None]:
        _stub(name)
    # Models this small wait for each other's threads most of the time.
    importlib.import_module("torch").set_num_threads(1)
    logging.getLogger("sox").setLevel(logging.ERROR)  # warns that the program is missing; nothing here runs it
    return importlib.import_module(module)


def _stub(name: str) -> None:
    stub = types.ModuleType(name)
    stub.__spec__ = ModuleSpec(name, None)
    stub.__path__ = []
    sys.modules[name] = stub


def write_reference_checkpoint(folder: Path, size: Size, kind: Kind, *, ends: bool, seed: int = SEED) -> Path:
    """Write a checkpoint of random fp32 weights with the reference's own classes and `save_pretrained`.

    Unless it `ends`, the end of speech has a logit of 0 and is never the best: greedy runs are as long as a test wants.
    """
    import torch

    models = reference("qwen_tts.core.models")
    codecs = reference("qwen_tts.core")
    files = tokenizer_files()
    ids, text_ids = token_ids(files)
    config = models.Qwen3TTSConfig(**model_config(size, kind, ids, text_ids))
    main = models.Qwen3TTSForConditionalGeneration(config)
    codec = codecs.Qwen3TTSTokenizerV2Model(codecs.Qwen3TTSTokenizerV2Config(**codec_config(size)))
    for model, target in ((main, folder), (codec, folder / "speech_tokenizer")):
        weights = {
            name: torch.from_numpy(np.concatenate(list(draw(name, tuple(value.shape), seed))).reshape(tuple(value.shape)))
            for name, value in model.state_dict().items()
        }
        if "talker.codec_head.weight" in weights and not ends:
            weights["talker.codec_head.weight"][config.talker_config.codec_eos_token_id] = 0
        model.load_state_dict(weights)
        model.save_pretrained(target)
    _make_loadable(folder / "config.json")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    (folder / "speech_tokenizer" / "preprocessor_config.json").write_text(json.dumps(CODEC_PREPROCESSOR))
    return folder


def _make_loadable(path: Path) -> None:
    """Drop what the reference saves into `speaker_encoder_config` and then refuses to load."""
    config = json.loads(path.read_text())
    saved = config["speaker_encoder_config"]
    known = inspect.signature(reference("qwen_tts.core.models.configuration_qwen3_tts").Qwen3TTSSpeakerEncoderConfig).parameters
    config["speaker_encoder_config"] = {key: value for key, value in saved.items() if key in known}
    path.write_text(json.dumps(config, indent=2))


def load_reference(folder: Path) -> Any:
    """The reference's `Qwen3TTSModel` of a checkpoint, fp32: all of its `generate_*` functions work."""
    import torch

    return reference().Qwen3TTSModel.from_pretrained(str(folder), dtype=torch.float32)


class ReferenceCheckpoints:
    """Tiny checkpoints written by the reference, made when first asked for and kept for the whole test run.

    `folder(...)` is a checkpoint, `model(...)` the reference's `Qwen3TTSModel` loaded from it again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._models: dict[Path, Any] = {}

    def folder(self, size: Size = "tiny", kind: Kind = "base", *, ends: bool = False) -> Path:
        folder = self._root / f"{size}-{kind}{'-ends' if ends else ''}"
        return folder if folder.exists() else write_reference_checkpoint(folder, size, kind, ends=ends)

    def model(self, size: Size = "tiny", kind: Kind = "base", *, ends: bool = False) -> Any:
        folder = self.folder(size, kind, ends=ends)
        if folder not in self._models:
            self._models[folder] = load_reference(folder)
        return self._models[folder]
