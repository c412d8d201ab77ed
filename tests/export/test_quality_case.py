"""One method measured on its paths; what calibration saw."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kazeia.errors import ExportError
from kazeia.export.qnn_quantize import Recipe, quantized
from kazeia.export.quality_case import Case, InputRanges, Output, input_faults, measure, trace
from kazeia.export.quiet import quiet
from tests.export.quality_modules import LOGITS, Small, overwritten, quantise, samples, small_case

RECIPE = Recipe("16a8w")


@pytest.fixture(scope="module")
def case() -> Case:
    return small_case(RECIPE)


def test_paths_are_told_apart(case: Case) -> None:
    module, noise = case.module, torch.Generator().manual_seed(3)

    def emulated(sample: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        assert case.graph is not None
        result = case.graph(*sample)
        return [result + 1e-3 * result.std() * torch.randn(result.shape, generator=noise)]

    measured = measure(case, trace(replace(case, emulated=emulated)))
    assert (measured.calls, measured.emulated_calls) == (24, 4)
    (output,) = measured.outputs
    assert output.quantized_db is not None
    assert output.lowered_db is not None
    assert output.emulated_db is not None
    assert 35 < output.quantized_db < 60
    assert output.lowered_db == pytest.approx(60, abs=2)
    assert output.emulated_db == pytest.approx(output.quantized_db, abs=6)  # of fewer calls
    assert measured.agreement[0].quantized == 1.0
    # Without a quantised graph, lowering is measured against float.
    exact = measure(case, trace(replace(case, graph=None, emulated=lambda sample: [module(*sample)])))
    assert (exact.outputs[0].quantized_db, exact.outputs[0].lowered_db, exact.layers) == (None, 200.0, [])


def test_layers_are_measured_by_themselves_and_with_all_before(case: Case) -> None:
    layers = {layer.name: layer for layer in measure(case, trace(case)).layers}
    assert list(layers) == ["up", "(top)", "mix", "head"] or list(layers) == ["up", "mix", "(top)", "head"]
    assert {name for name, layer in layers.items() if layer.weighted} == {"up", "mix", "head"}
    assert layers["head"].db < layers["head"].own_db
    assert layers["up"].db == pytest.approx(layers["up"].own_db)
    # Fewer bits in one layer are seen there, and downstream only by what comes in.
    coarse = small_case(Recipe("16a8w", (("^mix$", "16a4w"),)))
    worse = {layer.name: layer for layer in measure(coarse, trace(coarse)).layers}
    assert worse["mix"].precision == "16a4w"
    assert worse["mix"].own_db < layers["mix"].own_db - 15
    assert worse["head"].own_db == pytest.approx(layers["head"].own_db, abs=1)
    assert worse["head"].db < layers["head"].db - 10


def test_weights_outside_of_modules_cannot_be_widened() -> None:
    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)
            self.scale = torch.nn.Parameter(torch.rand(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner: torch.Tensor = self.inner(x)
            return inner * self.scale

    inputs = [(torch.rand(1, 4),) for _ in range(4)]
    graph, _ = quantise(Bare(), inputs, RECIPE)
    case = Case("b", "f", "16a8w", Bare(), graph, None, lambda: inputs, (Output("x"),))
    assert {layer.name: layer.weighted for layer in measure(case, trace(case)).layers} == {"inner": True, "(top)": False}


def test_several_outputs_are_judged_as_one_and_codes_by_codebook() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
            return (10 * x).to(torch.int32), [x, 2 * x]

    outputs = (Output("codes", (0,), "codes", (1, 2, 3)), Output("both", (1, 2)))

    def emulated(sample: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        codes = (10 * sample[0]).to(torch.int32)
        codes[0, 1] += 1
        return [codes, sample[0], 2 * sample[0] * 1.1]

    inputs = [(torch.rand(1, 3),) for _ in range(6)]
    case = Case("p", "frame", "fp16", Two(), None, emulated, lambda: inputs, outputs, emulated_calls=2)
    measured = measure(case, trace(case))
    assert [(one.codebook, one.quantized, one.emulated) for one in measured.agreement] == [
        (1, None, 1.0),
        (2, None, 0.0),
        (3, None, 1.0),
    ]
    # 2x is off by a tenth, x is right: the error is 0.04 of a signal of 5.
    assert measured.outputs[0].emulated_db == pytest.approx(20.97, abs=0.01)


def test_what_follows_from_codes_is_compared_where_these_are_the_same() -> None:
    class Frame(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.to(torch.int32), x.to(torch.int32).float()

    def emulated(sample: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        codes = sample[0].to(torch.int32)
        codes = codes + (sample[0] == 7).to(torch.int32)
        return codes, codes.float() * 1.01

    outputs = (Output("codes", (0,), "codes", (1,)), Output("sum", (1,), given="codes"))
    inputs = [(torch.tensor([[float(value)]]),) for value in (5, 7, 9)]
    case = Case("p", "frame", "fp16", Frame(), None, emulated, lambda: inputs, outputs)
    measured = measure(case, trace(case))
    assert measured.agreement[0].emulated == pytest.approx(2 / 3)
    assert measured.outputs[0].emulated_db == pytest.approx(40.0, abs=0.01)
    nothing = replace(case, inputs=lambda: inputs[1:2])
    assert measure(nothing, trace(nothing)).outputs[0].emulated_db is None


def test_logits_that_may_not_be_drawn_do_not_count() -> None:
    logits = torch.tensor([[0.0, 1.0, 5.0], [3.0, 2.0, 5.0]])
    wrong = logits * torch.tensor([[1.0, 1.0, -1.0], [0.1, 1.0, 1.0]])
    outputs = (Output("logits", kind="logits", codebooks=(1, 2), choices=2),)
    case = Case("t", "d", "fp16", torch.nn.Identity(), None, lambda sample: [wrong], lambda: [(logits,)], outputs)
    agreed = measure(case, trace(case)).agreement
    assert [(one.codebook, one.emulated) for one in agreed] == [(1, 1.0), (2, 0.0)]


def test_no_inputs_are_an_error(case: Case) -> None:
    with pytest.raises(ExportError, match=r"no held-out sample for small\.forward; run kz calibrate with more phrases"):
        trace(replace(case, inputs=list))


def test_a_sound_calibration_has_no_input_faults(case: Case) -> None:
    assert input_faults(case, trace(case).seen) == []


@pytest.mark.parametrize(
    ("fitting", "message"),
    [
        ([(torch.full((1, 32), 0.05), torch.full((1,), 0.9))] * 10, "never changed while calibrating (10 samples, 0.05 to 0.05)"),
        ([samples(1, 5)[0]] * 10, "never changed while calibrating (10 samples"),
        (samples(40, 1, size=0.2), "is cut off; calibrate with more phrases"),
    ],
)
def test_constant_and_narrow_calibrations_are_named(fitting: list[tuple[torch.Tensor, ...]], message: str) -> None:
    module = Small()
    graph, ranges = quantise(module, fitting, RECIPE)
    case = Case("small", "forward", "16a8w", module, graph, None, lambda: samples(24, 2), LOGITS, RECIPE, ranges)
    (fault,) = input_faults(case, trace(case).seen)
    assert (fault.kind, fault.where) == ("calibration", "small.forward x")
    assert message in fault.message


def test_what_is_as_constant_in_the_held_out_samples_is_named_too(case: Case) -> None:
    constant = [(torch.full((1, 32), 0.05), torch.full((1,), 0.9))] * 10
    ranges = InputRanges()
    for sample in constant:
        ranges.add(sample)
    (fault,) = input_faults(replace(case, fitted=ranges), ranges)
    assert fault.where == "small.forward x"


def test_names_of_inputs_in_lists() -> None:
    class Cached(torch.nn.Module):
        def forward(self, x: torch.Tensor, past: list[torch.Tensor]) -> torch.Tensor:
            return x + past[1]

    with quiet():
        graph = quantized(Cached(), [(torch.rand(1), [torch.rand(1), torch.rand(1)])], RECIPE)
    ranges = InputRanges()
    for sample in overwritten([(torch.rand(1), torch.zeros(1)), (torch.rand(1), torch.zeros(1))]):
        ranges.add((sample[0], [sample[0], sample[1]]))
    inputs = [(torch.rand(1), [torch.rand(1), torch.rand(1)])]
    case = Case("c", "d", "16a8w", Cached(), graph, None, lambda: inputs, (Output("x"),), fitted=ranges)
    seen = InputRanges()
    seen.add(inputs[0])
    faults = [fault.where for fault in input_faults(case, seen) if "never changed" in fault.message]
    assert faults == ["c.d past[1]"]
