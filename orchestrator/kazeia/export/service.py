"""The export itself: one program at a time is read, lowered, written and forgotten, so memory holds one model at most."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kazeia import __version__
from kazeia.bundle import CONTRACT_VERSION, EXECUTORCH_VERSION, Manifest, Program, Table, TableType
from kazeia.checkpoint import Checkpoint
from kazeia.errors import ExportError, UsageError
from kazeia.export.bundle_writer import list_files, new_bundle, write_manifest
from kazeia.export.description import describe_model, describe_sampling
from kazeia.export.options import CpuQuant, ExportOptions, Placement
from kazeia.export.progress import Progress, silent
from kazeia.export.quiet import quiet

if TYPE_CHECKING:
    from kazeia.export.program import ProgramSpec
    from kazeia.export.qnn_export import NpuExport
    from kazeia.quality import Quality

TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True)
class Export:
    """A finished export."""

    folder: Path
    manifest: Manifest
    elapsed_s: float
    quality: Quality | None = None
    """Of a bundle for the NPU."""

    @property
    def size_bytes(self) -> int:
        """All files of the bundle, the manifest aside."""
        return sum(file.bytes for file in self.manifest.files)


def export_bundle(
    checkpoint_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: ExportOptions | None = None,
    progress: Progress = silent,
) -> Export:
    """Export a checkpoint to the folder `output`, which appears whole at the end or not at all.

    Raises:
        UsageError: a wrong option, an output that must not be overwritten, or PyTorch is missing.
        CheckpointError: the checkpoint is missing, broken or foreign.
        ExportError: the model cannot be exported as asked, or the disk is full.
    """
    options, started = options or ExportOptions(), time.monotonic()
    checkpoint = Checkpoint.open(Path(checkpoint_path))
    options.check_positions(checkpoint.config.talker_config.max_position_embeddings)
    target = Path(output).absolute()
    with new_bundle(target) as folder, quiet():
        _require_torch(progress)
        try:
            manifest, quality = _fill(folder, checkpoint, options, progress)
        except OSError as error:
            raise ExportError(
                f"cannot write {folder.parent / target.name}: {error.strerror}; free space or choose another -o"
            ) from error
    return Export(target, manifest, time.monotonic() - started, quality)


def _require_torch(progress: Progress) -> None:
    try:
        with progress("start PyTorch"):
            import torch  # noqa: F401
            import torchao  # noqa: F401

            import kazeia.export.lowering  # noqa: F401
    except ImportError:
        raise UsageError("exporting needs PyTorch, which is not installed; run pip install 'kazeia[export]'") from None


def _fill(folder: Path, checkpoint: Checkpoint, options: ExportOptions, progress: Progress) -> tuple[Manifest, Quality | None]:
    """Write all of a bundle into `folder`."""
    from kazeia.tokenizer import write_tokenizer

    npu = _npu_export(checkpoint, options, progress)
    programs = _write_programs(folder, checkpoint, options, npu, progress)
    in_float = {options.talker.quant, options.code_predictor.quant} == {"fp32"}
    tables = _write_tables(folder, checkpoint, "f32" if in_float else "f16", progress)
    with progress("tokenizer"):
        write_tokenizer(checkpoint, folder / TOKENIZER_FILE)
    with progress("hashes"):
        files = list_files(folder)
    manifest = Manifest(
        contract=CONTRACT_VERSION,
        kazeia=__version__,
        executorch=EXECUTORCH_VERSION,
        qnn=npu.qnn_version if npu else None,
        soc=options.soc if npu else None,
        built_for=options.built_for if npu else None,
        model=describe_model(checkpoint, options),
        sampling=describe_sampling(checkpoint),
        programs=programs,
        tables=tables,
        tokenizer=TOKENIZER_FILE,
        files=files,
    )
    write_manifest(folder, manifest)
    quality = None
    if npu is not None:
        quality, manifest = npu.finish(folder, manifest)
        write_manifest(folder, manifest)
    return manifest, quality


def _npu_export(checkpoint: Checkpoint, options: ExportOptions, progress: Progress) -> NpuExport | None:
    if not options.uses_npu:
        return None
    from kazeia.export.qnn_export import NpuExport

    return NpuExport(checkpoint, options, progress)


def _write_programs(
    folder: Path, checkpoint: Checkpoint, options: ExportOptions, npu: NpuExport | None, progress: Progress
) -> dict[str, Program]:
    """One model at a time is in memory."""
    from kazeia.export.code_predictor import code_predictor_program
    from kazeia.export.speaker_encoder import speaker_encoder_program
    from kazeia.export.speech_decoder import speech_decoder_program
    from kazeia.export.talker import talker_program

    builders: dict[str, tuple[Callable[[], ProgramSpec], Placement]] = {
        "talker": (lambda: talker_program(checkpoint, options.context_length, options.prefill_tokens), options.talker),
        "code_predictor": (lambda: code_predictor_program(checkpoint), options.code_predictor),
        "speech_decoder": (lambda: speech_decoder_program(checkpoint), options.speech_decoder),
    }
    if checkpoint.config.speaker_encoder_config is not None:
        builders["speaker_encoder"] = (lambda: speaker_encoder_program(checkpoint), Placement("xnnpack", "fp32"))
    written: dict[str, Program] = {}
    for name, (build, placement) in builders.items():
        if placement.backend == "qnn":
            assert npu is not None
            contents: Mapping[str, tuple[bytes, Placement]] = npu.programs(name)
        else:
            contents = {name: (_lowered(name, build, cast(CpuQuant, placement.quant), progress), placement)}
        for program, (content, place) in contents.items():
            (folder / f"{program}.pte").write_bytes(content)
            written[program] = Program(file=f"{program}.pte", backend=place.backend, quant=place.quant)
        del contents
        gc.collect()  # a model and its graphs are full of cycles
    return written


def _lowered(name: str, build: Callable[[], ProgramSpec], quant: CpuQuant, progress: Progress) -> bytes:
    """A program for the CPU."""
    from kazeia.export.lowering import lower

    with progress(f"{name}: read"):
        spec = build()
    return lower(spec, "xnnpack", quant, progress)


def _write_tables(folder: Path, checkpoint: Checkpoint, dtype: TableType, progress: Progress) -> dict[str, Table]:
    from kazeia.export.tables import write_codec_table, write_text_table

    with progress("text table"):
        text = write_text_table(checkpoint, folder / "text_embeddings.bin", dtype)
    with progress("codec tables"):
        codec = write_codec_table(checkpoint, folder / "codec_embeddings.bin", dtype)
    return {"text_embeddings": text, "codec_embeddings": codec}
