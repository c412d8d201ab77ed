"""The part of an export that is for the NPU: which programs, tried on which recordings, and the quality report at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast, get_args

from torch.utils._pytree import tree_leaves

from kazeia.bundle import Manifest
from kazeia.checkpoint import Checkpoint
from kazeia.export.calibration import Calibration, Codes, TalkerSample
from kazeia.export.decoder_stages import best_run, described, reason, try_stages
from kazeia.export.layers import DecoderShape
from kazeia.export.lowering import lower
from kazeia.export.options import ExportOptions, NpuQuant, Placement
from kazeia.export.progress import Progress
from kazeia.export.qnn_cache import StaticCache
from kazeia.export.qnn_code_predictor import frame_spec, steps_spec
from kazeia.export.qnn_lowering import QnnTarget, load_qnn
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quality import Trial, build_tested
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.qnn_speech_decoder import place_decoder
from kazeia.export.qnn_talker import RESULTS, talker_spec
from kazeia.export.qnn_talker_frames import frame_steps
from kazeia.export.quality_case import MEASURED_CALLS, Output
from kazeia.export.quality_log import SPEECH_FRAMES, QualityLog
from kazeia.export.speech_decoder import STAGES, Stage, speech_decoder_program
from kazeia.quality import Quality

Sample = TypeVar("Sample")
Fed = TypeVar("Fed")


ON_CPU = Placement("xnnpack", "fp32")


class Made(NamedTuple):
    """A finished program."""

    content: bytes
    placement: Placement


class NpuExport:
    """Makes the NPU's programs of one checkpoint.

    Raises:
        UsageError: there is no compiler for the NPU.
        ExportError: the calibration does not fit.
    """

    def __init__(self, checkpoint: Checkpoint, options: ExportOptions, progress: Progress) -> None:
        self.qnn_version = load_qnn()
        self._checkpoint = checkpoint
        self._options = options
        self._progress = progress
        self._target = QnnTarget(options.soc, options.built_for == "emulator")
        self._calibration = Calibration.open(options.calibration, checkpoint) if options.calibration else None
        self._log = self._new_log()

    def _new_log(self) -> QualityLog:
        """What is measured on the way."""
        asked = SPEECH_FRAMES if self._options.quality_frames is None else self._options.quality_frames
        log = QualityLog(self._calibration, speech_frames=asked)
        if self._calibration is None:
            log.note("Exported without a calibration: nothing was measured.")
        elif not self._target.for_emulator and asked:
            log.note("The emulator cannot load programs for a device: twins were emulated, lowered from the same graphs.")
        return log

    def programs(self, model: str) -> dict[str, Made]:
        """The programs that `model` becomes, by name."""
        if model == "speech_decoder":
            return self._speech_decoder()
        makers = {
            "talker": (self._talker, self._options.talker),
            "code_predictor": (self._code_predictor, self._options.code_predictor),
        }
        make, placement = makers[model]
        return {name: Made(content, placement) for name, content in make().items()}

    def _talker(self) -> dict[str, bytes]:
        options, config = self._options, self._checkpoint.config.talker_config
        recipe, layers = Recipe(_precision(options.talker)), config.num_hidden_layers
        phrases = _Phrases(self._calibration, Calibration.talker_samples)
        spec = talker_spec(self._checkpoint, options.context_length, options.prefill_tokens, recipe, phrases)
        outputs = (
            Output("logits", (0,), "logits", choices=config.code_predictor_config.vocab_size),
            Output("hidden", (1,)),
            Output("keys", tuple(range(RESULTS, RESULTS + layers))),
            Output("values", tuple(range(RESULTS + layers, RESULTS + 2 * layers))),
        )
        held_out = {"decode": self._frame_steps(spec, phrases), "prefill": spec.samples["prefill"]}
        return {spec.name: self._build(spec, recipe, phrases, dict.fromkeys(held_out, outputs), held_out)}

    def _frame_steps(self, spec: QnnSpec, phrases: _Phrases[TalkerSample]) -> Callable[[], Iterable[Inputs]]:
        """Frames from all over the held-out phrases: codes are compared on them."""
        config, method = self._checkpoint.config.talker_config, spec.methods["decode"]
        cache = StaticCache(DecoderShape.of(config), self._options.context_length - 1, method.inputs[3][0].dtype)
        return partial(frame_steps, method.module, cache, phrases, self._options.prefill_tokens, self._every)

    @property
    def _every(self) -> int:
        """The distance of held-out frames that are measured, so that they come from all phrases."""
        frames = self._calibration.held_out().frames if self._calibration else 0
        return max(1, frames // MEASURED_CALLS)

    def _code_predictor(self) -> dict[str, bytes]:
        """`code_predictor.pte`, which draws whole frames, and `code_predictor_steps.pte` for what it cannot draw."""
        recipe = Recipe(_precision(self._options.code_predictor))
        phrases = _Phrases(self._calibration, Calibration.predictor_samples, self._every)
        groups = self._checkpoint.config.talker_config.num_code_groups
        frame = frame_spec(self._checkpoint, recipe, phrases)
        codes = Output("codes", (0,), "codes", codebooks=tuple(range(1, groups)))
        total = Output("embedding_sum", (1,), given="codes")
        scores = Output("logits", (0,), "logits", codebooks=tuple(range(1, groups)))
        programs = {frame.name: self._build(frame, recipe, phrases, {"frame": (codes, total)})}
        steps = steps_spec(self._checkpoint, recipe, phrases)
        programs[steps.name] = self._build(steps, recipe, phrases, {"score": (scores,)})
        return programs

    def _speech_decoder(self) -> dict[str, Made]:
        """Stages that pass the gate go to the NPU (all of them, without a calibration to try them on), the others to the CPU."""
        placement = self._options.speech_decoder
        recipe = Recipe(_precision(placement))
        phrases = _Phrases(self._calibration, Calibration.speech_decoder_samples)
        on_npu = self._place_stages(recipe, phrases) if self._calibration else STAGES
        if not on_npu:
            return {
                "speech_decoder": Made(lower(speech_decoder_program(self._checkpoint), "xnnpack", "fp32", self._progress), ON_CPU)
            }
        placed = place_decoder(self._checkpoint, on_npu)
        spec, rest = placed.npu_spec(phrases), placed.cpu_spec()
        states = range(1, 1 + len(tree_leaves(placed.example(placed.npu)[1])))
        outputs = [Output("chunk", (0,)), *([Output("states", tuple(states))] if states else [])]
        programs = {spec.name: Made(self._build(spec, recipe, phrases, {f"decode_{placed.npu}": outputs}), placement)}
        if rest is not None:
            programs[rest.name] = Made(lower(rest, "xnnpack", "fp32", self._progress), ON_CPU)
        return programs

    def _place_stages(self, recipe: Recipe, phrases: _Phrases[Codes]) -> tuple[Stage, ...]:
        trials = try_stages(self._checkpoint, self._target, recipe, phrases, lambda: phrases.held_out(phrases), self._progress)
        on_npu = best_run(trials, self._log.gates.fp16_db)
        self._log.stages([described(trial, trial.stage in on_npu) for trial in trials])
        for trial in trials:
            if trial.stage not in on_npu:
                self._log.note(reason(trial))
        return on_npu

    def finish(self, folder: Path, manifest: Manifest) -> tuple[Quality, Manifest]:
        """Write the quality report of the bundle in `folder`, manifest included; the report, and the manifest with its files."""
        return self._log.finish(folder, manifest, self._progress)

    def _build(
        self,
        spec: QnnSpec,
        recipe: Recipe,
        phrases: _Phrases[Any],
        outputs: Mapping[str, Sequence[Output]],
        feeds: Mapping[str, Callable[[], Iterable[Inputs]]] | None = None,
    ) -> bytes:
        """One program, tried on the held-out phrases; `feeds` make a method's inputs of them, as `spec.samples` do."""
        feeds = feeds or spec.samples
        trials = [Trial(method, listed, partial(phrases.held_out, feeds[method])) for method, listed in outputs.items()]
        tried = trials if self._calibration else []
        auto = self._options.auto
        return build_tested(spec, self._target, recipe, tried, self._log, auto=auto, progress=self._progress).program


class _Phrases(Generic[Sample]):
    """The recordings a program is fitted to; while `held_out` runs, those it is judged by. Both go through the same modules."""

    def __init__(
        self, calibration: Calibration | None, samples: Callable[[Calibration], Iterator[Sample]], every: int = 1
    ) -> None:
        """every: the distance of the held-out samples that are taken."""
        self._calibration = calibration
        self._samples = samples
        self._every = every
        self._held_out = False

    def __call__(self) -> Iterator[Sample]:
        if self._calibration is None:
            return iter(())
        if self._held_out:
            return islice(self._samples(self._calibration.held_out()), 0, None, self._every)
        return self._samples(self._calibration.fitting())

    def held_out(self, feed: Callable[[], Iterable[Fed]]) -> Iterator[Fed]:
        self._held_out = True
        try:
            yield from feed()
        finally:
            self._held_out = False


def _precision(placement: Placement) -> NpuQuant:
    assert placement.quant in get_args(NpuQuant)
    return cast(NpuQuant, placement.quant)
