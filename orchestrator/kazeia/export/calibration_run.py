"""Calibrating: the fp32 models speak phrases, sampled as always, and what each of them saw is recorded.

The talker's inputs follow from prompt and codes; its hidden states come from one pass over the whole sequence.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kazeia import __version__
from kazeia.bundle import Bundle
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.identity import checkpoint_sha256
from kazeia.devices.local import LocalDevice
from kazeia.errors import BundleError, ExportError, UsageError, VoiceError
from kazeia.export.calibration import (
    FORMAT,
    FP32_BUNDLE,
    INDEX_NAME,
    SUFFIX,
    Codes,
    Floats,
    Index,
    Recorded,
    Recording,
    Settings,
    check_recording,
    read_index,
    write_index,
)
from kazeia.export.options import ExportOptions
from kazeia.export.progress import Progress, silent
from kazeia.files import sha256, write_atomically
from kazeia.generation import Generation, frame_limit
from kazeia.phrase_tasks import derived_seed
from kazeia.phrases import Phrase, PhraseList
from kazeia.prompt import Prompt, Request, build_prompt, frame_embeddings
from kazeia.runner_client import RunnerClient
from kazeia.sampling import Overrides, resolve_sampling
from kazeia.voices import list_voices, load_voice

if TYPE_CHECKING:
    from kazeia.export.talker_states import TalkerStates

PHRASES = Path(__file__).parents[1] / "data" / "calibration_phrases.tsv"
"""Five in each of the model's ten languages: a question, an exclamation, numbers, hard sounds, and a quiet sentence."""

DESIGNS = ("A calm elderly man with a deep voice.", "An excited young girl who speaks fast.", "A tired woman, almost whispering.")
"""Voices that a voice design model is asked for, one after the other, by phrases that describe none."""

Told = Callable[[int, int, int], None]
"""Called after each frame with the phrases done, the phrases there are, and the frames of the phrase under way."""


@dataclass(frozen=True)
class Calibrated:
    """A finished run."""

    folder: Path
    index: Index
    recorded_now: int
    elapsed_s: float


@dataclass(frozen=True)
class Task:
    """A phrase with all that its recording depends on."""

    phrase: Phrase
    request: Request
    voice: str
    """Name of voice or speaker, or the description."""
    seed: int

    def key(self) -> bytes:
        """Equal for equal recordings."""
        embedding = b"" if self.request.voice is None else self.request.voice.embedding.tobytes()
        named = (self.request.text, self.request.language, self.request.text_mode, self.request.speaker, self.request.instruct)
        return msgspec.json.encode([*named, self.seed, self.phrase.max_frames, hashlib.sha256(embedding).hexdigest()])


def calibrate(
    checkpoint_path: Path,
    folder: Path,
    phrases: Path | None = None,
    voices: Sequence[str] = (),
    max_frames: int | None = None,
    stage: Progress = silent,
    told: Told = lambda done, phrases, frames: None,
) -> Calibrated:
    """Record `phrases` (None: Kazeia's own) into `folder`; a run that was interrupted goes on where it stopped.

    Args:
        voices: names for a Base model (none: all of yours that fit), speakers for a CustomVoice model (none: all).
        max_frames: of a phrase; None for a generous cap from its length.

    Raises:
        UsageError: a wrong phrase or option, a folder of something else or in use, or PyTorch is missing.
        VoiceError: a voice that is unknown or does not fit, or a Base model and no voice.
        CheckpointError: the checkpoint is missing, broken or foreign.
        ExportError: the folder is of another checkpoint or other phrases, or the models gave values that are not numbers.
        RunnerError: the runner is missing or failed.
    """
    started = time.monotonic()
    if max_frames is not None and max_frames < 1:
        raise UsageError(f"--max-frames must be at least 1, not {max_frames}")
    checkpoint = Checkpoint.open(checkpoint_path)
    with PhraseList(phrases or PHRASES) as opened:
        opened.survey()
        listed = list(opened)
    with _locked(folder):
        with stage("hash checkpoint"):
            identity = checkpoint_sha256(checkpoint)
        _check_folder(folder, checkpoint, identity)
        bundle = _fp32_bundle(checkpoint, folder / FP32_BUNDLE, stage)
        tasks = _tasks(bundle, listed, voices)
        digest = hashlib.sha256(b"\n".join(task.key() for task in tasks)).hexdigest()
        index = _index(folder, checkpoint, identity, Settings(digest, max_frames), len(tasks))
        before = len(index.recorded)
        if before < len(tasks):
            _record(checkpoint, bundle, folder, index, tasks, stage, told)
    return Calibrated(folder, index, len(tasks) - before, time.monotonic() - started)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder, made if need be, and ours alone until this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"cannot write in {folder}: {error.strerror}; choose another folder with -o") from None
    try:
        if foreign and INDEX_NAME not in foreign and FP32_BUNDLE not in foreign:
            raise UsageError(f"{folder} holds {min(foreign)!r}, which is no part of a calibration; choose another -o")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"another kz calibrate is writing into {folder}; let it end, or choose another -o") from None
    finally:
        os.close(handle)


