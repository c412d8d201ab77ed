"""`kz bundle`: what was exported, and whether it is still whole."""

from __future__ import annotations

import click

from kazeia.commands.output import print_json


@click.group("bundle")
def command() -> None:
    """Show and verify what was exported."""


@command.command("info")
@click.argument("folder", required=False)
@click.option("--verify", is_flag=True, help="Hash every file again.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def info(folder: str | None, verify: bool, as_json: bool) -> None:
    """Show the bundle in FOLDER [default: the one kz speak would use]."""
    import msgspec

    from kazeia.bundle import Bundle
    from kazeia.bundle_choice import choose_bundle
    from kazeia.quality import deploy_objection, uses_npu

    bundle = Bundle.open(choose_bundle(folder), rehash=verify)
    manifest = bundle.manifest
    if as_json:
        print_json({"folder": str(bundle.folder), **msgspec.to_builtins(manifest)})
        return
    model = manifest.model
    click.echo(f"{bundle.folder}")
    click.echo(f"  model      {model.name} ({model.kind}, {model.size}), {model.layers} layers, {model.hidden_size} wide")
    click.echo(f"  context    {model.context_length} positions, prefill {model.prefill_tokens}")
    for name, program in manifest.programs.items():
        click.echo(f"  program    {name}: {program.backend} {program.quant}")
    if manifest.built_for:
        click.echo(f"  NPU        {manifest.soc}, QNN {manifest.qnn}, built for {manifest.built_for}")
    if uses_npu(manifest):
        click.echo(f"  quality    {deploy_objection(bundle) or 'all gates hold'}")
    click.echo(f"  languages  {', '.join(sorted(model.languages))}")
    if model.speakers:
        click.echo(f"  speakers   {', '.join(sorted(model.speakers))}")
    if manifest.voices:
        click.echo(f"  voices     {', '.join(manifest.voices)}")
    total_bytes = sum(file.bytes for file in manifest.files)
    click.echo(f"  files      {len(manifest.files)}, {total_bytes / 1e6:.1f} MB, {'SHA-256 verified' if verify else 'whole'}")
    click.echo(f"  versions   contract {manifest.contract}, ExecuTorch {manifest.executorch}, kazeia {manifest.kazeia}")
