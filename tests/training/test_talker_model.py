"""Talker, code predictor and prompt as they are trained are those that are exported."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from kazeia.checkpoint.config import Config
from kazeia.checkpoint.layout import main_layout
from kazeia.prompt import Request, _Builder
from kazeia.voices import Voice
from training import sizes, tokenizer
from training.checkpoint import TALKER_PREFIX, completed, talker_tensors, voice_embeddings
from training.codes import ENTRIES, LAG_CODEBOOK, PHONE_CODEBOOK, SHAPE_CODEBOOKS, SOUNDING_CODEBOOKS, Quantizer
from training.talker_data import Lesson, Reader, collate
from training.train_talker import MISNAMED_SHARE, MISPLACED_SHARE, Course, compile_layers, misplaced, sounds_from_anywhere

TEXT = "Good morning."


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    work = tmp_path_factory.mktemp("work")
    tokenizer.write(work / "tokenizer", [TEXT] * 20)
    entries = np.random.default_rng(0).standard_normal((13, 256, 128), np.float32)
    Quantizer(np.zeros(544, np.float32), np.zeros((544, 128), np.float32), entries).save(work / "codes.npz")
    torch.manual_seed(1)
    course = Course(work)
    course.work = work  # type: ignore[attr-defined]
    return course


def work(course: Course) -> Path:
    return Path(course.work)  # type: ignore[attr-defined]


def test_every_tensor_of_talker_and_code_predictor_is_trained(course: Course) -> None:
    config = msgspec.convert(sizes.main_config(work(course) / "tokenizer"), type=Config)
    layout = {name: shape for name, shape in main_layout(config).items() if name.startswith(TALKER_PREFIX)}
    trained = talker_tensors(course.model)
    assert trained.keys() == layout.keys()
    assert completed(trained, layout).keys() == layout.keys()


def prompt_builder(course: Course) -> tuple[_Builder, Any]:
    """The product's own prompt builder on the trained tables."""
    talker, c = course.model.talker, course.talker_config
    main = sizes.main_config(work(course) / "tokenizer")
    with torch.no_grad():
        text = talker.text(torch.arange(c.text_vocab_size)).numpy()
        codec = [
            talker.model.codec_embedding.weight.numpy(),
            *(t.weight.numpy() for t in talker.code_predictor.model.codec_embedding),
        ]
    names = ("bos", "pad", "think", "nothink", "think_bos", "think_eos")
    tokens = SimpleNamespace(
        **{f"tts_{name}": main[f"tts_{name}_token_id"] for name in ("bos", "eos", "pad")},
        **{f"codec_{name}": getattr(c, f"codec_{name}_id") for name in names},
        codec_eos=c.codec_eos_token_id,
    )
    model = SimpleNamespace(
        tokens=tokens,
        hidden_size=c.hidden_size,
        speaker_embedding_size=c.hidden_size,
        languages=c.codec_language_id,
        auto_language="model",
        speakers={},
        kind="base",
        name="small",
        size="0b6",
    )
    bundle: Any = SimpleNamespace(manifest=SimpleNamespace(model=model), text_embeddings=text, codec_embeddings=codec)
    return _Builder(bundle), c


@pytest.mark.parametrize(("language", "named"), [("english", True), ("auto", False)])
def test_training_sees_the_products_prompt(course: Course, language: str, named: bool) -> None:
    codes = np.random.default_rng(0).integers(0, 200, (25, 16)).astype(np.int16)
    lesson = Lesson(TEXT, ((0, 0.0),), codes, np.ones(25, np.int16), 0, 1, 0)
    reader = Reader(work(course))
    batch = collate([lesson], reader, np.random.default_rng(0), 0.0)
    builder, _ = prompt_builder(course)
    embedding = voice_embeddings(course.model)["remi"]
    ids = [*course.role.tolist(), *reader.read(lesson, torn=False)[0], *[0] * 5]
    spoken, trailing = builder.plain(ids, "streaming")
    request = Request(TEXT, voice=Voice("remi", embedding, source="test"), language=language)
    wanted = np.concatenate([builder.role(ids), builder.tagged(builder.codec_tags(request)), spoken])
    with torch.no_grad():
        embedded = course.model.talker.embedded_codes(batch.codes)
        positions = course.spoken(batch, embedded, torch.ones_like(batch.tokens))[0].numpy()
        found = np.concatenate([course.prompts(batch, named=named)[0].numpy(), positions[:1]])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    frames = embedded[0].sum(1).numpy()
    texts = np.concatenate([trailing, np.repeat(builder.tts_pad, 25 - len(trailing), 0)])
    np.testing.assert_allclose(positions[1:], texts + frames[:25], atol=1e-5)


