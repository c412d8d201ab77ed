"""`kz export`: a checkpoint becomes a bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import print_json
from kazeia.defaults import CONTEXT_LENGTH, PREFILL_TOKENS
from kazeia.export.options import BACKENDS, QUANTS, ExportOptions

if TYPE_CHECKING:
    from kazeia.bundle import Backend
    from kazeia.export.options import Quant
    from kazeia.export.service import Export


@click.command("export")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="BUNDLE", help="Folder to write.")
@click.option("--backend", type=click.Choice(BACKENDS), default="xnnpack", show_default=True, help="What runs the models.")
@click.option("--quant", type=click.Choice(QUANTS), default="8da8w", show_default=True, help="Weights of the two large models.")
@click.option(
    "--context", default=CONTEXT_LENGTH, show_default=True, metavar="N", help="Longest prompt plus frames (12.5 a second)."
)
@click.option("--prefill-tokens", default=PREFILL_TOKENS, show_default=True, metavar="N", help="Prompt tokens taken at once.")
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable result.")
def command(
    checkpoint: Path, output: Path, backend: Backend, quant: Quant, context: int, prefill_tokens: int, as_json: bool
) -> None:
    """Export CHECKPOINT, a Qwen3-TTS 12Hz folder from Hugging Face, to a bundle that speaks without PyTorch.

    The bundle becomes the default of later commands. Needs `pip install 'kazeia[export]'`.
    """
    from kazeia.bundle_choice import remember_bundle
    from kazeia.export.progress import LineProgress
    from kazeia.export.service import export_bundle

    options = ExportOptions(backend=backend, quant=quant, context_length=context, prefill_tokens=prefill_tokens)
    result = export_bundle(checkpoint, output, options, LineProgress(sys.stderr))
    remember_bundle(result.folder)
    if as_json:
        print_json(_report(result))
    else:
        click.echo(_summary(result))


def _report(result: Export) -> dict[str, Any]:
    manifest = result.manifest
    return {
        "bundle": str(result.folder),
        "model": manifest.model.name,
        "programs": {name: {"backend": part.backend, "quant": part.quant} for name, part in manifest.programs.items()},
        "context_length": manifest.model.context_length,
        "prefill_tokens": manifest.model.prefill_tokens,
        "files": {file.name: file.bytes for file in manifest.files},
        "size_bytes": result.size_bytes,
        "elapsed_s": round(result.elapsed_s, 1),
    }


def _summary(result: Export) -> str:
    manifest = result.manifest
    talker = manifest.programs["talker"]
    return (
        f"{result.folder}: {manifest.model.name} for {talker.backend}, {talker.quant}, context {manifest.model.context_length}, "
        f"{result.size_bytes / 1e6:,.1f} MB, {result.elapsed_s:.0f} s"
    )
