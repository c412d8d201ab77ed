"""One method of a program, put to the test: its three paths, its inputs, and what its outputs are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from kazeia.errors import ExportError
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.quality_layers import LayerMeter
from kazeia.export.quality_measures import agreement, sqnr_db
from kazeia.quality import Agreement, Fault, LayerQuality, MethodQuality, OutputQuality

EMULATED_CALLS = 4
"""Calls that also go through the emulator: one of the full-size talker takes 40 s."""
LAYER_CALLS = 4
"""Calls that layers are measured on."""
MEASURED_CALLS = 64

OUTSIDE = 1.25
"""How much farther than its scale can hold a held-out input may reach."""

Array = NDArray[np.float64]

Calls: TypeAlias = dict[str, list[list[Array]]]
"""Of each output a list of calls, of each call an array a position."""


@dataclass(frozen=True)
class Output:
    """What one or several outputs of a method are."""

    name: str
    positions: tuple[int, ...] = (0,)
    """Among the flat outputs; several are judged as one, as all new keys are."""
    kind: Literal["values", "logits", "codes"] = "values"
    codebooks: tuple[int, ...] = (0,)
    """Of logits, one a row; of codes, one a column."""
    choices: int | None = None
    """Logits of a row that may be drawn, from the first; None for all."""
    given: str | None = None
    """Another output that it follows from, as a sum of embeddings does from codes: calls in which that differs do not count."""


class InputRanges:
    """What a calibration saw of each input of a method."""

    def __init__(self) -> None:
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}
        self.samples = 0
        self.elements: dict[str, int] = {}
        self.positions: dict[str, int] = {}
        """Among all arguments, flat."""
        self._first: dict[str, Tensor] = {}
        self._varies: set[str] = set()

    def watch(self, samples: Iterable[Inputs]) -> Iterator[Inputs]:
        """The same samples; what passes is remembered."""
        for sample in samples:
            self.add(sample)
            yield sample

    def add(self, sample: Inputs) -> None:
        self.samples += 1
        for position, name, leaf in _float_leaves(sample):
            self.positions[name] = position
            first = self._first.setdefault(name, leaf.clone())
            if first.shape != leaf.shape or not torch.equal(first, leaf):
                self._varies.add(name)
            self.elements[name] = leaf.numel()
            self.low[name] = min(self.low.get(name, float("inf")), float(leaf.min()))
            self.high[name] = max(self.high.get(name, float("-inf")), float(leaf.max()))

    def constant(self) -> set[str]:
        """Inputs that were the same in every sample, or one value throughout."""
        same = self._first.keys() - self._varies if self.samples > 1 else set()
        return same | {name for name in self.low if self.low[name] == self.high[name]}


@dataclass
class Case:
    """A method under test."""

    program: str
    method: str
    precision: str
    """The program's; `fp16` has no quantised graph."""
    module: nn.Module
    """In float32."""
    graph: torch.fx.GraphModule | None
    emulated: Callable[[Inputs], Sequence[Tensor]] | None
    """Flat outputs in float, as `module` has them; None when nothing is to be emulated."""
    inputs: Callable[[], Iterable[Inputs]]
    """Held-out arguments of `forward`, teacher-forced. One may be overwritten once the next one is taken."""
    outputs: Sequence[Output]
    recipe: Recipe = field(default_factory=lambda: Recipe("16a8w"))
    fitted: InputRanges | None = None
    """What calibration saw of this method."""
    calls: int = MEASURED_CALLS
    """Most that are made."""
    emulated_calls: int = EMULATED_CALLS

    @property
    def where(self) -> str:
        return f"{self.program}.{self.method}"


@dataclass
class Traces:
    """What a method did on each path."""

    float: Calls
    quantized: Calls
    emulated: Calls
    """Of the first calls only."""
    seen: InputRanges
    layers: list[LayerQuality]

    @property
    def calls(self) -> int:
        return len(next(iter(self.float.values())))

    @property
    def emulated_calls(self) -> int:
        return len(next(iter(self.emulated.values()), ()))


def trace(case: Case) -> Traces:
    """Run the method on every path, one call after the other.

    Raises:
        ExportError: there are no inputs.
    """
    traces = Traces(_empty(case), _empty(case) if case.graph is not None else {}, {}, InputRanges(), [])
    meter: LayerMeter | None = None
    with torch.no_grad():
        for call, sample in enumerate(islice(case.inputs(), case.calls)):
            traces.seen.add(sample)
            _keep(case, traces.float, case.module.eval()(*sample))
            if case.graph is not None:
                _keep(case, traces.quantized, case.graph(*sample))
                if call < LAYER_CALLS:
                    meter = meter or LayerMeter(case.module, case.graph, sample)
                    meter.add(sample)
            if case.emulated is not None and call < case.emulated_calls:
                traces.emulated = traces.emulated or _empty(case)
                _keep(case, traces.emulated, case.emulated(sample))
    if not traces.calls:
        raise ExportError(f"there is no held-out sample for {case.where}; run kz calibrate with more phrases")
    traces.layers = meter.layers(case.recipe) if meter is not None else []
    return traces


def measure(case: Case, traces: Traces) -> MethodQuality:
    """All measures of a method."""
    return MethodQuality(
        program=case.program,
        method=case.method,
        precision=case.precision,
        calls=traces.calls,
        emulated_calls=traces.emulated_calls,
        outputs=[_output_quality(output, traces) for output in case.outputs if output.kind != "codes"],
        agreement=[one for output in case.outputs if output.kind != "values" for one in _agreements(output, traces)],
        layers=traces.layers,
    )