def test_own_sounds_are_what_the_talker_expects_where_it_is(course: Course) -> None:
    lesson = Lesson(TEXT, ((0, 0.0),), np.full((25, 16), 7, np.int16), np.ones(25, np.int16), 0, 1, 0)
    batch = collate([lesson], Reader(work(course)), np.random.default_rng(0), 0.0)
    torch.manual_seed(2)
    hidden = torch.randn(1, 26, course.talker_config.hidden_size)
    with torch.no_grad():
        codes = course.own_codes(hidden, batch)
        expected = course.model.frame_probe(hidden)
    kept = [i for i in range(16) if i not in SHAPE_CODEBOOKS]
    assert codes[..., kept].equal(batch.codes[..., kept])
    rest = expected
    for entries, codebook in zip(course.entries, SHAPE_CODEBOOKS, strict=True):
        assert codes[..., codebook].equal((rest[..., None, :] - entries).norm(dim=-1).argmin(-1))
        rest = rest - entries[codes[..., codebook]]


def test_sounds_from_anywhere_keep_the_place_in_the_text(course: Course) -> None:
    codes = np.arange(25)[:, None] * np.ones(16, np.int64)
    lesson = Lesson(TEXT, ((0, 0.0),), codes.astype(np.int16), np.arange(25, dtype=np.int16), 0, 1, 0)
    batch = collate([lesson], Reader(work(course)), np.random.default_rng(0), 0.0)
    strange = sounds_from_anywhere(batch, np.random.default_rng(1))
    assert strange[..., SOUNDING_CODEBOOKS:].equal(batch.codes[..., SOUNDING_CODEBOOKS:])
    assert not strange[..., 0].equal(batch.codes[..., 0])
    assert set(strange[..., 0].flatten().tolist()) <= set(batch.codes[..., 0].flatten().tolist())


def test_a_misplaced_frame_is_wrong_by_one_token_or_about_its_phone() -> None:
    codes = torch.from_numpy(np.random.default_rng(0).integers(0, ENTRIES, (8, 200, 16)))
    found = misplaced(codes, np.random.default_rng(1))
    assert found[..., :SOUNDING_CODEBOOKS].equal(codes[..., :SOUNDING_CODEBOOKS])
    wrong = (found[..., LAG_CODEBOOK] - codes[..., LAG_CODEBOOK]).abs()
    assert wrong.max() == 1
    assert 0.05 < wrong.float().mean() < MISPLACED_SHARE
    renamed = found[..., PHONE_CODEBOOK] != codes[..., PHONE_CODEBOOK]
    assert 0.02 < renamed.float().mean() < MISNAMED_SHARE
    assert (wrong > 0).ne(renamed).any()


def test_compiled_layers_compute_and_learn_the_same(course: Course) -> None:
    eager = course.model.talker
    compiled = copy.deepcopy(eager)
    compile_layers(compiled)
    for shape in ((4, 30), (3, 41)):
        embeddings, wanted = 0.1 * torch.randn(2, *shape, eager.codec_head.in_features)
        states = [talker(embeddings) for talker in (eager, compiled)]
        for a, b in zip(*states, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3)
        for talker, found in zip((eager, compiled), states, strict=True):
            talker.zero_grad()
            (found.hidden - wanted).square().sum().backward()
        for a, b in zip(eager.model.layers.parameters(), compiled.model.layers.parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-2, atol=1e-3 * float(a.grad.abs().max()))
