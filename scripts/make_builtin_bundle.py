"""Make `orchestrator/kazeia/data/builtin` from the checkpoint that `python -m training.checkpoint` writes.

    python -m scripts.make_builtin_bundle

Needs `pip install -e '.[export]'`.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from safetensors.numpy import load_file

from kazeia.bundle import MANIFEST_NAME, File, read_manifest
from kazeia.bundle_choice import BUILTIN
from kazeia.export.options import ExportOptions, Quant
from kazeia.export.service import export_bundle
from kazeia.files import sha256, write_atomically
from kazeia.voices import Voice, encode_voice

CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "kazeia-tts-12hz-9m-base"
NOTICE = "this is Kazeia's own small voice, English and French; export a Qwen3-TTS checkpoint to hear the real one (see README)"
CONTEXT_LENGTH = 512
"""Positions: half a minute of speech."""


def make(target: Path, quant: Quant) -> None:
    """Export the checkpoint with its voices into the new folder `target`."""
    options = ExportOptions(quant=quant, context_length=CONTEXT_LENGTH)
    export_bundle(CHECKPOINT, target, options)
    manifest = read_manifest(target)
    for file in sorted((CHECKPOINT / "voices").glob("*.safetensors")):
        voice = target / f"{file.stem}.voice"
        voice.write_bytes(encode_voice(Voice(file.stem, load_file(file)["embedding"], source="trained with the model")))
        manifest.voices[file.stem] = voice.name
        manifest.files.append(File(voice.name, voice.stat().st_size, sha256(voice)))
    manifest.builtin = NOTICE
    write_atomically(target / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest)))


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        bundle = Path(work) / "bundle"
        make(bundle, "8da8w")
        shutil.rmtree(BUILTIN, ignore_errors=True)
        shutil.copytree(bundle, BUILTIN)
    total_bytes = sum(path.stat().st_size for path in BUILTIN.iterdir())
    print(f"{BUILTIN}: {total_bytes:,} bytes")


if __name__ == "__main__":
    main()
