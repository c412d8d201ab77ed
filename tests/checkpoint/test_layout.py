"""Names, shapes and counts of tensors at the published sizes, and what is said when they differ."""

from __future__ import annotations

import msgspec
import pytest

from kazeia.checkpoint.config import CodecConfig, Config
from kazeia.checkpoint.layout import check_layout, codec_layout, main_layout, parameters
from kazeia.errors import CheckpointError
from tests.support.official import CODEC_CONFIG, DATA, official_configs

PUBLISHED = {
    "Qwen3-TTS-12Hz-0.6B-Base": (478, 914643008),
    "Qwen3-TTS-12Hz-0.6B-CustomVoice": (402, 905788672),
    "Qwen3-TTS-12Hz-1.7B-Base": (480, 1928677440),
    "Qwen3-TTS-12Hz-1.7B-CustomVoice": (404, 1916676352),
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign": (404, 1916676352),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_checkpoints_have_the_published_tensors(name: str) -> None:
    layout = main_layout(msgspec.json.decode(official_configs()[name], type=Config))
    assert (len(layout), parameters(layout)) == PUBLISHED[name]
    projection = "talker.code_predictor.small_to_mtp_projection.weight"
    assert layout.get(projection) == ((1024, 2048) if "1.7B" in name else None)


def test_the_published_speech_tokenizer_has_the_published_tensors() -> None:
    layout = codec_layout(msgspec.json.decode((DATA / CODEC_CONFIG).read_bytes(), type=CodecConfig))
    assert (len(layout), parameters(layout)) == (496, 170557441)


def test_a_fitting_layout_passes() -> None:
    check_layout({"a": (1, 2)}, {"a": (1, 2)}, "model.safetensors")


def test_every_kind_of_misfit_is_named_and_counted() -> None:
    expected = {"a": (1,), "b": (2,), "c": (3,), "d": (4,), "e": (5,)}
    found = {"e": (6,), "f": (7,)}
    with pytest.raises(CheckpointError) as error:
        check_layout(expected, found, "here/model.safetensors")
    assert str(error.value) == (
        "here/model.safetensors does not fit its config.json: of 5 tensors 4 missing (a, b, c, ...), 1 unexpected (f), "
        "1 misshaped (e [6] instead of [5]); take config and weights from the same download"
    )
