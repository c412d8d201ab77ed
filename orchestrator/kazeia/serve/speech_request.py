"""The body of `POST /v1/audio/speech`: OpenAI's fields and a few of Kazeia's; everything else is refused by name."""

from __future__ import annotations

import re
import secrets
import unicodedata
from typing import Annotated, Literal, TypeAlias

import msgspec

from kazeia.bundle import Bundle
from kazeia.errors import KazeiaError, UsageError
from kazeia.languages import AUTO, resolve_language
from kazeia.sampling import Overrides, check_seed, resolve_sampling
from kazeia.serve.api_error import ApiError, speaking_error
from kazeia.serve.limits import MAX_INPUT_CHARACTERS
from kazeia.synthesis import SEED_BITS, Options
from kazeia.text import effective_text
from kazeia.voices import list_voices

AudioFormat: TypeAlias = Literal["wav", "pcm", "flac"]

MODEL_NAME = "kazeia"
"""Always the model being served, whatever the bundle calls it."""

DESIGNED_VOICE = "designed"
"""The one voice of a VoiceDesign model: `instructions` describe it."""

UNKNOWN_FIELD = re.compile(r"unknown field `(.*)`")
MISSING_FIELD = re.compile(r"missing required field `(.*)`")
FIELD_PATH = re.compile(r"at `\$\.?(.*)`$")


class SpeechRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """As sent; defaults are the service's."""

    model: str
    input: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_INPUT_CHARACTERS)]
    voice: Annotated[str, msgspec.Meta(min_length=1)]
    instructions: str | None = None
    response_format: AudioFormat = "wav"
    speed: float = 1.0
    """Only 1: the models have no speed."""
    stream_format: Literal["audio"] = "audio"
    stream: bool = True
    """Kazeia's: false waits for the whole sound, and then says its length and how it ended."""
    language: str = AUTO
    """Kazeia's, as are all that follow; see `kz speak --help`."""
    seed: int | None = None
    max_frames: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None


def parse_request(body: bytes, bundle: Bundle) -> SpeechRequest:
    """Decode and check a body, as far as that goes without speaking. The seed is set afterwards.

    Raises:
        ApiError: 400 or, for an unknown model, 404; names the field.
    """
    request = _decode(body)
    if request.model not in model_names(bundle):
        known = ", ".join(model_names(bundle))
        raise ApiError(404, "model_not_found", f"unknown model {request.model!r}; this service has {known}", "model")
    if request.speed != 1:
        raise ApiError(400, "invalid_value", f"speed must be 1, not {request.speed:g}: the model has no other", "speed")
    request.voice = unicodedata.normalize("NFC", request.voice)
    if request.voice not in (names := voice_names(bundle)):
        known = ", ".join(names) or "none yet; make one with kz voice add NAME RECORDING"
        raise ApiError(400, "unknown_voice", f"unknown voice {request.voice!r}; this service has {known}", "voice")
    try:
        resolve_language(request.language, bundle.manifest.model.languages)
    except UsageError as error:
        raise ApiError(400, "unknown_language", str(error), "language") from None
    if request.seed is None:
        request.seed = secrets.randbits(SEED_BITS)
    try:
        effective_text(request.input)
        check_seed(request.seed)
        resolve_sampling(bundle.manifest.sampling, speak_options(request, bundle).sampling)
    except KazeiaError as error:
        raise speaking_error(error) from None
    return request


def speak_options(request: SpeechRequest, bundle: Bundle) -> Options:
    """What the synthesizer is asked for."""
    kind = bundle.manifest.model.kind
    return Options(
        voice=request.voice if kind == "base" else None,
        speaker=request.voice if kind == "custom_voice" else None,
        instruct=request.instructions or None,
        language=request.language,
        seed=request.seed,
        max_frames=request.max_frames,
        sampling=Overrides(
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            repetition_penalty=request.repetition_penalty,
        ),
    )


def model_names(bundle: Bundle) -> list[str]:
    return [MODEL_NAME, bundle.manifest.model.name]


def voice_names(bundle: Bundle) -> list[str]:
    """Voices a request may name, the default first. Read from disk each time: voices come and go while the service runs."""
    model = bundle.manifest.model
    if model.kind == "custom_voice":
        return sorted(model.speakers)
    if model.kind == "voice_design":
        return [DESIGNED_VOICE]
    own = (unicodedata.normalize("NFC", name) for name in list_voices())
    return list(dict.fromkeys([*bundle.manifest.voices, *own]))


def _decode(body: bytes) -> SpeechRequest:
    try:
        return msgspec.json.decode(body, type=SpeechRequest)
    except msgspec.ValidationError as error:
        message = str(error)
        found = UNKNOWN_FIELD.search(message) or MISSING_FIELD.search(message) or FIELD_PATH.search(message)
        raise ApiError(400, "invalid_request", f"the request is not valid: {message}", found[1] if found else None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "invalid_json", f"the body is not JSON ({error}); send one object in UTF-8") from None
