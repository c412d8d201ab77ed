"""The five official checkpoints, recognised by size and hash.

Recognising reads `config.json` alone; verifying hashes every file of the table, gigabytes of weights included.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kazeia.errors import CheckpointError
from kazeia.files import sha256

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Official:
    """One official checkpoint: what its `config.json` and `model.safetensors` are."""

    name: str
    config_sha256: str
    weights_bytes: int
    weights_sha256: str


OFFICIAL = (
    Official(
        "Qwen3-TTS-12Hz-0.6B-Base",
        "2e714c787c8edb98b05432685cddb634add2de4d4e645f653d68251ef72ba011",
        1829344272,
        "180b3b10eb1c9f1b4db7806d5475bae3071c0243c299d49926bab1da3b6946f6",
    ),
    Official(
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "81aca2b6fac304944d8acf345272d8a9a727d5fc2e2e66b222ab4729340c7455",
        1811626576,
        "bc3c7e785eb961179c25450d1acff03f839e0002f2f3a5aeb67b5735c0fa2adb",
    ),
    Official(
        "Qwen3-TTS-12Hz-1.7B-Base",
        "b4f01752d15a488abde3e1ab44723ae4f4b9e68a4037257b098b3737893cc1f9",
        3857413744,
        "38fc7fc51c5e776e840414b6fd443962e9411b9654888fd7913e4da643cb857c",
    ),
    Official(
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "17a07f527a1c25ea30b4e023a184482a23d3e279d697b1dc81b1bde498d29cf9",
        3833402552,
        "38b1d5971bdbd982b561cccec982669a53b0537c3cf5e9bd4778ed07bb2f5137",
    ),
    Official(
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "aecd2cc4c1fe9edef1cb7ca7c401685a43879ad43f3f9e883f1c6760b61731e0",
        3833402552,
        "391e8db219f292c515297cdceeb43e4eae67cdde35fa57e79a6a8a532fca0522",
    ),
)

SHARED_FILES = {
    "generation_config.json": "f1b90b4513f3b34c62851049e2492d7b4c5940daf1276f89c82b8ef04127f3aa",
    "merges.txt": "599bab54075088774b1733fde865d5bd747cbcc7a547c5bc12610e874e26f5e3",
    "preprocessor_config.json": "efdde1022ea9d76928bf7a9cd53139138f5ba2e466e837f08f6105ab1af1c119",
    "tokenizer_config.json": "dc3c31c3bdaedd5016382bb3cbe07323026775ad51f5a4fb564505992ae4a670",
    "vocab.json": "ca10d7e9fb3ed18575dd1e277a2579c16d108e32f27439684afa0e10b1440910",
    "speech_tokenizer/config.json": "ee65bb901c876664ab8707c487157aa1a6ee57c65969b28fb5ec9dc211e68167",
    "speech_tokenizer/configuration.json": "6bc26d64eb5024b4d1dab5a52371958b429256d6c9d59787f1f5294a54e0cebd",
    "speech_tokenizer/preprocessor_config.json": "fcb3805e597e786d4067706e602f6688524640f8d3396790e2e09b5942fcbdfb",
    "speech_tokenizer/model.safetensors": "836b7b357f5ea43e889936a3709af68dfe3751881acefe4ecf0dbd30ba571258",
}
"""SHA-256 of the files that are the same in all five."""


def recognise(folder: Path) -> Official | None:
    """The official checkpoint whose `config.json` and size of weights `folder` has, or None. Reads no weights."""
    try:
        digest = sha256(folder / "config.json")
        weights_bytes = (folder / WEIGHTS).stat().st_size
    except OSError:
        return None
    found = (official.config_sha256 == digest and official.weights_bytes == weights_bytes for official in OFFICIAL)
    return next(itertools.compress(OFFICIAL, found), None)


def verify(folder: Path, official: Official) -> Iterator[str]:
    """Hash every file of the table; yields each file's name before it is hashed.

    Raises:
        CheckpointError: a file is missing or differs from the official one.
    """
    for name, expected in {WEIGHTS: official.weights_sha256, **SHARED_FILES}.items():
        yield name
        try:
            digest = sha256(folder / name)
        except OSError as error:
            raise CheckpointError(f"cannot read {folder / name}: {error.strerror}; download {official.name} again") from None
        if digest != expected:
            raise CheckpointError(f"{folder / name} is not that of {official.name} (SHA-256 {digest}); download it again")
