"""A checkpoint's tensors become the trained models again, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from training import sizes
from training.checkpoint import CODEC_PREFIX, TALKER_PREFIX, decoder_tensors, talker_tensors
from training.codes import SHAPE_CODEBOOKS, Quantizer
from training.decoder_model import SpeechDecoder
from training.resume import CODES, decoder_state, talker_state
from training.talker_model import Lecture
from training.voices import VOICES

CHECKPOINT = Path(__file__).parents[2] / "checkpoints/kazeia-tts-12hz-8m-base"
TENSORS, SPEECH_TENSORS = (CHECKPOINT / name for name in ("model.safetensors", "speech_tokenizer/model.safetensors"))


def test_the_speech_decoder_is_the_one_that_was_written() -> None:
    stored = load_file(SPEECH_TENSORS)
    model = SpeechDecoder(sizes.speech_decoder())
    model.load_state_dict(decoder_state(stored))
    again = decoder_tensors(model)
    untaught = {name for name in stored if "quantizer" in name and "input_proj" in name}  # of the encoder
    assert again.keys() == {name for name in stored if name.startswith(CODEC_PREFIX)} - untaught
    for name, value in again.items():
        np.testing.assert_array_equal(value, stored[name].float().numpy(), err_msg=name)


def test_the_talker_is_the_one_that_was_written() -> None:
    stored = load_file(TENSORS)
    lecture = Lecture(sizes.talker(CHECKPOINT), len(VOICES))
    lecture.talker.load_state_dict(talker_state(stored))
    again = talker_tensors(lecture)
    assert again.keys() == {name for name in stored if name.startswith(TALKER_PREFIX)}
    for name, value in again.items():
        np.testing.assert_array_equal(value, stored[name].float().numpy(), err_msg=name)


def test_the_codes_kept_here_are_those_the_checkpoint_speaks() -> None:
    """Its codebooks were trained from these, and are still nearly a linear function of them; of other codes they are none."""
    began = Quantizer.load(CODES).scaled_entries()
    now = decoder_state(load_file(SPEECH_TENSORS))["entries"].numpy()

    def unexplained(codebook: int, entries: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
        x, y = entries[:, : now.shape[2]], now[codebook]
        return float(((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum() / (y**2).sum())

    for codebook, entries in zip(SHAPE_CODEBOOKS[:6], began, strict=False):
        assert unexplained(codebook, entries) < 0.5 * unexplained(codebook, np.roll(entries, 1, axis=0)), codebook
