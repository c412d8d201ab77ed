"""Trains talker and code predictor together, teacher-forced on the reference's streaming prompt.

usage: python -m training.train_talker WORK [--steps N] [--threads N]

Resumes where WORK/talker.pt stands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from kazeia.tokenizer import build_tokenizer
from training import sizes
from training.codes import ENTRIES, LAG_CODEBOOK, PHONE_CODEBOOK, SHAPE_CODEBOOKS, SOUNDING_CODEBOOKS, Quantizer
from training.steps import COOL_DOWN_SHARE, train
from training.talker_data import Batch, Batches, Reader, lessons
from training.talker_model import GUIDED_OFFSETS, MOVES, Lecture, Talker, TalkerStates
from training.voices import VOICES

PEAK_LEARNING_RATE = 1.5e-3
WEIGHT_DECAY = 0.02
POSITIONS = 1800
"""Of a batch, without its prompts."""
PREDICTED_FRAMES = 192
"""Of a batch: the code predictor costs 16 positions for every frame."""
GUIDANCE_WEIGHT, PACE_WEIGHT, PHONE_WEIGHT, FRAME_WEIGHT = 0.5, 0.5, 0.5, 1.0
PACE_UNIT_FRAMES = 10.0
MERGE_DROPOUT, TORN_SHARE = 0.15, 0.5
FORGOTTEN_SHARE = 0.6
"""Up to this share of an utterance's frames is hidden from the talker, which otherwise goes on from the last frame and does not
learn to read. Of the others any share is replaced by what the talker itself would have said (scheduled sampling in two passes,
Mihaylova and Martins 2019): it must go on from those when it speaks."""
STRANGE_SHARE = 0.6
"""Up to this share is replaced by sounds from anywhere. Told its own sounds, a talker without this made more than twice the word
errors that it made when told the teacher's: one wrong sound led to the next."""
MISPLACED_SHARE, MISNAMED_SHARE = 0.4, 0.2
"""Up to these shares are wrong about their token by one, or about their phone: from either the other must be found again."""
MOST_VARIANTS = 32
"""Of a compiled layer: talker's or predictor's, learning or not, shown or not, and small batches; about ten."""
NAMED_LANGUAGE_SHARE = 0.9
"""The others leave the language to be read off the text, which comes a token a frame: its first words are read as either."""


