"""From text and voice to the embeddings the talker reads.

Mirrors `Qwen3TTSForConditionalGeneration.generate` of qwen-tts 0.1.1, prompt shape for prompt shape:

    instruct (optional)    the instruct turn, text only
    role                   <|im_start|> assistant \\n, text only
    codec tags             [think think_bos LANGUAGE think_eos | nothink think_bos think_eos] [speaker] pad,
                           each on a tts_pad, the last on tts_bos
    then, x-vector, built-in or designed voice:
      streaming            first text token on codec_bos; the rest trails, one a frame
      full                 all text and tts_eos on codec_pad, then tts_pad on codec_bos
    or, in-context voice (ICL), T = reference text + text + tts_eos, R = codec_bos + reference frames:
      streaming            T and R added position by position; the longer one's rest trails or is padded
      full                 T on codec_pad, then R on tts_pad
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Bundle, Speaker
from kazeia.errors import UsageError, VoiceError
from kazeia.languages import AUTO, language_of, resolve_language
from kazeia.text import effective_text

if TYPE_CHECKING:
    from kazeia.voices import Voice

TextMode: TypeAlias = Literal["streaming", "full"]
Floats: TypeAlias = NDArray[np.float32]

ROLE_TOKENS = 3
"""`<|im_start|>`, `assistant`, newline."""
ASSISTANT_TAIL_TOKENS = 5
"""`<|im_end|>`, newline, and the role again."""
REFERENCE_TAIL_TOKENS = 2
"""`<|im_end|>`, newline."""


@dataclass(frozen=True)
class Request:
    """What a person asks to be spoken."""

    text: str
    voice: Voice | None = None
    """A speaker embedding, with reference frames and transcript for ICL; base models only."""
    speaker: str | None = None
    """A built-in speaker; custom-voice models only."""
    instruct: str | None = None
    language: str = AUTO
    text_mode: TextMode | None = None
    """None: the reference's default, streaming for base models and full for the others."""


@dataclass(frozen=True)
class Prompt:
    """What the runner gets, float32."""

    text: str
    """The text as it was tokenised."""
    embeddings: Floats
    """`[T, hidden]`"""
    trailing: Floats
    """`[N, hidden]`: text embeddings added to the following frames."""
    pad: Floats
    """`[hidden]`: added once the trailing text is used up."""
    reference_codes: NDArray[np.int16]
    """`[R, 16]`: frames the speech decoder hears first, unheard by the user; empty unless ICL."""
    warning: str | None = None
    """What was asked for and could not be heeded."""


def build_prompt(bundle: Bundle, request: Request) -> Prompt:
    """Build the prompt of one request.

    Raises:
        NothingToSay: the text has no letter or digit.
        UsageError: unknown language or speaker, or an option this kind of model does not have.
        VoiceError: the voice does not fit the model.
    """
    text = effective_text(request.text)
    builder = _Builder(bundle)
    _check_kind(bundle, request)
    instruct, warning = _heeded_instruct(bundle, request)
    mode = request.text_mode or ("streaming" if bundle.manifest.model.kind == "base" else "full")
    ids = bundle.tokenizer.encode_assistant(text)
    tags = builder.codec_tags(request)
    parts = [builder.role(ids), builder.tagged(tags)]
    if instruct:
        parts.insert(0, builder.text(bundle.tokenizer.encode_instruct(instruct)))
    voice = request.voice
    if voice is not None and voice.reference_text is not None and voice.reference_codes is not None:
        reference_ids = bundle.tokenizer.encode_reference(voice.reference_text)
        spoken, trailing = builder.in_context(ids, reference_ids, voice.reference_codes, mode)
        reference_codes = voice.reference_codes
    else:
        spoken, trailing = builder.plain(ids, mode)
        reference_codes = np.zeros((0, bundle.manifest.model.code_groups), np.int16)
    embeddings = np.concatenate([*parts, spoken])
    return Prompt(text, embeddings, trailing, builder.tts_pad[0], reference_codes, warning)


def frame_embeddings(bundle: Bundle, codes: NDArray[np.int16]) -> Floats:
    """The sum of each frame's 16 code embeddings: codes `[frames, 16]` to `[frames, hidden]`."""
    total = np.zeros((len(codes), bundle.manifest.model.hidden_size), np.float32)
    for group, table in enumerate(bundle.codec_embeddings):
        total += table[codes[:, group]].astype(np.float32)
    return total


def _check_kind(bundle: Bundle, request: Request) -> None:
    """Refuse what this kind of model cannot do, before anything is computed."""
    model = bundle.manifest.model
    if model.kind == "base":
        if request.speaker is not None:
            raise UsageError(f"{model.name} has no built-in speakers; use --voice, or export a CustomVoice checkpoint")
        if request.voice is None:
            raise UsageError(f"{model.name} needs a voice; make one with kz voice add NAME RECORDING and give --voice NAME")
    elif request.voice is not None:
        raise VoiceError(f"{model.name} cannot clone a voice (it is a {model.kind} model); export a Base checkpoint for --voice")
    if model.kind == "voice_design" and request.speaker is not None:
        raise UsageError(f"{model.name} has no built-in speakers; describe the voice with --instruct")
    if model.kind == "custom_voice" and request.speaker is None:
        raise UsageError(f"choose one of the built-in speakers with --speaker: {', '.join(sorted(model.speakers))}")