def _check_folder(folder: Path, checkpoint: Checkpoint, identity: str) -> None:
    index = read_index(folder)
    if index is not None and index.checkpoint_sha256 != identity:
        raise ExportError(f"{folder} has the calibration of another checkpoint ({index.checkpoint}); choose another -o")
    # What a killed export leaves.
    for path in folder.glob(f".{FP32_BUNDLE}.*"):
        shutil.rmtree(path, ignore_errors=True)
    if index is None:
        # Made before the bundle, so that the bundle cannot be taken for another checkpoint's.
        shutil.rmtree(folder / FP32_BUNDLE, ignore_errors=True)
        write_index(folder, Index(FORMAT, __version__, checkpoint.name, identity, Settings("", None), 0, []))


def _fp32_bundle(checkpoint: Checkpoint, folder: Path, stage: Progress) -> Bundle:
    from kazeia.export.service import export_bundle

    try:
        return Bundle.open(folder)
    except BundleError:
        shutil.rmtree(folder, ignore_errors=True)
    export_bundle(checkpoint.path, folder, ExportOptions(quant="fp32"), stage)
    return Bundle.open(folder)


def _index(folder: Path, checkpoint: Checkpoint, identity: str, settings: Settings, phrases: int) -> Index:
    """The index to go on with: without recordings whose files are gone or changed."""
    index = read_index(folder)
    if index is None or not index.phrases:
        index = Index(FORMAT, __version__, checkpoint.name, identity, settings, phrases, [])
    elif index.settings != settings:
        raise ExportError(
            f"{folder} was begun with other phrases, voices or --max-frames; give the same ones to go on, or choose another -o"
        )
    whole = []
    for one in index.recorded:
        with contextlib.suppress(ExportError):
            check_recording(folder, one, "")
            whole.append(one)
    index.recorded = whole
    write_index(folder, index)
    return index


def _tasks(bundle: Bundle, phrases: list[Phrase], voices: Sequence[str]) -> list[Task]:
    """Voices take turns; a phrase that names its own keeps it. Prompts are built once here, so that errors come early."""
    kind = bundle.manifest.model.kind
    named = _turns(bundle, voices)
    tasks = []
    for number, phrase in enumerate(phrases):
        own = {"base": phrase.voice, "custom_voice": phrase.speaker, "voice_design": phrase.instruct}[kind]
        name = own or named[number % len(named)]
        request = Request(
            text=phrase.text,
            voice=load_voice(name, bundle) if kind == "base" else None,
            speaker=name if kind == "custom_voice" else phrase.speaker,
            instruct=name if kind == "voice_design" else phrase.instruct,
            language=phrase.language or "auto",
            text_mode=phrase.text_mode,
        )
        build_prompt(bundle, request)
        seed = derived_seed(phrase) if phrase.seed is None else phrase.seed
        tasks.append(Task(phrase, request, name, seed))
    return tasks


def _turns(bundle: Bundle, voices: Sequence[str]) -> list[str]:
    """What takes turns: voices, built-in speakers, or descriptions of voices."""
    model = bundle.manifest.model
    if model.kind == "base":
        return _base_voices(bundle, voices)
    if model.kind == "custom_voice":
        return list(voices) or sorted(model.speakers)
    if voices:
        raise VoiceError(f"{model.name} has no voices, it is told what to sound like; leave --voice out")
    return list(DESIGNS)


