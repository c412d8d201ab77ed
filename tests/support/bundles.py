"""The small bundle of the tests, and bundles made by hand for everything that does not execute a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kazeia.bundle import CONTRACT_VERSION, EXECUTORCH_VERSION, File, Manifest, Model, Program, Sampling, Speaker, Table, TokenIds
from kazeia.files import sha256

BABBLE = Path(__file__).parent / "babble"
"""A tiny bundle with random weights that speaks at once and nonsense; stands in for the built-in one in every test."""

HIDDEN, VOCAB, CODEBOOK, GROUPS, TEXT_VOCAB = 8, 1152, 128, 16, 300

TOKENS = TokenIds(
    im_start=256,
    im_end=257,
    tts_bos=258,
    tts_eos=259,
    tts_pad=260,
    codec_bos=229,
    codec_eos=230,
    codec_pad=228,
    codec_think=234,
    codec_nothink=235,
    codec_think_bos=236,
    codec_think_eos=237,
)


def fake_model(kind: str = "base", size: str = "0b6", **changes: Any) -> Model:
    """A model's description; `changes` replace fields."""
    speakers = {"ryan": Speaker(141), "dylan": Speaker(142, "beijing_dialect")} if kind == "custom_voice" else {}
    fields: dict[str, Any] = {
        "name": "fake",
        "kind": kind,
        "size": size,
        "hidden_size": HIDDEN,
        "layers": 2,
        "kv_heads": 2,
        "head_dim": 4,
        "vocab_size": VOCAB,
        "code_groups": GROUPS,
        "codebook_size": CODEBOOK,
        "context_length": 64,
        "prefill_tokens": 16,
        "sample_rate": 24000,
        "samples_per_frame": 1920,
        "speaker_embedding_size": HIDDEN,
        "languages": {"chinese": 135, "english": 130, "french": 141, "beijing_dialect": 154},
        "speakers": speakers,
        "tokens": TOKENS,
    }
    return Model(**{**fields, **changes})


def fake_sampling() -> Sampling:
    """`generation_config.json` of the official checkpoints."""
    return Sampling(True, 0.9, 50, 1.0, 1.05, True, 0.9, 50, 1.0, 8192)


def write_fake_bundle(folder: Path, model: Model | None = None) -> Path:
    """Write a bundle that passes every check short of loading its programs."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(3)
    codec_rows = [VOCAB] + [CODEBOOK] * (GROUPS - 1)
    for name in ("talker", "code_predictor", "speech_decoder"):
        (folder / f"{name}.pte").write_bytes(b"\x00\x00\x00\x00ET12" + name.encode())
    random.standard_normal((TEXT_VOCAB, HIDDEN), np.float32).tofile(folder / "text_embeddings.bin")
    random.standard_normal((sum(codec_rows), HIDDEN), np.float32).tofile(folder / "codec_embeddings.bin")
    (folder / "tokenizer.json").write_text(json.dumps(_byte_tokenizer()))
    names = sorted(path.name for path in folder.iterdir())
    manifest = Manifest(
        contract=CONTRACT_VERSION,
        kazeia="0",
        executorch=EXECUTORCH_VERSION,
        qnn=None,
        soc=None,
        model=model or fake_model(),
        sampling=fake_sampling(),
        programs={name: Program(f"{name}.pte", "xnnpack", "fp32") for name in ("talker", "code_predictor", "speech_decoder")},
        tables={
            "text_embeddings": Table("text_embeddings.bin", "f32", [TEXT_VOCAB], HIDDEN),
            "codec_embeddings": Table("codec_embeddings.bin", "f32", codec_rows, HIDDEN),
        },
        tokenizer="tokenizer.json",
        files=[File(name, (folder / name).stat().st_size, sha256(folder / name)) for name in names],
    )
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    return folder


def edit_manifest(folder: Path, **changes: Any) -> None:
    """Overwrite top-level keys of a bundle's manifest."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _byte_tokenizer() -> dict[str, Any]:
    """A `tokenizer.json` of 256 bytes and the control tokens, without merges."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(sorted(ByteLevel.alphabet()))}, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    control = ["<|im_start|>", "<|im_end|>", "<tts_text_bos>", "<tts_text_eod>", "<tts_pad>"]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    parsed: dict[str, Any] = json.loads(tokenizer.to_str())
    return parsed
