"""The exported code predictor against the reference's `generate`."""

from __future__ import annotations

import pytest
import torch

from kazeia.export.code_predictor import CodePredictor, Head
from tests.export.export_oracles import Oracle, causal_mask, empty_past


@pytest.fixture(scope="module", params=[{}, {"hidden_size": 96}], ids=["same-width", "projected"])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return Oracle(**request.param)


@torch.no_grad()
def test_fifteen_greedy_steps_equal_generate(oracle: Oracle) -> None:
    config, predictor = oracle.config, oracle.config.code_predictor_config
    module = CodePredictor(config, oracle.tensor).eval()
    heads = [Head(oracle.tensor(f"talker.code_predictor.lm_head.{index}.weight")) for index in range(15)]
    start = torch.randn(1, 2, config.hidden_size)
    want = oracle.talker.code_predictor.generate(
        inputs_embeds=start, max_new_tokens=15, do_sample=False, return_dict_in_generate=True, output_logits=True
    )
    past_k = empty_past(predictor.num_hidden_layers, predictor.num_key_value_heads, predictor.head_dim)
    past_v, embeds, done, codes = past_k, start, 0, []
    for step, head in enumerate(heads):
        tokens = embeds.shape[1]
        hidden, new_k, new_v = module(embeds, torch.arange(done, done + tokens), causal_mask(done, tokens), past_k, past_v)
        past_k = [torch.cat([old, new])[-done - tokens :] for old, new in zip(past_k, new_k, strict=True)]
        past_v = [torch.cat([old, new])[-done - tokens :] for old, new in zip(past_v, new_v, strict=True)]
        done += tokens
        logits = head(hidden)
        torch.testing.assert_close(logits, want.logits[step], atol=2e-5, rtol=0)
        codes.append(int(logits.argmax()))
        embeds = oracle.tensor(f"talker.code_predictor.model.codec_embedding.{step}.weight")[codes[-1]].view(1, 1, -1)
    assert codes == want.sequences[0].tolist()
