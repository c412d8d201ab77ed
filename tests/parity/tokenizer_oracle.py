"""The reference's tokenizer with the real vocabulary, and the golden file made from it.

`python -m tests.parity.tokenizer_oracle` writes the golden file again.
"""

from __future__ import annotations

import json
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

from kazeia.checkpoint.presets import model_config
from kazeia.checkpoint.random_weights import PREPROCESSOR, token_ids
from tests.parity.reference import reference
from tests.support.awkward import AWKWARD
from tests.support.real_vocabulary import write_real_tokenizer

GOLDEN = Path(__file__).parents[1] / "data" / "tokenizer_golden.json"
FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")


def write_model_files(folder: Path) -> Path:
    """Complete a tokenizer's folder to what the reference's processor loads from: the configuration, no weights."""
    ids, text_ids = token_ids({name: (folder / name).read_bytes() for name in FILES})
    (folder / "config.json").write_text(json.dumps(model_config("0.6b", "base", ids, text_ids)))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    return folder


def load_processor(folder: Path, *, fix_mistral_regex: bool) -> Any:
    """The processor as `Qwen3TTSModel.from_pretrained` gets it."""
    models = reference("qwen_tts.core.models")
    transformers = reference("transformers")
    transformers.AutoConfig.register("qwen3_tts", models.Qwen3TTSConfig, exist_ok=True)
    transformers.AutoProcessor.register(models.Qwen3TTSConfig, models.Qwen3TTSProcessor, exist_ok=True)
    return transformers.AutoProcessor.from_pretrained(folder, fix_mistral_regex=fix_mistral_regex)


class PlainOracle:
    """transformers' Python tokenizer below its search for control markers: every text is plain characters."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = reference("transformers").Qwen2Tokenizer.from_pretrained(folder)

    def __call__(self, text: str) -> list[int]:
        tokens = self._tokenizer._tokenize(unicodedata.normalize("NFC", text))
        ids: list[int] = self._tokenizer.convert_tokens_to_ids(tokens)
        return ids


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        oracle = PlainOracle(write_real_tokenizer(Path(name)))
        golden = [{"text": text, "ids": oracle(text)} for text in AWKWARD]
    GOLDEN.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(entry) for entry in golden)
    GOLDEN.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