class Course:
    """Turns batches into losses."""

    def __init__(self, work: Path) -> None:
        config = sizes.main_config(work / "tokenizer")
        self.talker_config = sizes.talker(work / "tokenizer")
        backend = build_tokenizer(work / "tokenizer")
        self.role = torch.tensor(backend.encode("<|im_start|>assistant\n", add_special_tokens=False).ids)
        self.pad, self.bos, self.eos = (config[f"tts_{name}_token_id"] for name in ("pad", "bos", "eos"))
        self.model = Lecture(self.talker_config, len(VOICES))
        self.entries = torch.from_numpy(Quantizer.load(work / "codes.npz").scaled_entries())

    def prompts(self, batch: Batch, *, named: bool) -> Tensor:
        """[B, P, D]: role, codec tags and voice, as `kazeia.prompt` lays them out."""
        talker, c = self.model.talker, self.talker_config
        rows = len(batch.frames)

        def codec(code: int) -> Tensor:
            return talker.model.codec_embedding.weight[code].expand(rows, 1, -1)

        def text(token: int) -> Tensor:
            return talker.text(torch.tensor([token])).expand(rows, 1, -1)

        if named:
            ids = torch.tensor([c.codec_language_id[name] for name in sizes.LANGUAGE_IDS])[batch.languages]
            language = [talker.model.codec_embedding(ids)[:, None], codec(c.codec_think_eos_id)]
            tags = [codec(c.codec_think_id), codec(c.codec_think_bos_id), *language]
        else:
            tags = [codec(c.codec_nothink_id), codec(c.codec_think_bos_id), codec(c.codec_think_eos_id)]
        tags += [self.model.voices(batch.voices)[:, None], codec(c.codec_pad_id)]
        texts = [text(self.pad)] * (len(tags) - 1) + [text(self.bos)]
        role = talker.text(self.role).expand(rows, -1, -1)
        return torch.cat([role, torch.cat(texts, 1) + torch.cat(tags, 1)], 1)

    def spoken(self, batch: Batch, embedded: Tensor, known: Tensor) -> Tensor:
        """[B, S, D]: the text, one token a position, on codec_bos and then on the frames so far.

        `known` [B, S] says which frames' sounds the talker remembers.
        """
        talker = self.model.talker
        count = (batch.tokens >= 0).sum(1, keepdim=True)
        place = torch.arange(batch.tokens.shape[1])
        tokens = torch.where(place < count, batch.tokens, torch.where(place == count, self.eos, self.pad))
        bos = talker.model.codec_embedding.weight[self.talker_config.codec_bos_id].expand(len(count), 1, -1)
        sound, place_in_text = embedded[:, :, :SOUNDING_CODEBOOKS].sum(2), embedded[:, :, SOUNDING_CODEBOOKS:].sum(2)
        frames = sound * known[..., None] + place_in_text
        return talker.text(tokens) + torch.cat([bos, frames[:, :-1]], 1)

    def losses(self, batch: Batch, rng: np.random.Generator) -> dict[str, Tensor]:
        talker = self.model.talker
        embedded = talker.embedded_codes(batch.codes)
        prompts = self.prompts(batch, named=rng.random() < NAMED_LANGUAGE_SHARE)
        first = prompts.shape[1]
        shape = batch.tokens.shape
        remembered = torch.from_numpy(rng.random(shape) >= FORGOTTEN_SHARE * rng.random((shape[0], 1)))
        own = torch.from_numpy(rng.random(shape) < rng.random((2, shape[0], 1)).max(0))
        strange = torch.from_numpy(rng.random(shape) < STRANGE_SHARE * rng.random((shape[0], 1)))
        with torch.no_grad():
            hidden = talker(torch.cat([prompts, self.spoken(batch, embedded, remembered)], 1)).hidden[:, first:]
            said = torch.where(own[..., None], self.own_codes(hidden, batch), batch.codes)
            said = torch.where(strange[..., None], sounds_from_anywhere(batch, rng), said)
            said = misplaced(said, rng)
        heard = self.spoken(batch, talker.embedded_codes(said), remembered)
        states: TalkerStates = talker(torch.cat([prompts, heard], 1))
        place = torch.arange(batch.codes.shape[1])
        speaks = place < batch.frames[:, None]
        hidden = states.hidden[:, first:]
        terms = {"code0": self._first_code(hidden, batch, place)}
        terms["guide"] = GUIDANCE_WEIGHT * _guidance(states.log_attention[:, :, first:, first:], batch, speaks)
        starts = self.model.start_probe(states.paced[:, first:])[..., 0]
        known = batch.starts.isfinite()
        terms["pace"] = PACE_WEIGHT * F.smooth_l1_loss(starts[known], batch.starts[known] / PACE_UNIT_FRAMES)
        phones = self.model.phone_probe(states.read[:, first:])
        moved = batch.spoken.diff(dim=1, prepend=batch.spoken[:, :1]).clamp(0, MOVES - 1)
        terms["move"] = F.cross_entropy(self.model.move_probe(hidden)[speaks], moved[speaks])
        terms["phone"] = PHONE_WEIGHT * F.cross_entropy(phones[speaks], batch.phones[speaks])
        rows = speaks.nonzero()[torch.from_numpy(rng.permutation(int(speaks.sum()))[:PREDICTED_FRAMES])]
        sound = torch.stack([self.entries[i][batch.codes[..., c]] for i, c in enumerate(SHAPE_CODEBOOKS)]).sum(0)
        terms["frame"] = FRAME_WEIGHT * F.mse_loss(self.model.frame_probe(hidden)[speaks], sound[speaks])
        a, b = rows.T
        logits = talker.code_predictor(hidden[a, b], embedded[a, b, :-1])
        terms["codes"] = F.cross_entropy(logits.flatten(0, 1), batch.codes[a, b, 1:].flatten())
        return terms

    def loss_of_batch(self, batches: Batches) -> Callable[[int], dict[str, Tensor]]:
        """The losses of a step's batch, for `training.steps.train`."""

        def losses(step: int) -> dict[str, Tensor]:
            with torch.autocast("cpu", torch.bfloat16):
                return self.losses(batches[step], np.random.default_rng([3, step]))

        return losses

    def own_codes(self, hidden: Tensor, batch: Batch) -> Tensor:
        """[B, S, 16]: the codes of the sounds that the talker expects, where it is in the text, at the right pitch."""
        codes, rest = batch.codes.clone(), self.model.frame_probe(hidden).float()
        for entries, codebook in zip(self.entries, SHAPE_CODEBOOKS, strict=True):
            codes[..., codebook] = (0.5 * (entries**2).sum(1) - rest @ entries.T).argmin(-1)
            rest = rest - entries[codes[..., codebook]]
        return codes

    def _first_code(self, hidden: Tensor, batch: Batch, place: Tensor) -> Tensor:
        """Codebook 0 and the end: the vocabulary's other control ids are never spoken and never learnt."""
        head = self.model.talker.codec_head.weight
        logits = hidden @ torch.cat([head[:ENTRIES], head[self.talker_config.codec_eos_token_id][None]]).T
        wanted = torch.where(place == batch.frames[:, None], ENTRIES, batch.codes[..., 0])
        return F.cross_entropy(logits[place <= batch.frames[:, None]], wanted[place <= batch.frames[:, None]])


