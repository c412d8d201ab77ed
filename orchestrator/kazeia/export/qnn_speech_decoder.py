"""The speech decoder with stages on the NPU: chunks of a fixed number of frames, state carried from one to the next.

Its stages are placed one by one; those on the NPU are neighbours and become one method, those before and behind it one each on
the CPU. The runner hands chunks from method to method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kazeia.bundle import CONTRACT_VERSION
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.errors import ExportError
from kazeia.export.calibration import Codes
from kazeia.export.npu_decoder_layers import exchange_layers
from kazeia.export.program import Method, ProgramSpec
from kazeia.export.qnn_program import QnnSpec
from kazeia.export.qnn_quantize import Inputs
from kazeia.export.speech_decoder import STAGES, Segment, SpeechDecoder, Stage, samples_per_frame
from kazeia.export.streaming_layers import TensorSource, state_shapes

MOST_CHUNK_FRAMES, MOST_CHUNK_VALUES = 4, 1 << 18
"""A chunk has as many frames as keep the largest sound within that many values, the official decoders' one: what an operator
needs must fit the NPU's own memory, and the compiler's time and memory grow faster than a chunk (docs/npu.md)."""

ON_NPU, WHOLE = "speech_decoder_npu", "speech_decoder"
"""Names of programs: the stages on the NPU beside others, and the others, or all of them."""


@dataclass(frozen=True)
class PlacedDecoder:
    """A speech decoder cut for its two places."""

    segments: tuple[Segment, ...]
    """In order; the one on the NPU has the NPU's forms of layers."""
    npu: int
    """Index of that one."""
    frames: int
    """Of a chunk."""
    constants: dict[str, int | float]

    def npu_spec(self, phrases: Callable[[], Iterable[Codes]] = tuple) -> QnnSpec:
        """What goes to the NPU; calibrated on `phrases`, each `[F, G]`."""
        return QnnSpec(
            name=WHOLE if len(self.segments) == 1 else ON_NPU,
            methods={f"decode_{self.npu}": Method(self.segments[self.npu], self.example(self.npu))},
            constants=self.constants,
            samples={f"decode_{self.npu}": lambda: self.inputs(self.npu, phrases())},
        )

    def cpu_spec(self) -> ProgramSpec | None:
        """What stays on the CPU; None if nothing does."""
        others = [index for index in range(len(self.segments)) if index != self.npu]
        methods = {f"decode_{index}": Method(self.segments[index], self.example(index)) for index in others}
        return ProgramSpec(WHOLE, methods, self.constants) if others else None

    def example(self, index: int) -> Inputs:
        """Inputs of a segment for a chunk of zeros."""
        groups = int(self.constants["code_groups"])
        return next(self.inputs(index, [torch.zeros(self.frames, groups, dtype=torch.int16).numpy()]))

    @torch.no_grad()
    def inputs(self, index: int, phrases: Iterable[Codes]) -> Iterator[Inputs]:
        """What a segment is given when phrases `[F, G]` are decoded in float; frames that fill no chunk are left out."""
        for codes in phrases:
            states = [[torch.zeros(shape) for shape in state_shapes(segment)] for segment in self.segments]
            for begin in range(0, len(codes) - self.frames + 1, self.frames):
                x = self._codes(codes[begin : begin + self.frames])
                for number, segment in enumerate(self.segments[: index + 1]):
                    if number == index:
                        yield x, states[number]
                    y, new = segment(x, states[number])
                    x, states[number] = y.contiguous(), [state.contiguous() for state in new]

    def _codes(self, chunk: Codes) -> Tensor:
        """`[F, G]` to `[1, G, F]`, as wide as the first segment's place likes them."""
        dtype = torch.int32 if self.npu == 0 else torch.int64
        return torch.from_numpy(chunk.astype("int64")).to(dtype).transpose(0, 1)[None].contiguous()


def chunk_frames(config: CodecDecoderConfig) -> int:
    """Frames of a chunk on the NPU."""
    values, channels, positions = 1, config.decoder_dim, math.prod(config.upsampling_ratios)
    for rate in config.upsample_rates:
        channels, positions = channels // 2, positions * rate
        values = max(values, channels * positions)
    return max(1, min(MOST_CHUNK_FRAMES, MOST_CHUNK_VALUES // values))


def place_decoder(checkpoint: Checkpoint, on_npu: Collection[Stage] = STAGES, frames: int | None = None) -> PlacedDecoder:
    """Cut a checkpoint's speech decoder; see `cut_decoder`. `frames` defaults to `chunk_frames`."""
    codec = checkpoint.codec_config
    config, frames = codec.decoder_config, frames or chunk_frames(codec.decoder_config)
    return cut_decoder(lambda name: checkpoint.codec_tensor(f"decoder.{name}"), config, codec.output_sample_rate, on_npu, frames)


def cut_decoder(
    tensor: TensorSource, config: CodecDecoderConfig, sample_rate: int, on_npu: Collection[Stage], frames: int
) -> PlacedDecoder:
    """Cut a speech decoder into what is before, on and behind the NPU.

    Args:
        tensor: gives the tensors below `decoder.`.
        frames: of a chunk.

    Raises:
        ExportError: the stages for the NPU are none, or not neighbours.
    """
    groups = _neighbours(on_npu)
    exchanged = exchange_layers(SpeechDecoder(tensor, config, frames).eval())
    plain = SpeechDecoder(tensor, config, frames).eval()
    npu = next(index for index, group in enumerate(groups) if group[0] in on_npu)
    segments = tuple(
        Segment({stage: (exchanged if index == npu else plain).stages[stage] for stage in group}).eval()
        for index, group in enumerate(groups)
    )
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "code_groups": config.num_quantizers,
        "codebook_size": config.codebook_size,
        "max_frames": frames,
        "samples_per_frame": samples_per_frame(config),
        "sample_rate": sample_rate,
        "segments": len(segments),
    }
    return PlacedDecoder(segments, npu, frames, constants)


def _neighbours(on_npu: Collection[Stage]) -> list[tuple[Stage, ...]]:
    """The stages before, on and behind the NPU; empty groups are left out."""
    places = [index for index, stage in enumerate(STAGES) if stage in on_npu]
    if not places or places != list(range(places[0], places[-1] + 1)):
        named = ", ".join(on_npu) or "none"
        raise ExportError(f"the speech decoder's stages on the NPU must be neighbours, not {named}; they are {', '.join(STAGES)}")
    first, last = places[0], places[-1] + 1
    return [group for group in (STAGES[:first], STAGES[first:last], STAGES[last:]) if group]
