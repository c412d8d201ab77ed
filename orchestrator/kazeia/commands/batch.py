"""`kz batch`: a list of phrases, a folder of WAV files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kazeia.commands.output import print_json, say, status_line
from kazeia.commands.speak import command as speak_command
from kazeia.errors import PhrasesFailed, UsageError

if TYPE_CHECKING:
    from kazeia.batch_tally import Progress, Summary
    from kazeia.bundle import Bundle
    from kazeia.phrase_tasks import Preparer
    from kazeia.phrases import Survey
    from kazeia.synthesis import Options

AS_SPEAK = (
    "bundle", "decode_on", "voice", "speaker", "instruct", "language", "text_mode", "greedy", "temperature", "top_k", "top_p",
    "repetition_penalty", "predictor_temperature", "predictor_top_k", "predictor_top_p", "max_frames", "threads",
)  # fmt: skip
"""Options that are those of `kz speak`, for every phrase whose line does not say otherwise."""


@click.command("batch")
@click.argument("phrases", metavar="LIST", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), required=True, help="Folder of the results.")
@click.option("--format", "format_", type=click.Choice(["plain", "tsv", "csv", "jsonl"]), help="[default: from LIST's name]")
@click.option("--devices", help="Devices as speak's --device, with commas between. [default: $KZ_DEVICE, last deploy, or local]")
@click.option("--dask", metavar="ADDRESS", help="Speak on the workers of a Dask cluster: its scheduler's address.")
@click.option("--seed", type=int, help="Of every phrase without one. [default: derived from its id or text]")
@click.option("--retries", type=click.IntRange(0, 10), default=2, show_default=True, help="Further seeds after a frame cap.")
@click.option("--report", type=click.Path(path_type=Path), help="Also write an HTML page with players, waveforms and failures.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(phrases: Path, folder: Path, format_: Any, report: Path | None, as_json: bool, **options: Any) -> None:
    """Speak every phrase of LIST (or standard input, with -) into a WAV file of its own.

    LIST is UTF-8. A plain list has one phrase a line, and nothing in it is special: no quotes, no escapes, no comments. In
    .tsv, .csv and .jsonl lists, columns say more: text (required), id, voice, speaker, instruct, language, text_mode, seed and
    max_frames. The first line of TSV and CSV names them; quotes mean nothing in TSV. Blank lines are skipped.

    Files are named after the phrase's number and its id or text: 000001-bonjour.wav. The folder's index.jsonl has a line for
    each: status, seed, timings, and hashes of inputs and file. Run the command again to go on after an interruption, a failure
    or a change of the list: only what is there, right and made from the same inputs is skipped.

    A phrase without a seed has one that depends on nothing but its id or, without one, its text; if the model does not end it,
    further seeds are tried. A phrase with a seed keeps it. Status 13: some phrases have no sound.
    """
    from kazeia.batch import speak_list
    from kazeia.batch_index import Index
    from kazeia.files import check_writable
    from kazeia.phrases import PhraseList

    with PhraseList(phrases, format_) as opened:
        survey = opened.survey()
        _tell(survey)
        bundle, preparer, speaking = _prepare(options, survey)
        with Index(folder) as index:
            if report is not None:  # perhaps in the folder just made
                check_writable(report)
            with status_line() as line:
                summary = speak_list(opened, survey, index, preparer, speaking, lambda now: line.show(_progress(now)))
            if report is not None:
                from kazeia.batch_report import write_report

                write_report(report, index, summary, bundle)
    _report(folder, report, summary, as_json)


command.params.extend(param for param in speak_command.params if param.name in AS_SPEAK)


def _prepare(options: dict[str, Any], survey: Survey) -> tuple[Bundle, Preparer, Any]:
    """The bundle, what makes tasks, and what speaks them; whatever is wrong for every phrase is refused here."""
    from kazeia.bundle_choice import open_bundle
    from kazeia.phrase_tasks import Preparer, check_options

    if options["dask"] is not None and options["devices"] is not None:
        raise UsageError("--devices does not go with --dask: each worker uses its own machine's device; set $KZ_DEVICE there")
    bundle = open_bundle(options["bundle"])
    if notice := bundle.manifest.builtin:
        say(notice)
    request = check_options(bundle, _options(options), alone=not survey.names_voices)
    preparer = Preparer(bundle, request, options["retries"])
    if options["dask"] is not None:
        from kazeia.dask_batch import Cluster

        # The workers have folders of their own.
        folder = None if options["bundle"] is None else str(bundle.folder)
        cluster = Cluster(options["dask"], folder, preparer.manifest_sha256, options["threads"], options["decode_on"])
        return bundle, preparer, cluster.speak
    return bundle, preparer, lambda tasks: _speak_here(tasks, options)


def _speak_here(tasks: Any, options: dict[str, Any]) -> Any:
    from functools import partial

    from kazeia.batch_devices import open_synthesizers, speak_on_devices
    from kazeia.synthesis import Synthesizer

    names = [name.strip() for name in options["devices"].split(",")] if options["devices"] else [None]
    openers = [partial(Synthesizer, options["bundle"], name, options["threads"], options["decode_on"]) for name in names]
    return speak_on_devices(open_synthesizers(openers), tasks, say)


def _options(options: dict[str, Any]) -> Options:
    from kazeia.sampling import Overrides
    from kazeia.synthesis import Options

    names = ("voice", "speaker", "instruct", "language", "text_mode", "seed", "max_frames")
    sampling = Overrides(**{field.name: options[field.name] for field in dataclasses.fields(Overrides)})
    return Options(**{name: options[name] for name in names}, sampling=sampling)


def _tell(survey: Survey) -> None:
    notes = []
    if survey.blank_lines:
        notes.append(f"blank lines skipped: {survey.blank_lines}")
    if survey.twin_ids:
        notes.append(f"ids that came before: {survey.twin_ids} (first: {survey.first_twin!r}); numbers keep their files apart")
    if notes:
        say(f"{survey.phrases} phrases; {'; '.join(notes)}")


def _progress(now: Progress) -> str:
    failed = f", {now.failed} failed" if now.failed else ""
    left = "" if now.left_s is None else f", {_clock(now.left_s)} left"
    return f"{now.done}/{now.phrases} phrases, {now.audio_s:.1f} s of sound, RTF {now.rtf:.2f}{failed}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _report(folder: Path, report: Path | None, summary: Summary, as_json: bool) -> None:
    if as_json:
        shown = {"folder": str(folder), "index": str(folder / "index.jsonl"), "report": None if report is None else str(report)}
        print_json({**shown, **dataclasses.asdict(summary)})
    else:
        click.echo(
            f"{folder}: {summary.ok} of {summary.phrases} phrases spoken, {summary.done_before} were there, "
            f"{summary.without_sound} failed; {summary.audio_s:.1f} s of sound, RTF {summary.rtf:.2f} "
            f"(first phrases {summary.rtf_first:.2f}, last {summary.rtf_last:.2f})"
        )
    if summary.leftover_results:
        say(f"{folder} also has {summary.leftover_results} results of lines that the list no longer has")
    if summary.without_sound:
        raise PhrasesFailed(
            f"{summary.without_sound} of {summary.phrases} phrases have no sound "
            f"({summary.frame_cap} hit the frame cap, {summary.nothing_to_say} had nothing to say, {summary.failed} failed); "
            f"{folder / 'index.jsonl'} says why; run the command again to retry them"
        )