def input_faults(case: Case, seen: InputRanges) -> list[Fault]:
    """Inputs that the calibration did not see as they are: never changing, or beyond what their scale can hold."""
    if case.fitted is None or case.graph is None:
        return []
    faults = []
    ranges = _representable(case.graph)
    for place in seen.low:
        low, high = seen.low[place], seen.high[place]
        held = ranges[seen.positions[place]]
        message = None
        if _never_changed(case.fitted, seen, place):
            message = (
                f"this input never changed while calibrating ({case.fitted.samples} samples, {case.fitted.low[place]:.3g} to "
                f"{case.fitted.high[place]:.3g}), in speech it goes from {low:.3g} to {high:.3g}; calibrate again"
            )
        elif held is not None and _reaches_outside((low, high), held):
            message = (
                f"calibrated for {held[0]:.3g} to {held[1]:.3g}, in speech it goes from {low:.3g} to {high:.3g} and is cut off; "
                "calibrate with more phrases"
            )
        if message is not None:
            faults.append(Fault("calibration", f"{case.where} {_readable(case.module, place)}", message))
    return faults


def _never_changed(fitted: InputRanges, seen: InputRanges, place: str) -> bool:
    """A single number that is the same in speech, as a temperature is, may well stay what it is."""
    if place not in fitted.constant():
        return False
    same = (seen.low[place], seen.high[place]) == (fitted.low[place], fitted.high[place])
    return place not in seen.constant() or not same or seen.elements[place] > 1


def _representable(graph: torch.fx.GraphModule) -> list[tuple[float, float] | None]:
    """What the scale of each input of a quantised graph can hold; None for inputs that are not quantised."""
    ranges: list[tuple[float, float] | None] = []
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            quantize = next((user for user in node.users if "quantize_per_tensor" in str(user.target)), None)
            if quantize is None:
                ranges.append(None)
                continue
            scale, zero_point, lowest, highest = (float(value) for value in quantize.args[1:5])
            ranges.append(((lowest - zero_point) * scale, (highest - zero_point) * scale))
    return ranges


def _float_leaves(sample: Inputs) -> Iterator[tuple[int, str, Tensor]]:
    """Float tensors of a method's arguments: position among all leaves, and place, as `[3][0]`."""
    leaves, _ = tree_flatten_with_path(sample)
    for position, (path, leaf) in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            yield position, keystr(path), leaf


def _readable(module: nn.Module, place: str) -> str:
    """`past_k[0]` for the place `[3][0]` among the arguments of `forward`."""
    index, _, rest = place.removeprefix("[").partition("]")
    return list(inspect.signature(module.forward).parameters)[int(index)] + rest


def _reaches_outside(ours: tuple[float, float], extremes: tuple[float, float]) -> bool:
    """Far outside, seen from the middle of the calibrated range."""
    middle, half = (extremes[0] + extremes[1]) / 2, (extremes[1] - extremes[0]) / 2
    return max(abs(ours[0] - middle), abs(ours[1] - middle)) > OUTSIDE * half


def _empty(case: Case) -> Calls:
    return {output.name: [] for output in case.outputs}


def _keep(case: Case, kept: Calls, results: object) -> None:
    leaves = tree_leaves(results)
    for output in case.outputs:
        kept[output.name].append([leaves[position].double().flatten().numpy().copy() for position in output.positions])


def compared(output: Output, got: Calls, wanted: Calls) -> tuple[list[list[Array]], list[list[Array]]]:
    """The calls of an output that both paths made and that may be compared."""
    both = list(zip(got.get(output.name, ()), wanted.get(output.name, ()), strict=False))
    if output.given is not None:
        pairs = zip(got[output.given], wanted[output.given], strict=False)
        same = [all(np.array_equal(x, y) for x, y in zip(*pair, strict=True)) for pair in pairs]
        both = [call for call, is_same in zip(both, same, strict=True) if is_same]
    return [ours for ours, _ in both], [theirs for _, theirs in both]


def _output_quality(output: Output, traces: Traces) -> OutputQuality:
    emulated_db = _db(output, traces.emulated, traces.float)
    lowered_db = _db(output, traces.emulated, traces.quantized) if traces.quantized else emulated_db
    return OutputQuality(output.name, _db(output, traces.quantized, traces.float), lowered_db, emulated_db)


def _db(output: Output, got: Calls, wanted: Calls) -> float | None:
    """None when there is nothing to compare."""
    if not got:
        return None
    ours, theirs = compared(output, got, wanted)
    return sqnr_db(joined(ours), joined(theirs)) if ours else None


def joined(calls: list[list[Array]]) -> Array:
    """All values of all calls."""
    return np.concatenate([values for call in calls for values in call])


def _agreements(output: Output, traces: Traces) -> list[Agreement]:
    wanted = _codes(output, traces.float[output.name])
    paths = []
    for path in (traces.quantized, traces.emulated):
        got = path.get(output.name)
        codes = _codes(output, got) if got else None
        paths.append(None if codes is None else [agreement(codes[:, i], wanted[: len(codes), i]) for i in range(codes.shape[1])])
    return [
        Agreement(codebook, *(None if path is None else path[column] for path in paths))
        for column, codebook in enumerate(output.codebooks)
    ]


def _codes(output: Output, calls: list[list[Array]]) -> NDArray[np.int64]:
    """`[calls, codebooks]`"""
    stacked = np.stack([np.concatenate(call) for call in calls])
    if output.kind == "codes":
        return stacked.astype(np.int64)
    logits = stacked.reshape(len(calls), len(output.codebooks), -1)
    likeliest: NDArray[np.int64] = logits[..., : output.choices].argmax(-1)
    return likeliest
