"""The checkpoint behind the bundle of the tests and the golden files: `kz checkpoint random`, made to stop talking soon."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from kazeia.checkpoint.random_weights import write_random_checkpoint

SEED = 1
HEAD = "talker.codec_head.weight"
EOS_GAIN_EXPONENT = 1
"""The scores of the end-of-speech code are doubled: in half of all frames it is then among the likeliest."""
BF16_EXPONENT_UNIT = 1 << 7


def write_babble_checkpoint(folder: Path) -> None:
    """Write the checkpoint; the same bytes every time."""
    write_random_checkpoint(folder, size="tiny", kind="base", seed=SEED)
    config = json.loads((folder / "config.json").read_text())["talker_config"]
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    header_bytes = 8 + int.from_bytes(data[:8], "little")
    start, end = json.loads(data[8:header_bytes])[HEAD]["data_offsets"]
    head = np.frombuffer(data, "<u2", (end - start) // 2, header_bytes + start).reshape(config["vocab_size"], -1)
    head[config["codec_eos_token_id"]] += EOS_GAIN_EXPONENT * BF16_EXPONENT_UNIT
    weights.write_bytes(data)
