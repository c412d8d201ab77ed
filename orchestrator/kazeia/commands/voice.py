"""`kz voice`: voices for Base models."""

from __future__ import annotations

from pathlib import Path

import click

from kazeia.commands.output import print_json
from kazeia.errors import UsageError


@click.group("voice")
def command() -> None:
    """Add, import, list and remove voices."""


@command.command("add")
@click.argument("name")
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--bundle", help="Bundle whose speaker encoder is used. [default: as kz speak]")
def add(name: str, recording: Path, bundle: str | None) -> None:
    """Make the voice NAME from a RECORDING (WAV, FLAC, OGG, MP3) of one person speaking for 3 to 20 s."""
    from kazeia.bundle_choice import open_bundle
    from kazeia.speaker_encoder import embed_recording
    from kazeia.voices import Voice, checked_name, save_voice

    name = checked_name(name)
    embedding = embed_recording(open_bundle(bundle), recording)
    path = save_voice(Voice(name, embedding, source=recording.name))
    click.echo(f"{name}: {embedding.size} numbers, {path}")


@command.command("import")
@click.argument("name")
@click.argument("embedding", type=click.Path(path_type=Path))
@click.option("--codes", type=click.Path(path_type=Path), help="Reference frames, .npy [frames, 16], for in-context cloning.")
@click.option("--transcript", help="What the reference frames say; needed with --codes.")
def import_(name: str, embedding: Path, codes: Path | None, transcript: str | None) -> None:
    """Make the voice NAME from an EMBEDDING (.npy, one vector)."""
    from kazeia.voices import Voice, checked_name, read_codes, read_embedding, save_voice

    if (codes is None) != (not (transcript or "").strip()):
        raise UsageError("in-context cloning needs both --codes and --transcript; give both, or neither")
    name = checked_name(name)
    values = read_embedding(embedding)
    reference = None if codes is None else read_codes(codes)
    path = save_voice(Voice(name, values, reference, transcript if codes is not None else None, source=embedding.name))
    click.echo(f"{name}: {values.size} numbers, {path}")


@command.command("list")
@click.option("--bundle", help="Also list this bundle's voices. [default: as kz speak]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def list_(bundle: str | None, as_json: bool) -> None:
    """List your voices, then the bundle's."""
    from kazeia.bundle_choice import open_bundle
    from kazeia.voices import list_voices

    own, bundled = list_voices(), list(open_bundle(bundle).manifest.voices)
    if as_json:
        print_json({"voices": own, "bundle_voices": bundled})
        return
    for name in own:
        click.echo(name)
    for name in bundled:
        click.echo(f"{name} (of the bundle)")


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the voice NAME."""
    from kazeia.voices import remove_voice

    remove_voice(name)
    click.echo(f"{name}: removed")
