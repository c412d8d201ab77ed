"""How good an exported bundle is: `quality.json`, the gates it must pass, and what `kz deploy` makes of it.

Every measure compares the same inputs on three paths, so that faults are told apart:

    float ──(calibration, precision)──► quantised ──(lowering)──► emulated

float is the model in float32, quantised its quantise-dequantise graph in PyTorch, emulated what the NPU's emulator computes.
Ratios are signal to error, in dB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from kazeia.bundle import Bundle, Manifest, Strict
from kazeia.errors import BundleError

QUALITY_NAME = "quality.json"
REPORT_NAME = "quality.html"
LIMIT_DB = 200.0
"""What an exact match is written as; minus this for values that are not numbers."""

ENOUGH_CALLS = 20
"""Fewer calls tell nothing of how often codes agree: the gates do not look at them."""

FaultKind: TypeAlias = Literal["calibration", "lowering"]


class Gates(Strict):
    """What a bundle must reach. A measure that was not taken passes, but something must have been measured."""

    quantized_db: float = 15.0
    """Float to quantised, of every output. Below it codes are drawn from noise."""
    lowered_db: float = 40.0
    """Quantised to emulated, of every output: 70 dB is usual, less is a fault of the compiler or of a scale."""
    fp16_db: float = 30.0
    """Float to emulated, of every output of an fp16 program: 46 to 60 dB are usual."""
    first_agreement: float = 0.85
    """Codebook 0: part of the likeliest codes that stay the same, teacher-forced."""
    other_agreement: float = 0.75
    """Mean of the code predictor's codebooks."""
    decoder_log_mel_db: float = 3.0
    """Distance of the sound made of the same codes."""
    level_db: float = 3.0
    """Of the same codes' sound, either way."""
    eos_frames: int = 12
    """Free-running: the mean difference of the last frame, a second of speech; either way."""


class Fault(Strict):
    """Something that is known to be wrong, named."""

    kind: FaultKind
    where: str
    """As `talker.decode logits`."""
    message: str


class OutputQuality(Strict):
    """One output, or several of a kind, of a method."""

    name: str
    quantized_db: float | None
    """Float to quantised over all calls; None for fp16."""
    lowered_db: float | None
    """Quantised to emulated over the emulated calls; float to emulated for fp16."""
    emulated_db: float | None
    """Float to emulated over the emulated calls."""


class LayerQuality(Strict):
    """One layer of the quantised graph."""

    name: str
    """Of the module, as `stack.layers.3.mlp.down_proj`."""
    precision: str
    own_db: float
    """Of the layer's worst operator when it gets float inputs: what the layer itself loses."""
    db: float
    """With all that came before it."""
    weighted: bool
    """It has weights, so that more bits may help."""


class Agreement(Strict):
    """How often the likeliest code of a codebook stays the same when every input is the float model's."""

    codebook: int
    quantized: float | None
    emulated: float | None


class MethodQuality(Strict):
    """One method of a program."""

    program: str
    method: str
    precision: str
    calls: int
    emulated_calls: int
    outputs: list[OutputQuality]
    agreement: list[Agreement]
    layers: list[LayerQuality]
    """In the order of execution."""

    def worst(self, count: int = 10) -> list[LayerQuality]:
        """The layers that lose most by themselves."""
        return sorted(self.layers, key=lambda layer: layer.own_db)[:count]


class SpeechQuality(Strict):
    """One held-out phrase, spoken by the bundle with the seed of its fp32 recording."""

    text: str
    seed: int
    reference_frames: int
    """Of the recording, cut off at the frames that were asked for."""
    frames: int
    first_difference: int | None
    """The first frame with another code; None if there is none."""
    eos_difference: int | None
    """Frames it ends later than the recording (earlier: negative); None if neither came to its end."""
    level_db: float
    """Louder than the recording's sound."""
    log_mel_db: float
    """Mean distance of the log-mel spectra, frame by frame, over the frames both have."""
    spectrum_db: float
    """Mean distance of the spectra averaged over time: how different the voice is, whatever it says."""


class DecoderQuality(Strict):
    """The bundle's speech decoder against the fp32 one, both on the recorded codes."""

    text: str
    frames: int
    sound_db: float
    level_db: float
    log_mel_db: float


class Stage(Strict):
    """Where a part of a model runs."""

    name: str
    backend: str
    ms_per_frame: float | None
    """On this machine, emulated where it is for the NPU."""


class AutoRound(Strict):
    """One step of `--auto`."""

    program: str
    widened: list[str]
    """Layers given more bits in this round."""
    quantized_db: float
    """The lowest of the gated outputs afterwards."""
    failures: list[str]


