"""Puts the trained parts together as a checkpoint in Hugging Face layout.

usage: python -m training.checkpoint WORK FOLDER

What is not trained keeps made-up weights: the speech encoder, and all of the speaker encoder but its last layer.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from kazeia.checkpoint.config import CodecConfig, Config
from kazeia.checkpoint.layout import Layout, codec_layout, main_layout
from kazeia.checkpoint.presets import GENERATION
from kazeia.checkpoint.random_weights import CODEC_CONFIGURATION, CODEC_PREPROCESSOR, PREPROCESSOR, draw
from kazeia.checkpoint.reader import CODEC
from kazeia.checkpoint.safetensors_file import write_tensors
from training import features, sizes, tokenizer
from training.codes import CODEBOOKS, SOUNDING_CODEBOOKS
from training.decoder_model import SpeechDecoder
from training.speaker_features import solve
from training.talker_model import Lecture
from training.vocoder import synthesise
from training.voices import VOICES, spoken_by

SEED = 6
"""Of the made-up weights."""
SAMPLING = {"temperature": 0.3, "top_k": 20, "repetition_penalty": 1.0, "subtalker_temperature": 0.1, "subtalker_top_k": 20}
"""Settings the voice speaks best with. It says many frames of the same code, which a repetition penalty would forbid."""
RECORDINGS = 40
"""Of each voice, for the speaker encoder's last layer."""
CODEC_PREFIX, TALKER_PREFIX = "decoder.", "talker."

Floats = NDArray[np.float32]
Tensors = dict[str, Floats]


def codebook_name(group: int) -> str:
    """Of a codebook's tensors in the speech tokenizer, without `decoder.`."""
    part = "rvq_first.vq.layers.0" if group == 0 else f"rvq_rest.vq.layers.{group - 1}"
    return f"quantizer.{part}._codebook"


def decoder_tensors(model: SpeechDecoder) -> Tensors:
    """Named as in the speech tokenizer; a codebook's entries are sums over one use each."""
    tensors = {}
    for name, value in model.state_dict().items():
        array = value.numpy().astype(np.float32)
        if name == "entries":
            silent = np.zeros((CODEBOOKS - SOUNDING_CODEBOOKS, *array.shape[1:]), np.float32)
            for group, entries in enumerate(np.concatenate([array, silent])):
                tensors[f"{codebook_name(group)}.embedding_sum"] = entries
                tensors[f"{codebook_name(group)}.cluster_usage"] = np.ones(len(entries), np.float32)
        elif name in ("first_proj.weight", "rest_proj.weight"):
            tensors[f"quantizer.rvq_{name.split('_')[0]}.output_proj.weight"] = array[:, :, None]
        else:
            tensors[name] = array
    return {CODEC_PREFIX + name: value for name, value in tensors.items()}


def talker_tensors(model: Lecture) -> Tensors:
    return {TALKER_PREFIX + name: value.numpy().astype(np.float32) for name, value in model.talker.state_dict().items()}


def voice_embeddings(model: Lecture) -> dict[str, Floats]:
    return {name: row.detach().numpy() for name, row in zip(VOICES, model.voices.weight, strict=True)}


def completed(trained: Tensors, layout: Layout) -> Tensors:
    """`trained` with made-up weights for what is missing of `layout`."""
    unknown = trained.keys() - layout.keys()
    if unknown:
        raise SystemExit(f"trained tensors that a checkpoint does not have: {', '.join(sorted(unknown))}")
    made_up = {name: np.concatenate(list(draw(name, shape, SEED))).reshape(shape) for name, shape in layout.items()}
    return {name: trained.get(name, made_up[name]) for name in sorted(layout)}


def _speaker_layer(work: Path, tensors: Tensors, config: Config, voices: dict[str, Floats]) -> Tensors:
    assert config.speaker_encoder_config is not None
    recordings = []
    for language in ("en", "fr"):
        utterances = features.load(features.files(work, language, "train")[0])
        for utterance in itertools.islice(utterances, 80, 80 + RECORDINGS // 2):
            for voice, embedding in voices.items():
                recordings.append((synthesise(spoken_by(voice, language, utterance.features)), embedding))
    made_up = {name.removeprefix("speaker_encoder."): torch.from_numpy(value) for name, value in tensors.items()}
    weight, bias = solve(made_up.__getitem__, config.speaker_encoder_config, recordings)
    return {"speaker_encoder.fc.weight": weight, "speaker_encoder.fc.bias": bias}


def _write_weights(file: Path, tensors: Tensors) -> None:
    with file.open("wb") as opened:
        write_tensors(opened, {name: value.shape for name, value in tensors.items()}, "BF16", lambda name: [tensors[name]])


def _write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write(work: Path, folder: Path) -> None:
    """The checkpoint of the trained parts in `work`; voices beside it as `voices/NAME.npy`."""
    main, speech = sizes.main_config(work / "tokenizer"), sizes.speech_config()
    config = msgspec.json.decode(json.dumps(main), type=Config)
    codec = msgspec.json.decode(json.dumps(speech), type=CodecConfig)
    lecture, decoder = Lecture(config.talker_config, len(VOICES)), SpeechDecoder(codec.decoder_config)
    lecture.load_state_dict(torch.load(work / "talker.pt")["model"])
    decoder.load_state_dict(torch.load(work / "decoder.pt")["model"])
    (folder / CODEC).mkdir(parents=True, exist_ok=True)
    for name in tokenizer.FILES:
        (folder / name).write_bytes((work / "tokenizer" / name).read_bytes())
    _write_json(folder / "config.json", main)
    _write_json(folder / "generation_config.json", GENERATION | SAMPLING | {"auto_language": "text"})
    _write_json(folder / "preprocessor_config.json", PREPROCESSOR)
    _write_json(folder / CODEC / "config.json", speech)
    _write_json(folder / CODEC / "preprocessor_config.json", CODEC_PREPROCESSOR)
    _write_json(folder / CODEC / "configuration.json", CODEC_CONFIGURATION)
    tensors = completed(talker_tensors(lecture), main_layout(config))
    voices = voice_embeddings(lecture)
    tensors |= _speaker_layer(work, tensors, config, voices)
    _write_weights(folder / "model.safetensors", tensors)
    _write_weights(folder / CODEC / "model.safetensors", completed(decoder_tensors(decoder), codec_layout(codec)))
    (folder / "voices").mkdir(exist_ok=True)
    for name, embedding in voices.items():
        np.save(folder / "voices" / f"{name}.npy", embedding)


def main() -> None:
    work, folder = Path(sys.argv[1]), Path(sys.argv[2])
    write(work, folder)
    total_bytes = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder}: {total_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
