"""`kz decode`: codebook IDs to sound, without talker or predictor."""

from __future__ import annotations

from pathlib import Path

import click

from kazeia.commands.output import frame_progress, print_json, say
from kazeia.errors import UsageError


@click.command("decode")
@click.argument("codes", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="WAV file.")
@click.option("--bundle", help="Bundle folder. [default: $KZ_BUNDLE, the last one exported, or the built-in one]")
@click.option("--threads", type=click.IntRange(1, 256), help="CPU threads. [default: the performance cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(codes: Path, output: Path, bundle: str | None, threads: int | None, as_json: bool) -> None:
    """Turn CODES (.npy, whole numbers [frames, 16], as --codes-out writes) into a WAV file."""
    from kazeia.audio import write_wav
    from kazeia.bundle_choice import open_bundle
    from kazeia.decoding import decode_all
    from kazeia.files import check_writable
    from kazeia.voices import read_codes

    check_writable(output)
    opened = open_bundle(bundle)
    model = opened.manifest.model
    values = read_codes(codes)
    if values.shape[1] != model.code_groups or values.max() >= model.codebook_size:
        raise UsageError(
            f"{codes} holds {list(values.shape)} codes up to {values.max()}; {model.name} takes [frames, {model.code_groups}] "
            f"below {model.codebook_size}"
        )
    with frame_progress(model) as progress:
        samples, decode_ms = decode_all(opened, values, threads, progress)
    clamped = write_wav(output, samples, model.sample_rate)
    if clamped:
        say(f"{clamped} samples were louder than full scale and were clamped")
    frames, audio_s = len(values), len(samples) / model.sample_rate
    if as_json:
        print_json({"output": str(output), "frames": frames, "audio_s": audio_s, "decode_ms_per_frame": decode_ms / frames})
    else:
        click.echo(f"{output}: {audio_s:.2f} s, {frames} frames, {decode_ms / frames:.1f} ms a frame")
