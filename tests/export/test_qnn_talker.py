"""The talker for the NPU, in Qualcomm's emulator: float, quantised, and one cache for prefill and decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.random_weights import write_random_checkpoint
from kazeia.errors import ExportError
from kazeia.export.calibration import TalkerSample
from kazeia.export.layers import DecoderShape
from kazeia.export.qnn_cache import PAST, StaticCache
from kazeia.export.qnn_emulator import Emulator
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnBuild, build, kept, lower_build
from kazeia.export.qnn_quantize import Inputs, Precision, Recipe
from kazeia.export.qnn_talker import RESULTS, talker_spec
from kazeia.export.quality_measures import sqnr_db
from kazeia.export.talker import Talker
from tests.export.export_oracles import causal_mask

CONTEXT, PREFILL = 64, 32
EMULATOR = QnnTarget("SM8750", for_emulator=True)


def db(got: Tensor, wanted: Tensor) -> float:
    return sqnr_db(got.detach().double().numpy(), wanted.detach().double().numpy())


@dataclass
class Built:
    """A talker, lowered, and how it is fed."""

    checkpoint: Checkpoint
    build: QnnBuild

    @property
    def shape(self) -> DecoderShape:
        return DecoderShape.of(self.checkpoint.config.talker_config)

    def calls(self, method: str) -> list[Inputs]:
        return [kept(inputs) for inputs in self.build.spec.samples[method]()]

    def wanted(self, method: str, inputs: Inputs) -> list[Tensor]:
        with torch.no_grad():
            return flat(self.build.spec.methods[method].module(*inputs))


def flat(outputs: Sequence[Any]) -> list[Tensor]:
    return list(torch.utils._pytree.tree_leaves(outputs))


def sentences(width: int) -> Iterator[TalkerSample]:
    random = np.random.default_rng(2)
    for _ in range(4):
        yield TalkerSample(random.standard_normal((50, width)).astype(np.float32) * np.float32(0.5), 10)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_random_checkpoint(folder, size="tiny", kind="base", seed=5)
    return Checkpoint.open(folder)


@pytest.fixture(scope="module", params=["fp16", "16a8w"])
def built(request: pytest.FixtureRequest, checkpoint: Checkpoint) -> Built:
    precision: Precision = request.param
    width, recipe = checkpoint.config.talker_config.hidden_size, Recipe(precision)
    spec = talker_spec(checkpoint, CONTEXT, PREFILL, recipe, lambda: sentences(width))
    return Built(checkpoint, build(spec, EMULATOR, recipe))


def test_it_computes_what_the_talker_of_the_cpu_computes(checkpoint: Checkpoint) -> None:
    config = checkpoint.config.talker_config
    shape, past = DecoderShape.of(config), CONTEXT - 1
    static = talker_spec(checkpoint, CONTEXT, PREFILL, Recipe("16a8w")).methods["decode"].module
    dynamic = Talker(config, checkpoint.tensor, CONTEXT).eval()
    cache, rows = StaticCache(shape, past), torch.randn(12, config.hidden_size) * 0.5
    cache.clear()
    with torch.no_grad():
        _, _, k, v = static(*cache.inputs(rows[:5], 8))  # three pad rows
        cache.append(k, v, 5)
        got = flat(static(*cache.inputs(rows[5:], 7)))
        blank = [torch.zeros(1, shape.kv_heads, shape.head_dim)] * shape.layers
        wanted = flat(dynamic(rows[None], torch.arange(12), causal_mask(0, 12), blank, blank))
    assert min(db(got[0], wanted[0]), db(got[1], wanted[1])) > 100
    keys, values = got[RESULTS], got[RESULTS + shape.layers]
    assert db(keys[0].permute(2, 0, 1), wanted[RESULTS][5:]) > 100
    assert db(values[0].permute(1, 0, 2), wanted[RESULTS + shape.layers][5:]) > 100


@pytest.mark.parametrize("method", ["decode", "prefill"])
def test_the_emulator_computes_what_was_lowered(built: Built, method: str) -> None:
    """Against the quantise-dequantise graph, or for fp16 the module: only the compiler's faults are left."""
    for inputs in built.calls(method)[-2:]:
        got = built.build.emulated(method, inputs)
        graph = built.build.graphs.get(method)
        wanted = flat(graph(*inputs)) if graph else built.wanted(method, inputs)
        least = 50.0 if graph else 40.0
        assert db(got[0], wanted[0]) >= least
        assert db(got[1], wanted[1]) >= least
        for ours, theirs in zip(got[RESULTS:], wanted[RESULTS:], strict=True):
            assert db(ours.float(), theirs.float()) >= least


