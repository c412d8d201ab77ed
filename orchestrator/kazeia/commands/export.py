"""`kz export`: a checkpoint becomes a bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import print_json, say
from kazeia.defaults import CONTEXT_LENGTH, PREFILL_TOKENS
from kazeia.export.options import BACKENDS, BUILT_FOR, DECODER_QUANTS, DEFAULT_SOC, QUANTS, ExportOptions
from kazeia.quality import REPORT_NAME

if TYPE_CHECKING:
    from kazeia.export.service import Export


@click.command("export")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="BUNDLE", help="Folder to write.")
@click.option("--backend", type=click.Choice(BACKENDS), default="xnnpack", show_default=True, help="CPU (xnnpack) or NPU (qnn).")
@click.option(
    "--quant", type=click.Choice(QUANTS), help="Numbers of the two large models. [default: 8da8w on the CPU, fp16 on the NPU]"
)
@click.option("--talker-quant", type=click.Choice(QUANTS), help="The talker's, if others; puts it on the backend they belong to.")
@click.option("--predictor-quant", type=click.Choice(QUANTS), help="The code predictor's, likewise.")
@click.option(
    "--decoder-backend", type=click.Choice(BACKENDS), default="xnnpack", show_default=True, help="Of the speech decoder."
)
@click.option(
    "--decoder-quant",
    type=click.Choice(DECODER_QUANTS),
    default="fp32",
    show_default=True,
    help="The speech decoder's, on the CPU.",
)
@click.option("--soc", default=DEFAULT_SOC, show_default=True, metavar="ID", help="Chip of the NPU.")
@click.option(
    "--for", "built_for", type=click.Choice(BUILT_FOR), default="device", show_default=True, help="What loads the NPU's part."
)
@click.option("--calibration", type=click.Path(path_type=Path), metavar="DIR", help="Of kz calibrate; for 16a8w and 16a4w.")
@click.option("--auto", is_flag=True, help="Widen the layers that quantise worst until the quality gates hold.")
@click.option(
    "--quality-frames", type=click.IntRange(0), metavar="N", help="Frames to speak for the quality report; 0: no speech."
)
@click.option(
    "--context",
    "context_length",
    default=CONTEXT_LENGTH,
    show_default=True,
    metavar="N",
    help="Longest prompt plus frames (12.5 a second).",
)
@click.option("--prefill-tokens", default=PREFILL_TOKENS, show_default=True, metavar="N", help="Prompt tokens taken at once.")
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable result.")
def command(checkpoint: Path, output: Path, as_json: bool, **options: Any) -> None:
    """Export CHECKPOINT, a Qwen3-TTS 12Hz folder from Hugging Face, to a bundle that speaks without PyTorch.

    The bundle becomes the default of later commands. Needs `pip install 'kazeia[export]'`, and for the NPU 'kazeia[export,qnn]'.
    """
    from kazeia.bundle_choice import remember_bundle
    from kazeia.export.progress import LineProgress
    from kazeia.export.service import export_bundle

    result = export_bundle(checkpoint, output, ExportOptions(**options), LineProgress(sys.stderr))
    remember_bundle(result.folder)
    for failure in result.quality.failures if result.quality else ():
        say(f"below the quality gates: {failure}")
    if as_json:
        print_json(_report(result))
    else:
        click.echo(_summary(result))


def _report(result: Export) -> dict[str, Any]:
    manifest, quality = result.manifest, result.quality
    report = {
        "bundle": str(result.folder),
        "model": manifest.model.name,
        "programs": {name: {"backend": part.backend, "quant": part.quant} for name, part in manifest.programs.items()},
        "context_length": manifest.model.context_length,
        "prefill_tokens": manifest.model.prefill_tokens,
        "files": {file.name: file.bytes for file in manifest.files},
        "size_bytes": result.size_bytes,
        "elapsed_s": round(result.elapsed_s, 1),
    }
    if quality is not None:
        report |= {"soc": manifest.soc, "qnn": manifest.qnn, "built_for": manifest.built_for}
        report["quality"] = {
            "passed": not quality.failures,
            "failures": quality.failures,
            "report": str(result.folder / REPORT_NAME),
        }
    return report


def _summary(result: Export) -> str:
    manifest = result.manifest
    talker = manifest.programs["talker"]
    return (
        f"{result.folder}: {manifest.model.name} for {talker.backend}, {talker.quant}, context {manifest.model.context_length}, "
        f"{result.size_bytes / 1e6:,.1f} MB, {result.elapsed_s:.0f} s"
    )