def sounds_from_anywhere(batch: Batch, rng: np.random.Generator) -> Tensor:
    """[B, S, 16]: every frame with the sound of any frame of the batch, and its own place in the text."""
    frames = batch.codes.flatten(0, 1)
    chosen = frames[torch.from_numpy(rng.integers(len(frames), size=batch.tokens.shape))]
    return torch.cat([chosen[..., :SOUNDING_CODEBOOKS], batch.codes[..., SOUNDING_CODEBOOKS:]], -1)


def misplaced(codes: Tensor, rng: np.random.Generator) -> Tensor:
    """[B, S, 16]: some frames say a token too few or too many, or another frame's phone."""
    shape, codes = codes.shape[:2], codes.clone()
    late, phoneless = (rng.random(shape) < most * rng.random((shape[0], 1)) for most in (MISPLACED_SHARE, MISNAMED_SHARE))
    moved = torch.from_numpy(rng.choice((-1, 1), shape) * late)
    codes[..., LAG_CODEBOOK] = (codes[..., LAG_CODEBOOK] + moved).clamp(0, ENTRIES - 1)
    others = codes[..., PHONE_CODEBOOK].flatten()[torch.from_numpy(rng.integers(shape[0] * shape[1], size=shape))]
    codes[..., PHONE_CODEBOOK] = torch.where(torch.from_numpy(phoneless), others, codes[..., PHONE_CODEBOOK])
    return codes


def _guidance(log_attention: Tensor, batch: Batch, speaks: Tensor) -> Tensor:
    """How little the guided heads look at the token that each frame speaks and at its neighbours."""
    place = torch.arange(speaks.shape[1])
    last = torch.minimum((batch.tokens >= 0).sum(1, keepdim=True), place)
    missed = []
    for head, offset in enumerate(GUIDED_OFFSETS):
        wanted = torch.minimum((batch.spoken + offset).clamp(min=0), last)
        missed.append(-log_attention[:, head].gather(2, wanted[..., None])[..., 0][speaks].mean())
    return torch.stack(missed).mean()


def course_batches(work: Path) -> Batches:
    """All lessons there are."""
    taught = list(lessons(work, "train"))
    hours = sum(len(x.codes) for x in taught) * 0.08 / 3600
    print(f"{len(taught)} lessons, {hours:.1f} hours", flush=True)
    return Batches(taught, Reader(work, MERGE_DROPOUT), POSITIONS, TORN_SHARE, seed=2)


def compile_layers(talker: Talker) -> None:
    """For batches of any shape."""
    torch._dynamo.config.recompile_limit = MOST_VARIANTS
    for stack in (talker.model, talker.code_predictor.model):
        for layer in stack.layers:
            layer.compile(dynamic=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--fall", type=float, default=COOL_DOWN_SHARE, help="share of the steps in which the learning rate falls")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="as it stands: slower, but needs no C++ compiler")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    course = Course(options.work)
    if not options.eager:
        compile_layers(course.model.talker)
    loss_of_batch = course.loss_of_batch(course_batches(options.work))
    train(
        course.model,
        loss_of_batch,
        options.work / "talker.pt",
        steps=options.steps,
        peak=PEAK_LEARNING_RATE,
        fall_share=options.fall,
        decay=WEIGHT_DECAY,
    )


if __name__ == "__main__":
    main()
