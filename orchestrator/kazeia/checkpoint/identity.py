"""Which checkpoint is it? A hash of what the models are made of."""

from __future__ import annotations

import hashlib

from kazeia.checkpoint.reader import CODEC, Checkpoint
from kazeia.errors import CheckpointError
from kazeia.files import sha256

CONFIGS = ("config.json", f"{CODEC}/config.json")


def checkpoint_sha256(checkpoint: Checkpoint) -> str:
    """SHA-256 over names and SHA-256 of both configurations and all weights; where the folder lies does not matter.

    Reads gigabytes of weights at full size.

    Raises:
        CheckpointError: a file went away or cannot be read.
    """
    digest = hashlib.sha256()
    paths = {checkpoint.path / name for name in CONFIGS} | checkpoint.weight_files
    for path in sorted(paths):
        try:
            content = sha256(path)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}; download it again") from None
        digest.update(f"{path.relative_to(checkpoint.path).as_posix()} {content}\n".encode())
    return digest.hexdigest()