def _base_voices(bundle: Bundle, voices: Sequence[str]) -> list[str]:
    if voices:
        return list(voices)
    width = bundle.manifest.model.speaker_embedding_size
    fitting = [name for name in list_voices() if load_voice(name, bundle).embedding.size == width]
    if not fitting:
        raise VoiceError(
            f"{bundle.manifest.model.name} needs a voice to calibrate with; make some with kz voice add NAME RECORDING "
            f"--bundle {bundle.folder} and run this again, or give --voice"
        )
    return fitting


def _record(
    checkpoint: Checkpoint, bundle: Bundle, folder: Path, index: Index, tasks: list[Task], stage: Progress, told: Told
) -> None:
    """Record every task that the index lacks."""
    states = _talker_states(checkpoint, bundle, stage)
    done = {one.file for one in index.recorded}
    with RunnerClient(LocalDevice(), bundle.folder, "generate") as client:
        client.wait_ready()
        for number, task in enumerate(tasks, 1):
            name = f"{number:04d}{SUFFIX}"
            if name in done:
                continue

            def heard(frames: int) -> None:
                told(len(index.recorded), len(tasks), frames)

            recording, stop_reason = _speak(client, bundle, task, index.settings.max_frames, states, heard)
            if field := recording.not_finite():
                raise ExportError(
                    f"the fp32 models gave values that are not numbers in {field} of phrase {number} ({task.phrase.text!r}); "
                    "check the checkpoint with kz checkpoint info --verify"
                )
            write_atomically(folder / name, recording.encoded())
            index.recorded.append(_recorded(folder / name, task, recording, stop_reason))
            index.recorded.sort(key=lambda one: one.file)
            write_index(folder, index)


def _talker_states(checkpoint: Checkpoint, bundle: Bundle, stage: Progress) -> TalkerStates:
    try:
        from kazeia.export.talker_states import TalkerStates
    except ImportError:
        raise UsageError("calibrating needs PyTorch, which is not installed; run pip install 'kazeia[export]'") from None
    with stage("talker: read"):
        return TalkerStates(checkpoint, bundle.manifest.model.context_length)


def _speak(
    client: RunnerClient,
    bundle: Bundle,
    task: Task,
    max_frames: int | None,
    states: TalkerStates,
    heard: Callable[[int], None],
) -> tuple[Recording, str]:
    prompt = build_prompt(bundle, task.request)
    sampling = resolve_sampling(bundle.manifest.sampling, Overrides())
    limit = frame_limit(bundle.manifest.model, prompt, task.phrase.max_frames or max_frames)
    generation = Generation(client, bundle.manifest.model, prompt, sampling, task.seed, limit)
    frames: list[Codes] = []
    for frame in generation:
        frames.append(frame)
        heard(len(frames))
    assert generation.done is not None
    codes = np.array(frames, np.int16).reshape(len(frames), bundle.manifest.model.code_groups)
    embeds = np.concatenate([prompt.embeddings, _frame_rows(bundle, prompt, codes)])
    tokens = len(prompt.embeddings)
    hidden = states.hidden(embeds)[tokens - 1 : tokens - 1 + len(codes)]
    return Recording(embeds, tokens, hidden, codes, prompt.trailing, prompt.pad), generation.done.stop_reason


def _frame_rows(bundle: Bundle, prompt: Prompt, codes: Codes) -> Floats:
    """What each frame becomes as the talker's next input, `[F, D]`: its codes' embeddings and the next text's."""
    texts = prompt.trailing[: len(codes)]
    rows = frame_embeddings(bundle, codes)
    rows[: len(texts)] += texts
    rows[len(texts) :] += prompt.pad
    return rows


def _recorded(path: Path, task: Task, recording: Recording, stop_reason: str) -> Recorded:
    return Recorded(
        file=path.name,
        sha256=sha256(path),
        text=task.phrase.text,
        language=task.request.language,
        voice=task.voice,
        seed=task.seed,
        prompt_tokens=recording.prompt_tokens,
        frames=len(recording.codes),
        stop_reason=stop_reason,
    )
