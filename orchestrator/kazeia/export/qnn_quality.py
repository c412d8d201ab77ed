"""A program for the NPU, quantised, lowered and put to the test on phrases that its scales were not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from kazeia.export.auto_recipe import find_recipe
from kazeia.export.progress import Progress, silent
from kazeia.export.qnn_lowering import QnnTarget
from kazeia.export.qnn_program import QnnBuild, QnnSpec, lower_build
from kazeia.export.qnn_quantize import Inputs, Recipe, quantized_methods
from kazeia.export.quality_case import EMULATED_CALLS, Case, InputRanges, Output
from kazeia.export.quality_log import QualityLog
from kazeia.quality import AutoRound

Graphs = dict[str, torch.fx.GraphModule]


@dataclass(frozen=True)
class Trial:
    """How one method of a program is judged."""

    method: str
    outputs: Sequence[Output]
    inputs: Callable[[], Iterable[Inputs]]
    """Held-out, as `QnnSpec.samples`."""
    emulated_calls: int = EMULATED_CALLS


def build_tested(
    spec: QnnSpec,
    target: QnnTarget,
    recipe: Recipe,
    trials: Sequence[Trial],
    log: QualityLog,
    *,
    auto: bool = False,
    progress: Progress = silent,
) -> QnnBuild:
    """Quantise, lower and measure; with `auto`, first widen the recipe until the first trial holds the gates.

    The recipe that was used is the build's, and is in `log` with everything measured.

    Raises:
        ExportError: see `quantized_methods` and `lower`.
    """
    quantizer = _Quantizer(spec, target, trials, progress)
    rounds: list[AutoRound] = []
    if recipe.precision != "fp16":
        if auto and trials:
            recipe, _, rounds = find_recipe(quantizer.case, recipe, log.gates)
        else:
            quantizer.quantize(recipe)
    log.recipe(spec.name, recipe, rounds)
    build = lower_build(spec, target, recipe, quantizer.graphs, progress)
    run = build if target.for_emulator else _twin(build, target, log, progress) if trials else None
    for trial in trials:
        emulated = partial(run.emulated, trial.method) if run and trial.emulated_calls else None
        log.add(quantizer.make_case(trial, recipe, emulated), progress)
    return build


def _twin(build: QnnBuild, target: QnnTarget, log: QualityLog, progress: Progress) -> QnnBuild | None:
    """The same program for the emulator, which cannot load what is for a device; None if nothing is to be emulated."""
    if not log.emulates:
        return None
    twin = lower_build(build.spec, QnnTarget(target.soc, for_emulator=True), build.recipe, build.graphs, progress)
    log.twin(build.spec.name, twin.program)
    return twin


class _Quantizer:
    """Quantises one program as often as needed and remembers what calibration saw."""

    def __init__(self, spec: QnnSpec, target: QnnTarget, trials: Sequence[Trial], progress: Progress) -> None:
        self.graphs: Graphs = {}
        self._spec = spec
        self._target = target
        self._trials = trials
        self._progress = progress
        self._ranges: dict[str, InputRanges] = {}

    def quantize(self, recipe: Recipe) -> None:
        spec = self._spec
        self._ranges = {name: InputRanges() for name in spec.methods}
        modules = {name: method.module for name, method in spec.methods.items()}
        samples: Mapping[str, Iterable[Inputs]] = {name: self._ranges[name].watch(spec.samples[name]()) for name in modules}
        with self._progress(f"{spec.name}: calibrate"):
            self.graphs = quantized_methods(modules, samples, recipe, self._target.soc, spec.annotate)

    def case(self, recipe: Recipe) -> Case:
        """The first trial with the program quantised by `recipe`."""
        self.quantize(recipe)
        return self.make_case(self._trials[0], recipe, None)

    def make_case(self, trial: Trial, recipe: Recipe, emulated: Callable[[Inputs], Sequence[torch.Tensor]] | None) -> Case:
        return Case(
            program=self._spec.name,
            method=trial.method,
            precision=recipe.precision,
            module=self._spec.methods[trial.method].module,
            graph=self.graphs.get(trial.method),
            emulated=emulated,
            inputs=trial.inputs,
            outputs=trial.outputs,
            recipe=recipe,
            fitted=self._ranges.get(trial.method),
            emulated_calls=trial.emulated_calls,
        )