def test_quantising_keeps_most_of_it(built: Built) -> None:
    inputs = built.calls("decode")[-1]
    got, wanted = built.build.emulated("decode", inputs), built.wanted("decode", inputs)
    assert db(got[0], wanted[0]) >= 20


def test_prefill_of_32_tokens_is_32_steps(built: Built) -> None:
    layers, width = built.shape.layers, built.checkpoint.config.talker_config.hidden_size
    dtype = torch.float32 if built.build.graphs else torch.float16
    cache, rows = StaticCache(built.shape, CONTEXT - 1, dtype), torch.randn(PREFILL, width) * 0.5
    cache.clear()
    at_once = built.build.emulated("prefill", kept(cache.inputs(rows, PREFILL)))
    for row in range(PREFILL):
        step = built.build.emulated("decode", kept(cache.inputs(rows[row : row + 1], 1)))
        cache.append(step[RESULTS : RESULTS + layers], step[RESULTS + layers :], 1)
    least = 60.0 if built.build.graphs else 40.0
    assert db(at_once[0], step[0]) >= least
    assert db(at_once[1], step[1]) >= least
    _, _, _, keys, values = cache.inputs(rows[:1], 1)
    for layer in range(layers):
        assert db(at_once[RESULTS + layer].float(), keys[layer][..., :PREFILL].float()) >= least
        assert db(at_once[RESULTS + layers + layer].float(), values[layer][:, :, :PREFILL].float()) >= least


def test_the_cache_crosses_the_border_as_it_is_stored(built: Built) -> None:
    """Two bytes an element, and for the quantised talker one scale for both methods, in and out, with zero at zero."""
    inputs = built.calls("decode")[0]
    stored = torch.int16 if built.build.graphs else torch.float16
    border = [*inputs[:3], *([x.to(stored) for x in side] for side in inputs[3:])]
    outputs = Emulator(built.build.program).run("decode", border)
    assert {output.dtype for output in outputs[:RESULTS]} == {torch.float32}
    assert {output.dtype for output in outputs[RESULTS:]} == {stored}
    if not built.build.graphs:
        return
    encodings = built.build.encodings("decode")
    assert encodings == built.build.encodings("prefill")
    assert {encoding.zero_point for encoding in encodings.values()} == {0}
    for graph in built.build.graphs.values():
        returned = [node.args[1] for node in graph.graph.output_node().args[0][RESULTS:]]  # type: ignore[index,union-attr]
        assert returned == [encoding.scale for encoding in encodings.values()]
        assert sum(bool(PAST.fullmatch(node.name)) for node in graph.graph.nodes) == len(encodings)


def test_for_devices_the_methods_share_their_weights(checkpoint: Checkpoint) -> None:
    spec = talker_spec(checkpoint, CONTEXT, PREFILL, Recipe("fp16"))
    shared = lower_build(spec, QnnTarget("SM8750", for_emulator=False), Recipe("fp16"), {}).program
    weight_bytes = 2 * sum(parameter.numel() for parameter in spec.methods["decode"].module.parameters())
    assert len(shared) < 1.7 * weight_bytes
    with pytest.raises(ExportError, match=r"the emulator cannot run method decode .*; export with --for emulator"):
        Emulator(shared).run("decode", spec.methods["decode"].inputs)
