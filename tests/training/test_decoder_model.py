"""The speech decoder that is trained and the one that is exported are one function."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from kazeia.checkpoint.config import CodecDecoderConfig
from kazeia.checkpoint.layout import codec_layout
from kazeia.export.speech_decoder import SpeechDecoder as ExportedDecoder
from kazeia.export.streaming_layers import state_shapes
from training import sizes
from training.checkpoint import CODEC_PREFIX, completed, decoder_tensors
from training.decoder_model import Snake, SpeechDecoder
from training.decoder_start import FRONT_STAGES, SEGMENT_SAMPLES, Components, make_linear
from training.vocoder import FRAME_SAMPLES

FRAMES = 5


def config() -> CodecDecoderConfig:
    return sizes.speech_decoder()


@pytest.fixture(scope="module")
def model() -> SpeechDecoder:
    torch.manual_seed(3)
    return SpeechDecoder(config()).eval()


def test_chunks_through_the_exported_decoder_give_the_trained_ones_samples(model: SpeechDecoder) -> None:
    tensors = {name: torch.from_numpy(value) for name, value in decoder_tensors(model).items()}
    exported = ExportedDecoder(lambda name: tensors[CODEC_PREFIX + name], config())
    codes = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (1, 16, FRAMES)))
    with torch.no_grad():
        whole = model(codes)
        states = [torch.zeros(shape) for shape in state_shapes(exported)]
        chunks = []
        for first, last in ((0, 1), (1, 4), (4, 5)):
            samples, states = exported(codes[:, :, first:last], states)
            chunks.append(samples)
    assert whole.shape == (1, FRAMES * FRAME_SAMPLES)
    torch.testing.assert_close(torch.cat(chunks, 1), whole.clamp(-1, 1), atol=2e-5, rtol=1e-4)


def test_every_tensor_of_the_speech_decoder_is_trained(model: SpeechDecoder) -> None:
    codec = msgspec.convert(sizes.speech_config(), type=sizes.CodecConfig)
    layout = {name: shape for name, shape in codec_layout(codec).items() if name.startswith(CODEC_PREFIX)}
    trained = decoder_tensors(model)
    untrained = layout.keys() - trained.keys()
    assert {name.rsplit(".", 2)[1] for name in untrained} == {"input_proj"}  # of the encoder's side, which no one reads here
    assert all(completed(trained, layout)[name].shape == shape for name, shape in layout.items())


def test_a_snake_adds_a_squared_sine() -> None:
    x = torch.linspace(-3, 3, 12).view(1, 3, 4)
    torch.testing.assert_close(Snake(3)(x), x + torch.sin(x) ** 2, atol=1e-5, rtol=1e-5)


def test_late_stages_begin_as_the_map_from_components_to_samples() -> None:
    samples = (np.random.default_rng(2).standard_normal(SEGMENT_SAMPLES * 400) * 3000).astype(np.int16)
    components, model = Components.fit(samples), SpeechDecoder(config())
    make_linear(model, components)
    target = torch.from_numpy(samples[: 20 * SEGMENT_SAMPLES] / 32767)[None].float()
    vectors = torch.zeros(1, config().decoder_dim // 2, 20)
    vectors[:, :SEGMENT_SAMPLES] = components.of(target).transpose(1, 2)
    with torch.no_grad():
        made = model.decoder[FRONT_STAGES:](vectors)[:, 0]
    torch.testing.assert_close(made, target, atol=1e-3, rtol=0)
