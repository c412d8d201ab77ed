"""What an export refuses before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from kazeia.errors import UsageError
from kazeia.export.options import ExportOptions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "cuda"}, "unknown backend 'cuda'; choose one of xnnpack, qnn"),
        ({"quant": "int3"}, "unknown quantisation 'int3'; choose one of fp32, 8da8w, 8da4w, fp16, 16a8w, 16a4w"),
        (
            {"backend": "qnn", "quant": "8da8w"},
            "8da8w does not run on qnn; choose one of fp16, 16a8w, 16a4w, or another --backend",
        ),
        (
            {"backend": "qnn", "soc": "SM1234"},
            "unknown SoC 'SM1234'; choose one of SM8650, SM8750, SM8850, or describe it in deploy/socs",
        ),
        ({"built_for": "moon"}, "cannot export for 'moon'; choose one of device, emulator"),
        (
            {"backend": "qnn", "quant": "16a8w"},
            "16a8w has fixed scales, which come from recorded speech; record some with kz calibrate, then give --calibration DIR",
        ),
        ({"decoder_quant": "8da4w"}, "the speech decoder cannot be 8da4w; choose one of fp32, 8da8w"),
        ({"decoder_quant": "8da8w", "decoder_backend": "qnn"}, "8da8w does not run on qnn; leave --decoder-quant out"),
        ({"context_length": 31}, "the context of 31 is too small; choose 32 or more"),
        ({"prefill_tokens": 0}, "0 prefill tokens do not fit a context of 1024; choose 1 to 1023"),
        ({"context_length": 64, "prefill_tokens": 64}, "64 prefill tokens do not fit a context of 64; choose 1 to 63"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ExportOptions(**changes)
    assert str(caught.value) == message


def test_the_context_is_bounded_by_the_model() -> None:
    ExportOptions(context_length=2048).check_positions(2048)
    with pytest.raises(UsageError, match="the context of 2049 is longer than the model's 2048 positions; choose 2048 or less"):
        ExportOptions(context_length=2049).check_positions(2048)


def test_each_model_has_a_place_of_its_own() -> None:
    options = ExportOptions(backend="qnn", predictor_quant="8da8w")
    assert options.talker == ("qnn", "fp16")
    assert options.code_predictor == ("xnnpack", "8da8w")
    assert options.speech_decoder == ("xnnpack", "fp32")
    assert options.uses_npu
    assert not ExportOptions().uses_npu
    assert ExportOptions(decoder_quant="8da8w").speech_decoder == ("xnnpack", "8da8w")
