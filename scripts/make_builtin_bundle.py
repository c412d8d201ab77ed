"""Make a bundle with voices from the checkpoint that `python -m training.checkpoint` writes; by default the built-in one.

    python -m scripts.make_builtin_bundle CHECKPOINT [BUNDLE]

Needs `pip install -e '.[export]'`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from kazeia.bundle import MANIFEST_NAME, File, read_manifest
from kazeia.bundle_choice import BUILTIN
from kazeia.export.options import ExportOptions
from kazeia.export.service import export_bundle
from kazeia.files import sha256, write_atomically
from kazeia.voices import Voice, encode_voice

NOTICE = "this is Kazeia's own small voice, English and French; export a Qwen3-TTS checkpoint to hear the real one (see README)"
CONTEXT_LENGTH = 512
"""Positions: half a minute of speech."""


def make(checkpoint: Path, target: Path) -> None:
    """Export the checkpoint with its voices into the new folder `target`."""
    export_bundle(checkpoint, target, ExportOptions(quant="8da8w", decoder_quant="8da8w", context_length=CONTEXT_LENGTH))
    manifest = read_manifest(target)
    for file in sorted((checkpoint / "voices").glob("*.npy")):
        voice = target / f"{file.stem}.voice"
        voice.write_bytes(encode_voice(Voice(file.stem, np.load(file), source="trained with the model")))
        manifest.voices[file.stem] = voice.name
        manifest.files.append(File(voice.name, voice.stat().st_size, sha256(voice)))
    manifest.builtin = NOTICE
    write_atomically(target / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest)))


def main() -> None:
    checkpoint, target = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else BUILTIN
    with tempfile.TemporaryDirectory() as work:
        bundle = Path(work) / "bundle"
        make(checkpoint, bundle)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(bundle, target)
    print(f"{target}: {sum(path.stat().st_size for path in target.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
