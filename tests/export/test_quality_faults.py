"""Deliberate faults, really lowered for the NPU and executed in its emulator: each is found and named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from kazeia.export.qnn_emulator import Emulator
from kazeia.export.qnn_lowering import QnnTarget, lower
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.quality_case import Case, measure, trace
from kazeia.export.quality_faults import find_faults
from kazeia.export.quiet import quiet
from kazeia.quality import Fault, Gates, MethodQuality, judge_method
from tests.export.quality_modules import samples, small_case

RECIPE = Recipe("16a8w")


def emulator(graph: torch.fx.GraphModule) -> Callable[[Inputs], tuple[torch.Tensor, ...]]:
    with quiet():
        program = lower({"forward": (graph, samples(1, 1)[0])}, {}, QnnTarget("SM8750", for_emulator=True), RECIPE)
        loaded = Emulator(program)
    return lambda sample: loaded.run("forward", sample)


class Twice(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor, temperature: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.module(x, temperature), self.module(x, temperature)


def found(case: Case) -> tuple[MethodQuality, list[Fault]]:
    traces = trace(case)
    measured = measure(case, traces)
    return measured, find_faults(case, traces, measured, Gates())


@pytest.fixture(scope="module")
def sound() -> Case:
    case = small_case(RECIPE)
    assert case.graph is not None
    return replace(case, emulated=emulator(case.graph))


def test_a_sound_export_has_no_faults(sound: Case) -> None:
    measured, faults = found(sound)
    assert faults == []
    assert measured.outputs[0].lowered_db is not None
    assert measured.outputs[0].lowered_db > 60
    assert list(judge_method(measured, Gates())) == []


def test_a_calibration_with_constant_inputs_is_named(sound: Case) -> None:
    constant = [(torch.full((1, 32), 0.05), torch.full((1,), 0.9))] * 10
    case = small_case(RECIPE, constant)
    assert case.graph is not None
    measured, faults = found(replace(case, emulated=emulator(case.graph)))
    assert [(fault.kind, fault.where) for fault in faults] == [
        ("calibration", "small.forward x"),
        ("calibration", "small.forward logits"),
    ]
    assert "this input never changed while calibrating (10 samples, 0.05 to 0.05)" in faults[0].message
    assert "while the NPU follows the quantised model at" in faults[1].message
    assert "worst layers: up (" in faults[1].message
    assert any("dB after quantising" in failure for failure in judge_method(measured, Gates()))


def test_a_lowering_with_a_wrong_scale_is_named(sound: Case) -> None:
    assert sound.graph is not None
    wrong = copy.deepcopy(sound.graph)
    scaled = [node for node in wrong.graph.nodes if "dequantize_per_channel" in str(node.target)]
    getattr(wrong, scaled[-1].args[1].target).mul_(0.5)  # the head's weights
    measured, faults = found(replace(sound, emulated=emulator(wrong)))
    (fault,) = faults
    assert (fault.kind, fault.where) == ("lowering", "small.forward logits")
    assert "a wrong scale (times 0.5)" in fault.message
    assert measured.outputs[0].quantized_db is not None
    assert measured.outputs[0].quantized_db > 40
    assert any("dB after lowering, at least 40 wanted" in failure for failure in judge_method(measured, Gates()))


def test_a_wrong_zero_point_and_plain_garbage_are_told_apart(sound: Case) -> None:
    emulated = sound.emulated
    assert emulated is not None
    _, (fault,) = found(replace(sound, emulated=lambda sample: [emulated(sample)[0] + 0.5]))
    assert "a wrong zero point (off by 0.5)" in fault.message
    assert "scale" not in fault.message
    (output,) = sound.outputs
    twice = replace(sound, outputs=[replace(output, kind="values", positions=(0, 1))], graph=None, module=Twice(sound.module))
    _, (fault,) = found(replace(twice, emulated=lambda sample: [2 * emulated(sample)[0], 3 * emulated(sample)[0]]))
    assert "a wrong scale (times 2 to 3)" in fault.message
    noise = torch.Generator().manual_seed(0)
    _, (fault,) = found(replace(sound, emulated=lambda sample: [torch.randn(1, 40, generator=noise)]))
    assert "and no scale or offset explains it" in fault.message
    _, (fault,) = found(replace(sound, emulated=lambda sample: [torch.full((1, 40), torch.nan)]))
    assert "the NPU's result is -200.0 dB from the quantised model, and no scale" in fault.message
