"""Prompt embeddings against the reference's, position by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kazeia.prompt import Request, build_prompt
from tests.parity.bundles import ReferenceBundles
from tests.parity.prompt_cases import CASES, TEXT, Case

TOLERANCE = 1e-5


class Captured(Exception):
    """Raised in place of the reference's generation, once its inputs are known."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_prompt_equals_the_references(
    case: Case, reference_bundles: ReferenceBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = reference_bundles.bundle(case.size, case.kind)
    model = reference_bundles.checkpoints.model(case.size, case.kind)
    seen: dict[str, Any] = {}

    def capture(**inputs: Any) -> None:
        seen.update(inputs)
        raise Captured

    monkeypatch.setattr(model.model.talker, "generate", capture)
    with pytest.raises(Captured):
        case.call(model, bundle.manifest.model)
    options = case.options(bundle.manifest.model)
    prompt = build_prompt(
        bundle, Request(TEXT, options.voice, options.speaker, options.instruct, options.language, options.text_mode)
    )
    pad = seen["tts_pad_embed"][0, 0].numpy()
    trailing = seen["trailing_text_hidden"][0].numpy()
    np.testing.assert_allclose(prompt.embeddings, seen["inputs_embeds"][0].numpy(), rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(prompt.pad, pad, rtol=TOLERANCE, atol=TOLERANCE)
    # The reference writes "no trailing text" as one pad embedding, which is what comes after trailing text anyway.
    ours = prompt.trailing if len(prompt.trailing) else prompt.pad[None]
    np.testing.assert_allclose(ours, trailing, rtol=TOLERANCE, atol=TOLERANCE)
