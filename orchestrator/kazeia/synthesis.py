"""Speaking: one generating runner, one decoding runner, and the stream between them.

    text ─► prompt ─► runner (generate) ─► frames ─► runner (decode) ─► samples

Both runners are processes of their own: frames are decoded while later ones are generated.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Bundle
from kazeia.bundle_choice import open_bundle
from kazeia.defaults import CHUNK_GROWTH, FIRST_CHUNK_FRAMES, LARGEST_CHUNK_FRAMES
from kazeia.devices.base import Device
from kazeia.devices.choice import choose_device
from kazeia.devices.local import LocalDevice
from kazeia.errors import AudioError, DeviceError, RunnerError
from kazeia.generation import Generation, frame_limit
from kazeia.languages import load_identifier
from kazeia.prompt import Prompt, Request, TextMode, build_prompt
from kazeia.runner_client import RunnerClient
from kazeia.sampling import Overrides, SamplingOptions, check_seed, resolve_sampling
from kazeia.speech_decoder import SpeechDecoder
from kazeia.voices import Voice, default_voice, load_voice

if TYPE_CHECKING:
    from kazeia.phrase_tasks import Outcome
    from kazeia.phrases import Phrase

DecodeOn: TypeAlias = Literal["pc", "device"]

SEED_BITS = 48
"""Random seeds stay exact in JSON readers that hold numbers as doubles."""


@dataclass(frozen=True)
class Statistics:
    """How a piece of speech came about. Times are in milliseconds of this request."""

    frames: int
    audio_s: float
    stop_reason: str
    """`eos`; or cut off before the model ended it: `frame_cap`, `cancelled`."""
    seed: int
    rtf: float
    """Time from request to last sample, over seconds of sound."""
    load_ms: float
    """From starting both runners until they were ready; once a synthesizer, not once a request."""
    prefill_ms: float
    talker_ms_per_frame: float
    predictor_ms_per_frame: float
    decode_ms_per_frame: float
    first_audio_ms: float
    """From request to the first decoded chunk."""
    total_ms: float
    peak_rss_mb: float
    """Both runners' peaks together."""
    kv_copied_bytes: int
    """Keys and values moved outside of the programs, in all; of it, what one talker step adds."""
    kv_copied_bytes_per_step: float
    calls_per_frame: float
    npu_calls_per_frame: float
    npu_emulated: bool
    """Times then say nothing of a device."""
    device: str
    bundle: str


@dataclass(frozen=True)
class Speech:
    """A finished piece of speech."""

    samples: NDArray[np.float32]
    """`[n]`, in [-1, 1]."""
    sample_rate: int
    """Hz."""
    codes: NDArray[np.int16]
    """`[frames, 16]`"""
    text: str
    """What was spoken, after invisible characters were dropped."""
    statistics: Statistics
    warning: str | None = None


@dataclass(frozen=True)
class Options:
    """Everything a request may say beyond its text. None means the bundle's default."""

    voice: str | Voice | None = None
    """A voice's name, a `.npy` file's path, or a voice."""
    speaker: str | None = None
    instruct: str | None = None
    language: str = "auto"
    text_mode: TextMode | None = None
    seed: int | None = None
    """None: a fresh one, told in the statistics."""
    max_frames: int | None = None
    """None: a generous cap from the text's length."""
    sampling: Overrides = field(default_factory=Overrides)


