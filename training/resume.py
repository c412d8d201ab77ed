"""Goes on where a shipped checkpoint ended: fills a work folder as if it had just been trained there.

usage: python -m training.resume CHECKPOINT WORK

Needs WORK/features. The codebooks come from training/codes.npz: k-means on another machine ends elsewhere, and the models would
hear other codes. Writes WORK/codes.npz, WORK/tokenizer, WORK/decoder.pt and WORK/talker.pt; the talker's probes, which no
checkpoint keeps, are taught anew while the talker rests.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from kazeia.checkpoint.reader import CODEC
from training import sizes, tokenizer
from training.checkpoint import CODEC_PREFIX, TALKER_PREFIX, codebook_name
from training.codes import CODEBOOKS, SOUNDING_CODEBOOKS, Quantizer
from training.decoder_model import SpeechDecoder
from training.steps import save, train
from training.train_talker import Course, course_batches
from training.voices import VOICES

PROBE_STEPS, PROBE_LEARNING_RATE = 300, 2e-3
CODES = Path(__file__).parent / "codes.npz"
"""What the shipped checkpoint's codes stand for, in half precision."""

Tensors: TypeAlias = dict[str, Tensor]


def decoder_state(tensors: Tensors) -> Tensors:
    """The trained decoder's parameters from the speech tokenizer's tensors: `training.checkpoint.decoder_tensors` backwards."""
    stored = {name.removeprefix(CODEC_PREFIX): t.float() for name, t in tensors.items() if name.startswith(CODEC_PREFIX)}
    sums = [
        stored.pop(f"{codebook_name(g)}.embedding_sum") / stored.pop(f"{codebook_name(g)}.cluster_usage")[:, None]
        for g in range(CODEBOOKS)
    ]
    for name in ("first_proj", "rest_proj"):
        stored[f"{name}.weight"] = stored.pop(f"quantizer.rvq_{name.split('_')[0]}.output_proj.weight")[..., 0]
    kept = {name: t for name, t in stored.items() if not name.startswith("quantizer.")}
    return kept | {"entries": torch.stack(sums[:SOUNDING_CODEBOOKS])}


def talker_state(tensors: Tensors) -> Tensors:
    return {name.removeprefix(TALKER_PREFIX): t.float() for name, t in tensors.items() if name.startswith(TALKER_PREFIX)}


def resume_decoder(checkpoint: Path, work: Path) -> None:
    model = SpeechDecoder(sizes.speech_decoder())
    model.load_state_dict(decoder_state(load_file(checkpoint / CODEC / "model.safetensors")))
    save({"model": model.state_dict(), "step": 0}, work / "decoder.pt")


def resume_talker(checkpoint: Path, work: Path, probe_steps: int) -> None:
    course = Course(work)
    course.model.talker.load_state_dict(talker_state(load_file(checkpoint / "model.safetensors")))
    voices = np.stack([np.load(checkpoint / "voices" / f"{name}.npy") for name in VOICES])
    with torch.no_grad():
        course.model.voices.weight.copy_(torch.from_numpy(voices))
    for part in (course.model.talker, course.model.voices):
        part.requires_grad_(False)
    probes = work / "talker_probes.pt"
    train(course.model, course.loss_of_batch(course_batches(work)), probes, steps=probe_steps, peak=PROBE_LEARNING_RATE)
    save({"model": course.model.state_dict(), "step": 0}, work / "talker.pt")
    probes.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--part", choices=("decoder", "talker"), help="only this one")
    parser.add_argument("--probe-steps", type=int, default=PROBE_STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    Quantizer.load(CODES).save(options.work / "codes.npz")
    (options.work / "tokenizer").mkdir(exist_ok=True)
    for name in tokenizer.FILES:
        (options.work / "tokenizer" / name).write_bytes((options.checkpoint / name).read_bytes())
    if options.part != "talker":
        resume_decoder(options.checkpoint, options.work)
    if options.part != "decoder":
        resume_talker(options.checkpoint, options.work, options.probe_steps)


if __name__ == "__main__":
    main()