class Quality(Strict):
    """`quality.json`"""

    kazeia: str
    model: str
    emulated: bool
    """Whether anything ran in the NPU's emulator."""
    gates: Gates
    methods: list[MethodQuality]
    decoder: list[DecoderQuality]
    speech: list[SpeechQuality]
    stages: list[Stage]
    recipes: dict[str, dict[str, str]]
    """By program: precision by layer pattern; `*` is everything else."""
    auto: list[AutoRound]
    faults: list[Fault]
    failures: list[str]
    """The gates that do not hold, each with measure and bound. Empty: the bundle is good."""
    notes: list[str]
    """What was not measured, and why."""

    @property
    def passed(self) -> bool:
        return not self.failures


def judge(quality: Quality) -> list[str]:
    """The gates that do not hold."""
    failures = [failure for method in quality.methods for failure in judge_method(method, quality.gates)]
    failures += _judge_sound(quality)
    failures += [f"{fault.kind} fault, {fault.where}: {fault.message}" for fault in quality.faults]
    if not (quality.methods or quality.decoder or quality.speech):
        failures.append("nothing was measured; export with --calibration DIR")
    return failures


def judge_method(method: MethodQuality, gates: Gates) -> Iterator[str]:
    """The gates of one method that do not hold."""
    where = f"{method.program}.{method.method}"
    lowered = gates.fp16_db if method.precision == "fp16" else gates.lowered_db
    for output in method.outputs:
        if output.quantized_db is not None and output.quantized_db < gates.quantized_db:
            yield f"{where} {output.name}: {output.quantized_db:.1f} dB after quantising, at least {gates.quantized_db:g} wanted"
        if output.lowered_db is not None and output.lowered_db < lowered:
            yield f"{where} {output.name}: {output.lowered_db:.1f} dB after lowering, at least {lowered:g} wanted"
    for path, calls in (("quantized", method.calls), ("emulated", method.emulated_calls)):
        if calls < ENOUGH_CALLS:
            continue
        found = [(one.codebook, getattr(one, path)) for one in method.agreement if getattr(one, path) is not None]
        first = [value for codebook, value in found if codebook == 0]
        others = [value for codebook, value in found if codebook > 0]
        if first and first[0] < gates.first_agreement:
            yield f"{where}: {first[0]:.0%} of codebook 0 agree {path}, at least {gates.first_agreement:.0%} wanted"
        if others and (mean := sum(others) / len(others)) < gates.other_agreement:
            yield f"{where}: {mean:.0%} of the codes agree {path}, at least {gates.other_agreement:.0%} wanted"


def _judge_sound(quality: Quality) -> Iterator[str]:
    gates = quality.gates
    if quality.decoder:
        mel = sum(one.log_mel_db for one in quality.decoder) / len(quality.decoder)
        level = max((one.level_db for one in quality.decoder), key=abs)
        if mel > gates.decoder_log_mel_db:
            yield f"speech_decoder: the sound is {mel:.1f} dB away in log-mel, at most {gates.decoder_log_mel_db:g} wanted"
        if abs(level) > gates.level_db:
            yield f"speech_decoder: the level is off by {level:+.1f} dB, at most {gates.level_db:g} wanted"
    ends = [abs(one.eos_difference) for one in quality.speech if one.eos_difference is not None]
    if ends and (mean := sum(ends) / len(ends)) > gates.eos_frames:
        yield f"speech ends {mean:.0f} frames away from where it should on average, at most {gates.eos_frames} wanted"


def read_quality(bundle: Bundle) -> Quality | None:
    """The bundle's `quality.json`; None if it has none.

    Raises:
        BundleError: it is broken or of another version of Kazeia.
    """
    if QUALITY_NAME not in {file.name for file in bundle.manifest.files}:
        return None
    path = bundle.folder / QUALITY_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Quality)
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}; export the bundle again") from None
    except msgspec.DecodeError as error:
        raise BundleError(f"{path} is not valid: {error}; export the bundle again with kz export") from None


def uses_npu(manifest: Manifest) -> bool:
    """Is any of its programs for the NPU? Only such a bundle has a report."""
    return any(program.backend == "qnn" for program in manifest.programs.values())


def deploy_objection(bundle: Bundle) -> str | None:
    """Why a bundle for the NPU should not be deployed; None if it is good, or for other backends, which have no report.

    Raises:
        BundleError: its report is broken.
    """
    if not uses_npu(bundle.manifest):
        return None
    quality = read_quality(bundle)
    if quality is None:
        return f"the quality of {bundle.folder} is unknown: it has no {QUALITY_NAME}"
    if quality.passed:
        return None
    more = f"; {len(quality.failures) - 1} more in its {REPORT_NAME}" if len(quality.failures) > 1 else ""
    return f"{bundle.folder} is below the quality gates ({quality.failures[0]}{more})"
