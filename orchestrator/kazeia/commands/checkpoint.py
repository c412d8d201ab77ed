"""`kz checkpoint`: what a checkpoint is, and random ones for tests and benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kazeia.commands.output import print_json, say

if TYPE_CHECKING:
    from kazeia.checkpoint import Checkpoint
    from kazeia.checkpoint.description import Description
    from kazeia.checkpoint.presets import Size

SIZES = ("tiny", "tiny-1.7b", "0.6b", "1.7b")
KINDS = ("base", "custom-voice", "voice-design")


@click.group("checkpoint")
def command() -> None:
    """Look at a checkpoint, or make a random one."""


@command.command("info")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Hash all files and compare them with the official ones (reads gigabytes).")
@click.option("--json", "as_json", is_flag=True, help="Print a machine-readable result.")
def info(folder: Path, verify: bool, as_json: bool) -> None:
    """Show the checkpoint in FOLDER: a Hugging Face folder of Qwen3-TTS 12Hz."""
    import msgspec

    from kazeia.checkpoint import Checkpoint
    from kazeia.checkpoint.description import describe

    checkpoint = Checkpoint.open(folder)
    if verify:
        _verify(checkpoint)
    description = describe(checkpoint, verified=verify)
    if as_json:
        print_json(msgspec.to_builtins(description))
    else:
        click.echo(_summary(description))


@command.command("random")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--size", type=click.Choice(SIZES), default="tiny", show_default=True, help="0.6b and 1.7b are full-size.")
@click.option("--kind", type=click.Choice(KINDS), default="base", show_default=True, help="Which of the model's three kinds.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="The same seed gives the same bytes.")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Take the tokenizer of this checkpoint [default: a small one of 609 ids].",
)
def random(folder: Path, size: Size, kind: str, seed: int, tokenizer: Path | None) -> None:
    """Write a checkpoint with random weights to FOLDER: real files, names and shapes, but only noise to hear.

    tiny and tiny-1.7b take a few MB and keep every feature of the 0.6B and 1.7B models; 0.6b takes 2.5 GB, 1.7b 4.5 GB.
    """
    from kazeia.checkpoint.random_weights import KIND_OF_NAME, write_random_checkpoint

    write_random_checkpoint(folder, size=size, kind=KIND_OF_NAME[kind], seed=seed, tokenizer=tokenizer, progress=say)
    size_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    click.echo(f"{folder}: random {size} {kind} checkpoint, seed {seed}, {size_bytes / 1e6:,.1f} MB")


def _verify(checkpoint: Checkpoint) -> None:
    from kazeia.checkpoint.official import recognise, verify
    from kazeia.errors import CheckpointError

    official = recognise(checkpoint.path)
    if official is None:
        raise CheckpointError(f"{checkpoint.path} is none of the five official checkpoints: nothing to verify it against")
    for name in verify(checkpoint.path, official):
        say(f"hashing {name}")


def _summary(info: Description) -> str:
    if info.official:
        origin = f"{info.official}, {'SHA-256 of every file verified' if info.verified else 'by config and size'}"
    elif info.random_seed is not None:
        origin = f"random weights, seed {info.random_seed}: it babbles"
    else:
        origin = "not one of the official ones"
    speakers = f"\n  speakers   {', '.join(info.speakers)}" if info.speakers else ""
    dialects = f"; dialects {', '.join(info.dialects)}" if info.dialects else ""
    return (
        f"{info.path}\n"
        f"  origin     {origin}\n"
        f"  model      {info.kind}, {info.size}, {info.layers} layers, {info.hidden_size} wide, "
        f"{info.codebooks} codebooks of {info.codebook_size}\n"
        f"  weights    {info.parameters:,} parameters, {info.dtype}\n"
        f"  languages  {', '.join(info.languages)}{dialects}{speakers}\n"
        f"  tokenizer  {info.tokenizer_ids:,} ids, {info.tokenizer_markers} of them control markers\n"
        f"  codec      {info.codec_parameters:,} parameters, {info.codec_dtype}, {info.sample_rate} Hz, "
        f"{info.frame_ms:g} ms a frame"
    )
