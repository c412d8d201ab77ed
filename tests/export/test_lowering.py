"""Lowered programs: what the runner gets is what the modules compute, in one delegate, with each weight stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export.code_predictor import code_predictor_program
from kazeia.export.lowering import lower
from kazeia.export.options import Quant
from kazeia.export.program import Method, ProgramSpec
from kazeia.export.talker import talker_program
from tests.export.export_oracles import causal_mask

CONTEXT, PREFILL = 64, 8
SQNR_DB = {"8da8w": 27.0, "8da4w": 10.0}
"""Least signal to quantisation noise of logits and hidden state on random weights, which quantise worse than trained ones."""


class Lowered:
    """A program as a file, loaded; `want` are its modules' outputs before quantisation."""

    def __init__(self, spec: ProgramSpec, quant: Quant, folder: Path) -> None:
        from executorch.exir._serialize._program import deserialize_pte_binary
        from executorch.runtime import Runtime

        torch.manual_seed(1)
        self.inputs = {name: example(spec, method) for name, method in spec.methods.items()}
        self.want = {name: [run(spec.methods[name].module, case) for case in cases] for name, cases in self.inputs.items()}
        self.weight_bytes = count_weight_bytes(spec)
        self.data = lower(spec, "xnnpack", quant)
        path = folder / f"{spec.name}.pte"
        path.write_bytes(self.data)
        self.program = Runtime.get().load_program(path)
        self.plans = deserialize_pte_binary(self.data).program.execution_plan
        self.constants = spec.constants

    def outputs(self, name: str) -> list[list[torch.Tensor]]:
        method = self.program.load_method(name)
        return [[value.clone() for value in method.execute(tree_leaves(case))] for case in self.inputs[name]]


def example(spec: ProgramSpec, method: Method) -> list[Any]:
    """Random inputs for a method: for a step, after 1 (masked), 2, 5 and all possible cached tokens, in no order of size."""
    if method.dynamic_shapes is None:
        return [tuple(torch.randn_like(value) for value in method.inputs)]
    tokens, cache, cases = method.inputs[0].shape[1], method.inputs[3], []
    limit = method.dynamic_shapes[3][0][0].max
    for past in (5, 0, limit, 2):
        inputs = [[torch.randn(max(past, 1), *value.shape[1:]) for value in cache] for _ in range(2)]
        positions = torch.arange(min(past, limit - tokens), min(past, limit - tokens) + tokens)
        cases.append((torch.randn_like(method.inputs[0]), positions, causal_mask(past, tokens), *inputs))
    return cases


@torch.no_grad()
def run(module: nn.Module, inputs: Any) -> list[torch.Tensor]:
    return list(tree_leaves(module(*inputs)))


def count_weight_bytes(spec: ProgramSpec) -> int:
    weights = {id(weight): weight for method in spec.methods.values() for weight in method.module.parameters()}
    return sum(weight.nbytes for weight in weights.values())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny-1.7b", kind="voice_design", seed=3)
    return Checkpoint.open(folder)


@pytest.fixture(scope="module")
def talker(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    return Lowered(talker_program(checkpoint, CONTEXT, PREFILL), "fp32", tmp_path_factory.mktemp("talker"))


@pytest.fixture(scope="module")
def predictor(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    spec = code_predictor_program(checkpoint)
    some = {name: method for name, method in spec.methods.items() if name in ("prefill", "decode", "head_0", "head_14")}
    return Lowered(ProgramSpec(spec.name, some, spec.constants, spec.eight_bit), "fp32", tmp_path_factory.mktemp("predictor"))


@pytest.fixture(params=["talker", "predictor"])
def lowered(request: pytest.FixtureRequest) -> Lowered:
    program: Lowered = request.getfixturevalue(request.param)
    return program


def test_the_file_computes_what_the_modules_do(lowered: Lowered) -> None:
    for name, want in lowered.want.items():
        for got, case in zip(lowered.outputs(name), want, strict=True):
            for value, wanted in zip(got, case, strict=True):
                torch.testing.assert_close(value, wanted, atol=2e-5, rtol=1e-5)


def test_each_method_is_one_delegate(lowered: Lowered) -> None:
    for plan in lowered.plans:
        if plan.name in lowered.inputs:
            assert [delegate.id for delegate in plan.delegates] == ["XnnpackBackend"]
            assert {operator.name for operator in plan.operators} <= {"aten::embedding", "aten::cat"}


def test_weights_are_stored_once(lowered: Lowered) -> None:
    rest = 40_000 * len(lowered.inputs)
    assert lowered.weight_bytes < len(lowered.data) < lowered.weight_bytes * 1.02 + rest


def test_constants_are_methods(lowered: Lowered) -> None:
    for name, value in lowered.constants.items():
        assert lowered.program.load_method(name).execute([])[0] == pytest.approx(value)


def test_inputs_and_outputs_are_not_planned(lowered: Lowered) -> None:
    for plan in lowered.plans:
        for index in (*plan.inputs, *plan.outputs) if plan.name in lowered.inputs else ():
            assert plan.values[index].val.allocation_info is None


@pytest.mark.parametrize("quant", ["8da8w", "8da4w"])
def test_quantised_programs_stay_close(checkpoint: Checkpoint, quant: Quant, tmp_path: Path) -> None:
    spec = talker_program(checkpoint, CONTEXT, PREFILL)
    lowered = Lowered(ProgramSpec(spec.name, {"decode": spec.methods["decode"]}, {}, spec.eight_bit), quant, tmp_path)
    assert len(lowered.data) < lowered.weight_bytes * 0.45
    for got, want in zip(lowered.outputs("decode"), lowered.want["decode"], strict=True):
        for value, wanted in zip(got[:2], want[:2], strict=True):
            noise = (value - wanted).square().sum()
            assert float(10 * torch.log10(wanted.square().sum() / noise)) > SQNR_DB[quant]


class Heads(nn.Module):
    """Two layers of the same weights."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body, self.codec_head = (nn.Linear(width, 64, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.body(x), self.codec_head(x)


def test_heads_keep_eight_bits(tmp_path: Path) -> None:
    module = Heads()
    module.codec_head.weight = nn.Parameter(module.body.weight.detach().clone())
    spec = ProgramSpec("heads", {"decode": Method(module, (torch.zeros(1, 64),))}, {}, frozenset({"codec_head"}))
    lowered = Lowered(spec, "8da4w", tmp_path)
    (body, head), (want, _) = lowered.outputs("decode")[0], lowered.want["decode"][0]
    assert (head - want).abs().max() < (body - want).abs().max() / 4


def test_a_width_that_does_not_fit_groups_is_named() -> None:
    spec = ProgramSpec("heads", {"decode": Method(Heads(48), (torch.zeros(1, 48),))}, {})
    with pytest.raises(ExportError, match="in multiples of 32; body has 48: use --quant 8da8w"):
        lower(spec, "xnnpack", "8da4w")


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ExportError, match="backend 'cuda'; choose xnnpack"):
        lower(ProgramSpec("empty", {}, {}), "cuda", "fp32")