def _heeded_instruct(bundle: Bundle, request: Request) -> tuple[str | None, str | None]:
    """The instruct turn to use, and a warning; 0.6B models ignore one, as the reference does (`generate_custom_voice`)."""
    model = bundle.manifest.model
    if not request.instruct:
        return None, None
    if model.size == "0b6":
        return None, f"{model.name} is a 0.6B model and ignores --instruct"
    if model.kind == "base":
        raise UsageError(f"{model.name} takes no --instruct; export a CustomVoice or VoiceDesign checkpoint")
    return request.instruct, None


class _Builder:
    """Looks embeddings up and lays them out."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._model = bundle.manifest.model
        self._text = bundle.text_embeddings
        self._codec = bundle.codec_embeddings
        tokens = self._model.tokens
        self._tokens = tokens
        self.tts_bos = self.text([tokens.tts_bos])
        self.tts_eos = self.text([tokens.tts_eos])
        self.tts_pad = self.text([tokens.tts_pad])

    def text(self, ids: list[int]) -> Floats:
        """Pre-projected text embeddings `[len(ids), hidden]`."""
        return self._text[ids].astype(np.float32)

    def codec(self, ids: list[int]) -> Floats:
        """Codebook-0 embeddings `[len(ids), hidden]`."""
        return self._codec[0][ids].astype(np.float32)

    def role(self, ids: list[int]) -> Floats:
        return self.text(ids[:ROLE_TOKENS])

    def codec_tags(self, request: Request) -> Floats:
        """Language tags, the speaker, codec_pad: `[3 to 6, hidden]`."""
        tokens = self._tokens
        speaker = self._speaker(request)
        language = self._language_id(request, speaker)
        if language is None:
            tags = [tokens.codec_nothink, tokens.codec_think_bos, tokens.codec_think_eos]
        else:
            tags = [tokens.codec_think, tokens.codec_think_bos, language, tokens.codec_think_eos]
        rows = [self.codec(tags)]
        if speaker is not None:
            rows.append(self.codec([speaker.id]))
        elif request.voice is not None:
            rows.append(self._voice_row(request.voice))
        return np.concatenate([*rows, self.codec([tokens.codec_pad])])

    def tagged(self, tags: Floats) -> Floats:
        """Codec tags on tts_pad, the last one on tts_bos."""
        texts = np.repeat(self.tts_pad, len(tags), axis=0)
        texts[-1] = self.tts_bos[0]
        return texts + tags

    def plain(self, ids: list[int], mode: TextMode) -> tuple[Floats, Floats]:
        """What follows the tags without reference audio, and the trailing text."""
        content = ids[ROLE_TOKENS:-ASSISTANT_TAIL_TOKENS]
        bos = self.codec([self._tokens.codec_bos])
        if mode == "streaming":
            first, rest = self.text(content[:1]), self.text(content[1:])
            return first + bos, np.concatenate([rest, self.tts_eos])
        texts = np.concatenate([self.text(content), self.tts_eos])
        return np.concatenate([texts + self.codec([self._tokens.codec_pad]), self.tts_pad + bos]), self._nothing()

    def in_context(
        self, ids: list[int], reference_ids: list[int], codes: NDArray[np.int16], mode: TextMode
    ) -> tuple[Floats, Floats]:
        """What follows the tags with a reference (`generate_icl_prompt`), and the trailing text."""
        content = reference_ids[ROLE_TOKENS:-REFERENCE_TAIL_TOKENS] + ids[ROLE_TOKENS:-ASSISTANT_TAIL_TOKENS]
        texts = np.concatenate([self.text(content), self.tts_eos])
        frames = np.concatenate([self.codec([self._tokens.codec_bos]), frame_embeddings(self._bundle, codes)])
        if mode == "full":
            return np.concatenate([texts + self.codec([self._tokens.codec_pad]), frames + self.tts_pad]), self._nothing()
        if len(texts) > len(frames):
            return texts[: len(frames)] + frames, texts[len(frames) :]
        padding = np.repeat(self.tts_pad, len(frames) - len(texts), axis=0)
        return np.concatenate([texts, padding]) + frames, self._nothing()

    def _speaker(self, request: Request) -> Speaker | None:
        if request.speaker is None:
            return None
        speaker = self._model.speakers.get(request.speaker.strip().lower())
        if speaker is None:
            raise UsageError(f"unknown speaker {request.speaker!r}; this bundle has {', '.join(sorted(self._model.speakers))}")
        return speaker

    def _language_id(self, request: Request, speaker: Speaker | None) -> int | None:
        """The language tag; a dialect speaker's dialect stands in for Chinese and auto."""
        language = resolve_language(request.language, self._model.languages)
        if language == AUTO and self._model.auto_language == "text":
            language = language_of(request.text, self._model.languages)
        if language in (AUTO, "chinese") and speaker is not None and speaker.dialect is not None:
            return self._model.languages[speaker.dialect]
        return None if language == AUTO else self._model.languages[language]

    def _voice_row(self, voice: Voice) -> Floats:
        width = self._model.speaker_embedding_size
        if voice.embedding.shape != (width,):
            raise VoiceError(
                f"voice {voice.name!r} has {voice.embedding.size} numbers, {self._model.name} needs {width}; "
                "add the voice again with this bundle: kz voice add"
            )
        return voice.embedding[None].astype(np.float32)

    def _nothing(self) -> Floats:
        return np.zeros((0, self._model.hidden_size), np.float32)
