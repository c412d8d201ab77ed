"""What a person may choose about an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from kazeia.bundle import Backend, BuiltFor
from kazeia.defaults import CONTEXT_LENGTH, PREFILL_TOKENS
from kazeia.errors import UsageError

CpuQuant = Literal["fp32", "8da8w", "8da4w"]
"""On the CPU: float32, or weights of 8 or 4 bits with dynamic 8-bit activations."""
DecoderQuant = Literal["fp32", "8da8w"]
"""Of the speech decoder on the CPU: convolutions have no kernels with 4-bit weights."""
NpuQuant = Literal["fp16", "16a8w", "16a4w"]
"""On the NPU: float16, or weights of 8 or 4 bits with 16-bit activations of fixed scale."""
Quant = Literal[CpuQuant, NpuQuant]

BACKENDS: tuple[Backend, ...] = get_args(Backend)
QUANTS: tuple[Quant, ...] = (*get_args(CpuQuant), *get_args(NpuQuant))
DECODER_QUANTS: tuple[DecoderQuant, ...] = get_args(DecoderQuant)
BUILT_FOR: tuple[BuiltFor, ...] = get_args(BuiltFor)
DEFAULT_QUANTS: dict[Backend, Quant] = {"xnnpack": "8da8w", "qnn": "fp16"}
DEFAULT_SOC = "SM8750"
SMALLEST_CONTEXT = 32
"""A prompt has 9 tokens or more; below this nothing can be said."""


class Placement(NamedTuple):
    """Where a program runs, and how its numbers are kept."""

    backend: Backend
    quant: Quant


def backend_of(quant: Quant) -> Backend:
    """Each way to keep numbers belongs to one backend."""
    return "xnnpack" if quant in get_args(CpuQuant) else "qnn"


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of an export; made only of valid values.

    Raises:
        UsageError: names the option and what it may be.
    """

    backend: Backend = "xnnpack"
    """Of talker and code predictor, where nothing else is said."""
    quant: Quant | None = None
    """None: 8da8w on the CPU, fp16 on the NPU."""
    talker_quant: Quant | None = None
    predictor_quant: Quant | None = None
    """Other than `quant`; puts the model on the backend of that name."""
    decoder_backend: Backend = "xnnpack"
    decoder_quant: DecoderQuant = "fp32"
    """On the CPU; on the NPU it is fp16."""
    soc: str = DEFAULT_SOC
    """The NPU's chip."""
    built_for: BuiltFor = "device"
    calibration: Path | None = None
    """Folder of `kz calibrate`; 16a8w and 16a4w need one."""
    auto: bool = False
    """Widen the layers that quantise worst until the quality gates hold."""
    quality_frames: int | None = None
    """Frames to speak for the quality report; None for its own default."""
    context_length: int = CONTEXT_LENGTH
    """Positions of the talker's KV cache."""
    prefill_tokens: int = PREFILL_TOKENS
    """Tokens one prefill call takes."""

    def __post_init__(self) -> None:
        for backend in (self.backend, self.decoder_backend):
            if backend not in BACKENDS:
                raise UsageError(f"unknown backend {backend!r}; choose one of {', '.join(BACKENDS)}")
        for quant in (self.quant, self.talker_quant, self.predictor_quant):
            if quant is not None and quant not in QUANTS:
                raise UsageError(f"unknown quantisation {quant!r}; choose one of {', '.join(QUANTS)}")
        if self.built_for not in BUILT_FOR:
            raise UsageError(f"cannot export for {self.built_for!r}; choose one of {', '.join(BUILT_FOR)}")
        if self.decoder_quant not in DECODER_QUANTS:
            raise UsageError(f"the speech decoder cannot be {self.decoder_quant}; choose one of {', '.join(DECODER_QUANTS)}")
        if self.decoder_quant != "fp32" and self.decoder_backend != "xnnpack":
            raise UsageError(f"{self.decoder_quant} does not run on {self.decoder_backend}; leave --decoder-quant out")
        if self.quant is not None and backend_of(self.quant) != self.backend:
            fitting = [quant for quant in QUANTS if backend_of(quant) == self.backend]
            raise UsageError(
                f"{self.quant} does not run on {self.backend}; choose one of {', '.join(fitting)}, or another --backend"
            )
        self._check_sizes()
        self._check_npu()

    @property
    def talker(self) -> Placement:
        return self._placement(self.talker_quant)

    @property
    def code_predictor(self) -> Placement:
        return self._placement(self.predictor_quant)

    @property
    def speech_decoder(self) -> Placement:
        return Placement("xnnpack", self.decoder_quant) if self.decoder_backend == "xnnpack" else Placement("qnn", "fp16")

    @property
    def uses_npu(self) -> bool:
        return "qnn" in {self.talker.backend, self.code_predictor.backend, self.speech_decoder.backend}

    def check_positions(self, limit: int) -> None:
        """UsageError if the context is longer than `limit`, the model's `max_position_embeddings`."""
        if self.context_length > limit:
            raise UsageError(
                f"the context of {self.context_length} is longer than the model's {limit} positions; choose {limit} or less"
            )

    def _placement(self, override: Quant | None) -> Placement:
        quant = override or self.quant or DEFAULT_QUANTS[self.backend]
        return Placement(backend_of(quant), quant)

    def _check_sizes(self) -> None:
        if self.context_length < SMALLEST_CONTEXT:
            raise UsageError(f"the context of {self.context_length} is too small; choose {SMALLEST_CONTEXT} or more")
        if not 1 <= self.prefill_tokens < self.context_length:
            raise UsageError(
                f"{self.prefill_tokens} prefill tokens do not fit a context of {self.context_length}; "
                f"choose 1 to {self.context_length - 1}"
            )

    def _check_npu(self) -> None:
        from kazeia.export.soc_profiles import soc_profile

        if not self.uses_npu:
            return
        soc_profile(self.soc)
        static = {placement.quant for placement in (self.talker, self.code_predictor)} & {"16a8w", "16a4w"}
        if static and self.calibration is None:
            raise UsageError(
                f"{min(static)} has fixed scales, which come from recorded speech; "
                "record some with kz calibrate, then give --calibration DIR"
            )