class Synthesizer:
    """Holds warm runners for one bundle on one device. A context manager; one request at a time.

        with Synthesizer() as synthesizer:
            speech = synthesizer.speak("Bonjour.")

    Args:
        bundle: folder; None for `$KZ_BUNDLE`, the last one exported, or the built-in one.
        device: a device name (`local`, `adb`, ...); None for `$KZ_DEVICE`, the device of the last deploy, or local.
        threads: of each runner; None for the performance cores.
        decode_on: where codes become sound: here (`pc`), or on the `device` too.

    Raises:
        BundleError, DeviceError, RunnerError: nothing is left running.
    """

    def __init__(
        self,
        bundle: str | Path | None = None,
        device: str | None = None,
        threads: int | None = None,
        decode_on: DecodeOn = "pc",
    ) -> None:
        self.bundle: Bundle = open_bundle(bundle)
        self.device: Device = choose_device(device)
        self._threads = threads
        self._decoding_device = self.device if decode_on == "device" else LocalDevice()
        self._start()

    def _start(self) -> None:
        started = time.perf_counter()
        self._generator = RunnerClient(self.device, self.bundle.folder, "generate", self._threads)
        try:
            self._decoder_client = RunnerClient(self._decoding_device, self.bundle.folder, "decode", self._threads)
        except BaseException:
            self._generator.close()
            raise
        try:
            _ = self.bundle.tokenizer  # loads while the runners do
            if self.bundle.manifest.model.auto_language == "text":
                load_identifier(self.bundle.manifest.model.languages)
            ready = (self._generator.wait_ready(), self._decoder_client.wait_ready())
            self.npu_emulated = any(one.npu_emulated for one in ready)
        except BaseException:
            self.close()
            raise
        self._decoder = SpeechDecoder(self._decoder_client, self.bundle.manifest.model)
        self.load_ms = 1000 * (time.perf_counter() - started)

    def __enter__(self) -> Synthesizer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End both runners."""
        self._generator.close()
        self._decoder_client.close()

    def restart(self) -> None:
        """End both runners, whatever state they are in, and start new ones.

        Raises:
            DeviceError, RunnerError: as when it was made; nothing is left running, and it may be tried again.
        """
        self.close()
        self._start()

    def is_idle(self) -> bool:
        """Between two requests: are both runners there and silent? Whatever an idle runner says is its end."""
        return not (self._generator.answer_waiting() or self._decoder_client.answer_waiting())

    def stream(self, text: str, options: Options | None = None) -> Stream:
        """Start speaking; iterate over the result for chunks of samples.

        Raises:
            KazeiaError: whatever the text, the options or the bundle do not allow, before anything runs.
        """
        started = time.perf_counter()
        options = options or Options()
        seed = secrets.randbits(SEED_BITS) if options.seed is None else check_seed(options.seed)
        sampling = resolve_sampling(self.bundle.manifest.sampling, options.sampling)
        prompt = build_prompt(self.bundle, self._request(text, options))
        limit = frame_limit(self.bundle.manifest.model, prompt, options.max_frames)
        return self.run(prompt, sampling, seed, limit, started)

    def run(self, prompt: Prompt, sampling: SamplingOptions, seed: int, max_frames: int, started: float | None = None) -> Stream:
        """Start speaking a ready-made prompt; the one place where a generation begins."""
        started = time.perf_counter() if started is None else started
        generation = Generation(self._generator, self.bundle.manifest.model, prompt, sampling, seed, max_frames)
        return Stream(self, prompt, generation, self._decoder, seed, started)

    def speak(self, text: str, options: Options | None = None, progress: Callable[[int], None] | None = None) -> Speech:
        """Speak `text` and return the whole sound; `progress` is called with the number of frames so far.

        Raises:
            KazeiaError: see `stream`; and AudioError when the sound is silent throughout.
        """
        stream = self.stream(text, options)
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            if progress is not None:
                progress(len(stream.codes()))
        samples = np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
        if not samples.any():
            raise AudioError("the speech decoder gave nothing but silence; export the bundle again")
        return stream.result(samples)

    def batch(self, phrases: Iterable[str | Phrase], options: Options | None = None) -> Iterator[Outcome]:
        """Speak one phrase after the other; `options` hold for each that does not say otherwise.

        A phrase that fails is an outcome like any other, with a status and a message; a runner that dies is started again.
        A phrase without a seed has one derived from its id, or else its text: `kz batch` gives the same sound.

        Raises:
            DeviceError, RunnerError: the runners cannot be started again.
        """
        from kazeia.phrase_tasks import Preparer, speak_each
        from kazeia.phrases import Phrase

        preparer = Preparer(self.bundle, options)
        each = (Phrase(text=phrase) if isinstance(phrase, str) else phrase for phrase in phrases)
        return speak_each(self, map(preparer.task, each))

    def _request(self, text: str, options: Options) -> Request:
        voice = load_voice(options.voice, self.bundle) if isinstance(options.voice, str) else options.voice
        if voice is None and self.bundle.manifest.model.kind == "base":
            voice = default_voice(self.bundle)
        return Request(
            text=text,
            voice=voice,
            speaker=options.speaker,
            instruct=options.instruct,
            language=options.language,
            text_mode=options.text_mode,
        )


class Stream:
    """Speech on its way: iterate for float32 chunks `[n]`; closing it early cancels the generation."""

    def __init__(
        self, owner: Synthesizer, prompt: Prompt, generation: Generation, decoder: SpeechDecoder, seed: int, started: float
    ) -> None:
        self.prompt = prompt
        self._owner = owner
        self._generation = generation
        self._decoder = decoder
        self._seed = seed
        self._started = started
        self._first_audio = 0.0
        self._ended = 0.0
        self._frames: list[NDArray[np.int16]] = []
        self._stopped = False

    def stop(self) -> None:
        """End after the frame under way, with stop reason `cancelled`. Any thread may call it."""
        self._stopped = True

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield samples as soon as they are decoded."""
        try:
            self._decoder.start(self.prompt.reference_codes)
            for codes in self._chunks():
                samples = self._decoder.decode(codes)
                self._first_audio = self._first_audio or time.perf_counter()
                yield samples
            self._ended = time.perf_counter()
        except GeneratorExit:
            # A runner that is gone ends as it should; the next request says so.
            with contextlib.suppress(RunnerError, DeviceError):
                self._generation.cancel()
            raise

    def codes(self) -> NDArray[np.int16]:
        """Frames so far, `[frames, 16]`."""
        groups = self._owner.bundle.manifest.model.code_groups
        return np.stack(self._frames) if self._frames else np.zeros((0, groups), np.int16)

    def result(self, samples: NDArray[np.float32]) -> Speech:
        """The finished speech, once the stream has been read to its end."""
        rate = self._owner.bundle.manifest.model.sample_rate
        return Speech(samples, rate, self.codes(), self.prompt.text, self.statistics(), self.prompt.warning)

    def statistics(self) -> Statistics:
        """How it went; only after the stream has been read to its end."""
        done = self._generation.done
        assert done is not None, "read the stream to its end first"
        model = self._owner.bundle.manifest.model
        frames = max(done.frames, 1)
        audio_s = done.frames * model.samples_per_frame / model.sample_rate
        total_ms = 1000 * (self._ended - self._started)
        return Statistics(
            frames=done.frames,
            audio_s=audio_s,
            stop_reason=done.stop_reason,
            seed=self._seed,
            rtf=total_ms / 1000 / audio_s if audio_s else 0.0,
            load_ms=self._owner.load_ms,
            prefill_ms=done.prefill_ms,
            talker_ms_per_frame=done.talker_ms / frames,
            predictor_ms_per_frame=done.predictor_ms / frames,
            decode_ms_per_frame=self._decoder.decode_ms / frames,
            first_audio_ms=1000 * (self._first_audio - self._started),
            total_ms=total_ms,
            peak_rss_mb=(done.peak_rss_bytes + self._decoder.peak_rss_bytes) / 1e6,
            kv_copied_bytes=done.kv_copied_bytes,
            kv_copied_bytes_per_step=done.kv_copied_bytes_per_step,
            calls_per_frame=done.calls_per_frame,
            npu_calls_per_frame=done.npu_calls_per_frame,
            npu_emulated=self._owner.npu_emulated,
            device=self._owner.device.name,
            bundle=str(self._owner.bundle.folder),
        )

    def _chunks(self) -> Iterator[NDArray[np.int16]]:
        """Frames in growing groups."""
        size = FIRST_CHUNK_FRAMES
        pending: list[NDArray[np.int16]] = []
        for frame in self._generation:
            if self._stopped:
                self._generation.cancel()
                return
            self._frames.append(frame)
            pending.append(frame)
            if len(pending) >= size:
                yield np.stack(pending)
                pending = []
                size = min(size * CHUNK_GROWTH, LARGEST_CHUNK_FRAMES)
        if pending:
            yield np.stack(pending)
