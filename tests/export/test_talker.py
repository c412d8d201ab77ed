"""The exported talker against the reference's, step by step."""

from __future__ import annotations

import pytest
import torch

from kazeia.export.talker import Talker
from tests.export.export_oracles import CONTEXT, Oracle, causal_mask, empty_past

TOLERANCE = 2e-5


SHAPES = {"grouped": {}, "one KV head, biased": {"num_key_value_heads": 1, "attention_bias": True}}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return Oracle(**request.param)


@pytest.fixture(scope="module")
def talker(oracle: Oracle) -> Talker:
    return Talker(oracle.config, oracle.tensor, CONTEXT).eval()


def reference_run(oracle: Oracle, embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and normalised hidden states of every token, `[T, vocab]` and `[T, D]`."""
    hidden = oracle.talker.model(inputs_embeds=embeds).last_hidden_state
    return oracle.talker.codec_head(hidden)[0], hidden[0]


@torch.no_grad()
def test_prefill_of_a_short_chunk_is_right_aligned(oracle: Oracle, talker: Talker) -> None:
    config = oracle.config
    embeds = torch.randn(1, 9, config.hidden_size)
    padded = torch.cat([torch.full((1, 7, config.hidden_size), 3.0), embeds], 1)
    positions = torch.tensor([0] * 7 + list(range(9)))
    past = empty_past(config.num_hidden_layers, config.num_key_value_heads, config.head_dim)
    logits, hidden, _, _ = talker(padded, positions, causal_mask(0, 16, padding=7), past, past)
    want_logits, want_hidden = reference_run(oracle, embeds)
    torch.testing.assert_close(logits[0], want_logits[-1], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(hidden[0], want_hidden[-1], atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_chunks_and_steps_equal_one_pass(oracle: Oracle, talker: Talker) -> None:
    config = oracle.config
    embeds = torch.randn(1, 40, config.hidden_size)
    want_logits, want_hidden = reference_run(oracle, embeds)
    past_k = empty_past(config.num_hidden_layers, config.num_key_value_heads, config.head_dim)
    past_v, done = past_k, 0
    for tokens in (16, 7, *[1] * 17):
        mask = causal_mask(done, tokens)
        chunk, positions = embeds[:, done : done + tokens], torch.arange(done, done + tokens)
        logits, hidden, new_k, new_v = talker(chunk, positions, mask, past_k, past_v)
        past_k = [torch.cat([old, new])[-done - tokens :] for old, new in zip(past_k, new_k, strict=True)]
        past_v = [torch.cat([old, new])[-done - tokens :] for old, new in zip(past_v, new_v, strict=True)]
        done += tokens
        torch.testing.assert_close(logits[0], want_logits[done - 1], atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(hidden[0], want_hidden[done - 1], atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_padding_and_masked_slots_change_nothing(oracle: Oracle, talker: Talker) -> None:
    config = oracle.config
    embeds, positions = torch.randn(1, 16, config.hidden_size), torch.tensor([0] * 5 + list(range(11)))
    mask, results = causal_mask(0, 16, padding=5), []
    for filler in (0.0, 1e4):
        embeds[:, :5] = filler
        past = [torch.full((1, config.num_key_value_heads, config.head_dim), filler)] * config.num_hidden_layers
        results.append(talker(embeds, positions, mask, past, past))
    torch.testing.assert_close(results[0][0], results[1][0], atol=0, rtol=0)
    for first, second in zip(results[0][2] + results[0][3], results[1][2] + results[1][3], strict=True):
        torch.testing.assert_close(first[5:], second[5:], atol=0, rtol=0)
