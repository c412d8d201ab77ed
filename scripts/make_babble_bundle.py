"""Remake the tiny random bundle of the tests.

    python -m scripts.make_babble_bundle

Needs `pip install -e '.[export]'`. The weights follow from a seed, so the same versions give the same speech.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from kazeia.bundle import MANIFEST_NAME, File, read_manifest
from kazeia.export.options import ExportOptions
from kazeia.export.service import export_bundle
from kazeia.files import sha256, write_atomically
from kazeia.voices import Voice, encode_voice
from scripts.babble_checkpoint import write_babble_checkpoint

VOICE_SEED = 1
TARGET = Path(__file__).parents[1] / "tests" / "support" / "babble"
NOTICE = "this bundle is a tiny random stand-in: it babbles; export a real checkpoint to hear words (see README)"
VOICES = ("babble", "murmur")


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        checkpoint, bundle = Path(work) / "babble", Path(work) / "bundle"
        write_babble_checkpoint(checkpoint)
        export_bundle(checkpoint, bundle, ExportOptions(quant="fp32"))
        add_voices(bundle)
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(bundle, TARGET)
    print(f"{TARGET}: {sum(path.stat().st_size for path in TARGET.iterdir()):,} bytes")


def add_voices(bundle: Path) -> None:
    """Give the bundle two random voices and the notice."""
    manifest = read_manifest(bundle)
    random = np.random.default_rng(VOICE_SEED)
    for name in VOICES:
        embedding = random.standard_normal(manifest.model.speaker_embedding_size, np.float32)
        path = bundle / f"{name}.voice"
        path.write_bytes(encode_voice(Voice(name, embedding, source="random numbers")))
        manifest.voices[name] = path.name
        manifest.files.append(File(path.name, path.stat().st_size, sha256(path)))
    manifest.builtin = NOTICE
    write_atomically(bundle / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest)))


if __name__ == "__main__":
    main()
