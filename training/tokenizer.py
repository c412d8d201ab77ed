"""The built-in model's own byte-level BPE, learnt from the training sentences.

usage: python -m training.tokenizer WORK

Writes vocab.json, merges.txt and tokenizer_config.json to WORK/tokenizer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kazeia.checkpoint.tiny_tokenizer import CERTAIN, byte_characters, tokenizer_config

MERGES = 1000
FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""Qwen2's split, without its case-insensitive English contractions: `l'eau` and `don't` are split alike."""


def learn(sentences: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges, with the roles as single tokens because prompts are cut by counting tokens."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(
        vocab_size=256 + MERGES, initial_alphabet=byte_characters(), show_progress=False, special_tokens=[]
    )
    certain = [word for word, count in CERTAIN.items() for _ in range(100 * count)]
    tokenizer.train_from_iterator([*sentences, *certain], trainer)
    described = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in described["merges"]]
    return described["vocab"], merges


def write(folder: Path, sentences: list[str]) -> None:
    vocabulary, merges = learn(sentences)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")), "utf-8")
    (folder / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in merges), "utf-8")
    config = json.dumps(tokenizer_config(len(vocabulary)), indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(config, "utf-8")


def main() -> None:
    work = Path(sys.argv[1])
    sentences = [line for f in ("en", "fr") for line in (work / f"text/{f}.train.txt").read_text("utf-8").splitlines()]
    write(work / "tokenizer", sentences)
    print(f"{work / 'tokenizer'}: {MERGES} merges from {len(sentences)} sentences")


if __name__ == "__main__":
    main()
