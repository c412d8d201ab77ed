"""The prompt shapes of the reference, each as a call of its API and as a request of ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kazeia.bundle import Model
from kazeia.checkpoint.config import Kind
from kazeia.checkpoint.presets import Size
from kazeia.prompt import TextMode
from kazeia.synthesis import Options
from kazeia.voices import Voice

TEXT = "Bonjour, it is 8 o'clock – 你好!"
REFERENCE_TEXT = "What she said then."


@dataclass(frozen=True)
class Case:
    """One prompt shape."""

    name: str
    kind: Kind = "base"
    size: Size = "tiny"
    language: str = "auto"
    text_mode: TextMode = "streaming"
    speaker: str | None = None
    instruct: str | None = None
    reference_frames: int = 0
    """More than 0: in-context cloning with so many frames."""
    extra: dict[str, Any] = field(default_factory=dict)

    def call(self, model: Any, manifest: Model, **options: Any) -> Any:
        """Speak with the reference, greedily; `model` is its `Qwen3TTSModel`."""
        options = {
            "text": TEXT,
            "language": self.language,
            "non_streaming_mode": self.text_mode == "full",
            "do_sample": False,
            "subtalker_dosample": False,
            **options,
        }
        if self.kind == "base":
            return model.generate_voice_clone(voice_clone_prompt=self._reference_voice(model, manifest), **options)
        if self.kind == "voice_design":
            return model.generate_voice_design(instruct=self.instruct or "", **options)
        return model.generate_custom_voice(speaker=self.speaker, instruct=self.instruct, **options)

    def options(self, manifest: Model) -> Options:
        """The same, asked of Kazeia."""
        voice = None
        if self.kind == "base":
            in_context = self.reference_frames > 0
            codes = reference_codes(manifest, self.reference_frames) if in_context else None
            voice = Voice("case", speaker_embedding(manifest), codes, REFERENCE_TEXT if in_context else None)
        return Options(
            voice=voice, speaker=self.speaker, instruct=self.instruct, language=self.language, text_mode=self.text_mode
        )

    def _reference_voice(self, model: Any, manifest: Model) -> Any:
        import torch

        from tests.parity.reference import reference

        item = reference("qwen_tts.inference.qwen3_tts_model").VoiceClonePromptItem
        in_context = self.reference_frames > 0
        codes = torch.from_numpy(reference_codes(manifest, self.reference_frames).astype(np.int64)) if in_context else None
        return [
            item(
                ref_code=codes,
                ref_spk_embedding=torch.from_numpy(speaker_embedding(manifest)),
                x_vector_only_mode=not in_context,
                icl_mode=in_context,
                ref_text=REFERENCE_TEXT if in_context else None,
            )
        ]


def speaker_embedding(model: Model) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(model.speaker_embedding_size, np.float32)


def reference_codes(model: Model, frames: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, model.codebook_size, (frames, model.code_groups)).astype(np.int16)


def _both_modes(case: Case) -> list[Case]:
    return [replace(case, name=f"{case.name}, {mode}", text_mode=mode) for mode in ("streaming", "full")]


CASES = [
    *_both_modes(Case("x-vector, auto")),
    *_both_modes(Case("x-vector, named language", language="French")),
    *_both_modes(Case("in-context, more text than frames", reference_frames=9)),
    *_both_modes(Case("in-context, more frames than text", reference_frames=90, language="English")),
    *_both_modes(Case("built-in speaker", kind="custom_voice", speaker="Ryan")),
    Case("built-in speaker, named language", kind="custom_voice", speaker="ryan", language="german", text_mode="full"),
    Case("dialect speaker, auto", kind="custom_voice", speaker="dylan", text_mode="full"),
    Case("dialect speaker, Chinese", kind="custom_voice", speaker="eric", language="Chinese", text_mode="full"),
    Case("dialect speaker, English", kind="custom_voice", speaker="eric", language="English", text_mode="full"),
    Case(
        "1.7B speaker with instruct",
        kind="custom_voice",
        size="tiny-1.7b",
        speaker="ryan",
        instruct="Whisper it.",
        text_mode="full",
    ),
    *_both_modes(Case("voice design", kind="voice_design", size="tiny-1.7b", instruct="An old man, amused.", language="English")),
    Case("voice design without instruct", kind="voice_design", size="tiny-1.7b", text_mode="full"),
]
