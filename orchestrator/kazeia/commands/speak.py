"""`kz speak`: one text, one WAV file."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import print_json, say
from kazeia.errors import FrameCapReached, UsageError

if TYPE_CHECKING:
    from kazeia.sampling import Overrides
    from kazeia.synthesis import Options, Speech


@click.command("speak")
@click.argument("text")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("speech.wav"), show_default=True, help="WAV file.")
@click.option("--bundle", help="Bundle folder. [default: $KZ_BUNDLE, the last one exported, or the built-in one]")
@click.option("--device", help="local, adb, adb:SERIAL or ssh:USER@HOST[:PORT]. [default: $KZ_DEVICE, last deploy, or local]")
@click.option("--decode-on", type=click.Choice(["pc", "device"]), default="pc", show_default=True, help="What decodes the codes.")
@click.option("--voice", help="A voice's name, or a .npy file with a speaker embedding (Base models).")
@click.option("--speaker", help="A built-in speaker (CustomVoice models).")
@click.option("--instruct", help="How to speak, or what voice to design (1.7B CustomVoice and VoiceDesign models).")
@click.option("--language", default="auto", show_default=True, help="Name or ISO code, such as French or fr.")
@click.option("--text-mode", type=click.Choice(["streaming", "full"]), help="Text frame by frame, or all before the first frame.")
@click.option("--seed", type=int, help="Same seed, same sound. [default: a fresh one, which is printed]")
@click.option("--greedy", is_flag=True, help="Always the likeliest code.")
@click.option("--temperature", type=float, help="Talker: 0 is greedy, 0.9 as trained; higher is livelier.")
@click.option("--top-k", type=int, help="Talker: keep the k likeliest codes; 0 keeps all.")
@click.option("--top-p", type=float, help="Talker: keep the likeliest codes up to this probability; 1 keeps all.")
@click.option("--repetition-penalty", type=float, help="Talker: above 1 makes codes already used less likely.")
@click.option("--predictor-temperature", type=float, help="Code predictor: as --temperature.")
@click.option("--predictor-top-k", type=int, help="Code predictor: as --top-k.")
@click.option("--predictor-top-p", type=float, help="Code predictor: as --top-p.")
@click.option("--max-frames", type=int, help="Stop after so many frames of 80 ms. [default: generous, from the text's length]")
@click.option("--threads", type=click.IntRange(1, 256), help="CPU threads of each runner. [default: the performance cores]")
@click.option("--codes-out", type=click.Path(path_type=Path), help="Also write the codebook IDs: .npy, int16 [frames, 16].")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(text: str, output: Path, codes_out: Path | None, as_json: bool, **options: Any) -> None:
    """Speak TEXT (or standard input, with -) into a WAV file."""
    from kazeia.audio import write_wav
    from kazeia.files import check_writable

    check_writable(output)
    if codes_out is not None:
        check_writable(codes_out)
    speech = _speak(_read_text(text), options)
    clamped = write_wav(output, speech.samples, speech.sample_rate)
    if clamped:
        say(f"{clamped} samples were louder than full scale and were clamped")
    if codes_out is not None:
        _write_codes(codes_out, speech)
    _report(output, speech, as_json)
    if speech.statistics.stop_reason != "eos":
        raise FrameCapReached(
            f"{output} is cut off: the model had not ended after {speech.statistics.frames} frames; "
            "try another --seed, or raise --max-frames"
        )


def _speak(text: str, options: dict[str, Any]) -> Speech:
    from kazeia.commands.output import frame_progress
    from kazeia.synthesis import Synthesizer

    request = _options(options)
    if request.sampling.temperature == 0 or request.sampling.predictor_temperature == 0:
        say("temperature 0 means greedy: always the likeliest code")
    with Synthesizer(options["bundle"], options["device"], options["threads"], options["decode_on"]) as synthesizer:
        if notice := synthesizer.bundle.manifest.builtin:
            say(notice)
        with frame_progress(synthesizer.bundle.manifest.model) as progress:
            speech = synthesizer.speak(text, request, progress)
    if speech.warning:
        say(speech.warning)
    return speech


def _options(options: dict[str, Any]) -> Options:
    from kazeia.synthesis import Options

    names = ("voice", "speaker", "instruct", "language", "text_mode", "seed", "max_frames")
    return Options(**{name: options[name] for name in names}, sampling=_overrides(options))


def _overrides(options: dict[str, Any]) -> Overrides:
    from kazeia.sampling import Overrides

    return Overrides(**{field.name: options[field.name] for field in dataclasses.fields(Overrides)})


def _read_text(text: str) -> str:
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 (byte {error.start}); convert it with iconv -t UTF-8") from None


def _write_codes(path: Path, speech: Speech) -> None:
    import numpy as np

    from kazeia.files import atomic_write

    with atomic_write(path) as file:
        np.save(file, speech.codes)


def _report(output: Path, speech: Speech, as_json: bool) -> None:
    statistics = speech.statistics
    if as_json:
        print_json({"output": str(output), "text": speech.text, **dataclasses.asdict(statistics)})
    else:
        emulated = ", NPU emulated on this machine" if statistics.npu_emulated else ""
        click.echo(
            f"{output}: {statistics.audio_s:.2f} s, {statistics.frames} frames, RTF {statistics.rtf:.2f}, "
            f"seed {statistics.seed}{emulated}"
        )
