"""Which tensors a checkpoint has: names and shapes, from its configuration alone.

Linear weights are `[out, in]`, convolutions `[out, in / groups, kernel]`, transposed convolutions `[in, out, kernel]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kazeia.checkpoint.config import (
    CodecConfig,
    CodecDecoderConfig,
    CodecEncoderConfig,
    CodePredictorConfig,
    Config,
    SpeakerEncoderConfig,
    TalkerConfig,
)
from kazeia.errors import CheckpointError

Shape = tuple[int, ...]
Layout = dict[str, Shape]
Tensors = Iterator[tuple[str, Shape]]

RESIDUAL_UNITS = 3
"""Residual units after each upsampling of the speech decoder (dilations 1, 3, 9)."""
CODEC_KERNEL = 7
"""Kernel of the speech decoder's convolutions, but for the first (3) and the second of a residual unit (1)."""


def main_layout(config: Config) -> Layout:
    """The tensors of the main `model.safetensors`: talker, code predictor and, for base models, speaker encoder."""
    tensors = dict(_talker(config.talker_config))
    if config.speaker_encoder_config is not None:
        tensors.update(_speaker_encoder(config.speaker_encoder_config))
    return tensors


def codec_layout(config: CodecConfig) -> Layout:
    """The tensors of `speech_tokenizer/model.safetensors`: speech decoder and speech encoder."""
    return dict([*_speech_decoder(config.decoder_config), *_speech_encoder(config.encoder_config)])


def parameters(layout: Layout) -> int:
    """Number of elements of all tensors."""
    return sum(math.prod(shape) for shape in layout.values())


def check_layout(expected: Layout, found: Layout, file: str) -> None:
    """Compare the tensors of `file` with those its configuration asks for.

    Raises:
        CheckpointError: tensors missing, unexpected or of another shape; names the first of them.
    """
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    misshaped = [
        f"{name} {list(found[name])} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    faults = [
        f"{len(names)} {what} ({_first(names)})"
        for what, names in (("missing", missing), ("unexpected", unexpected), ("misshaped", misshaped))
        if names
    ]
    if faults:
        raise CheckpointError(
            f"{file} does not fit its config.json: of {len(expected)} tensors {', '.join(faults)}; "
            "take config and weights from the same download"
        )


def _first(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _linear(name: str, outputs: int, inputs: int, *, bias: bool) -> Tensors:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _conv(name: str, outputs: int, inputs: int, kernel: int, *, bias: bool = True) -> Tensors:
    yield f"{name}.weight", (outputs, inputs, kernel)
    if bias:
        yield f"{name}.bias", (outputs,)


def _transposed_conv(name: str, inputs: int, outputs: int, kernel: int) -> Tensors:
    yield f"{name}.weight", (inputs, outputs, kernel)
    yield f"{name}.bias", (outputs,)


def _attention(
    name: str, config: TalkerConfig | CodePredictorConfig | CodecDecoderConfig | CodecEncoderConfig, *, head_norm: bool
) -> Tensors:
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    yield f"{name}.q_proj.weight", (queries, config.hidden_size)
    yield f"{name}.k_proj.weight", (keys, config.hidden_size)
    yield f"{name}.v_proj.weight", (keys, config.hidden_size)
    yield f"{name}.o_proj.weight", (config.hidden_size, queries)
    if head_norm:
        yield f"{name}.q_norm.weight", (config.head_dim,)
        yield f"{name}.k_norm.weight", (config.head_dim,)


def _gated_mlp(name: str, hidden: int, intermediate: int) -> Tensors:
    yield f"{name}.gate_proj.weight", (intermediate, hidden)
    yield f"{name}.up_proj.weight", (intermediate, hidden)
    yield f"{name}.down_proj.weight", (hidden, intermediate)


def _decoder_stack(name: str, config: TalkerConfig | CodePredictorConfig) -> Tensors:
    """Qwen3 layers and the final norm."""
    hidden = config.hidden_size
    for index in range(config.num_hidden_layers):
        layer = f"{name}.layers.{index}"
        yield from _attention(f"{layer}.self_attn", config, head_norm=True)
        yield from _gated_mlp(f"{layer}.mlp", hidden, config.intermediate_size)
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
    yield f"{name}.norm.weight", (hidden,)


def _talker(config: TalkerConfig) -> Tensors:
    hidden, text_hidden = config.hidden_size, config.text_hidden_size
    yield from _decoder_stack("talker.model", config)
    yield "talker.model.codec_embedding.weight", (config.vocab_size, hidden)
    yield "talker.model.text_embedding.weight", (config.text_vocab_size, text_hidden)
    yield from _linear("talker.text_projection.linear_fc1", text_hidden, text_hidden, bias=True)
    yield from _linear("talker.text_projection.linear_fc2", hidden, text_hidden, bias=True)
    yield "talker.codec_head.weight", (config.vocab_size, hidden)
    yield from _code_predictor("talker.code_predictor", config.code_predictor_config, hidden)


def _code_predictor(name: str, config: CodePredictorConfig, talker_hidden: int) -> Tensors:
    yield from _decoder_stack(f"{name}.model", config)
    for index in range(config.num_code_groups - 1):
        yield f"{name}.model.codec_embedding.{index}.weight", (config.vocab_size, talker_hidden)
    for index in range(config.num_code_groups - 1):
        yield f"{name}.lm_head.{index}.weight", (config.vocab_size, config.hidden_size)
    # Equal widths need no projection: the reference has an identity there, without a tensor.
    if config.hidden_size != talker_hidden:
        yield from _linear(f"{name}.small_to_mtp_projection", config.hidden_size, talker_hidden, bias=True)


def _speaker_encoder(config: SpeakerEncoderConfig) -> Tensors:
    name, channels, kernels = "speaker_encoder", config.enc_channels, config.enc_kernel_sizes
    wide = channels[-1]
    yield from _conv(f"{name}.blocks.0.conv", channels[0], config.mel_dim, kernels[0])
    for index in range(1, len(channels) - 1):
        block, width = f"{name}.blocks.{index}", channels[index]
        part = width // config.enc_res2net_scale
        yield from _conv(f"{block}.tdnn1.conv", width, channels[index - 1], 1)
        for branch in range(config.enc_res2net_scale - 1):
            yield from _conv(f"{block}.res2net_block.blocks.{branch}.conv", part, part, kernels[index])
        yield from _conv(f"{block}.tdnn2.conv", width, width, 1)
        yield from _conv(f"{block}.se_block.conv1", config.enc_se_channels, width, 1)
        yield from _conv(f"{block}.se_block.conv2", width, config.enc_se_channels, 1)
    yield from _conv(f"{name}.mfa.conv", wide, wide, kernels[-1])
    yield from _conv(f"{name}.asp.tdnn.conv", config.enc_attention_channels, 3 * wide, 1)
    yield from _conv(f"{name}.asp.conv", wide, config.enc_attention_channels, 1)
    yield from _conv(f"{name}.fc", config.enc_dim, 2 * wide, 1)


def _speech_decoder(config: CodecDecoderConfig) -> Tensors:
    yield from _decoder_quantizer("decoder.quantizer", config)
    yield from _conv("decoder.pre_conv.conv", config.latent_dim, config.codebook_dim, 3)
    yield from _pre_transformer("decoder.pre_transformer", config)
    for index, ratio in enumerate(config.upsampling_ratios):
        yield from _transposed_conv(f"decoder.upsample.{index}.0.conv", config.latent_dim, config.latent_dim, ratio)
        yield from _conv_next(f"decoder.upsample.{index}.1", config.latent_dim)
    yield from _vocoder("decoder.decoder", config)


def _decoder_quantizer(name: str, config: CodecDecoderConfig) -> Tensors:
    width = config.codebook_dim // 2
    for part, layers in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        yield from _conv(f"{name}.{part}.input_proj", width, config.codebook_dim, 1, bias=False)
        yield from _conv(f"{name}.{part}.output_proj", config.codebook_dim, width, 1, bias=False)
        for index in range(layers):
            codebook = f"{name}.{part}.vq.layers.{index}._codebook"
            yield f"{codebook}.cluster_usage", (config.codebook_size,)
            yield f"{codebook}.embedding_sum", (config.codebook_size, width)


def _pre_transformer(name: str, config: CodecDecoderConfig) -> Tensors:
    hidden = config.hidden_size
    yield from _linear(f"{name}.input_proj", hidden, config.latent_dim, bias=True)
    for index in range(config.num_hidden_layers):
        layer = f"{name}.layers.{index}"
        yield from _attention(f"{layer}.self_attn", config, head_norm=False)
        yield from _gated_mlp(f"{layer}.mlp", hidden, config.intermediate_size)
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield f"{layer}.self_attn_layer_scale.scale", (hidden,)
        yield f"{layer}.mlp_layer_scale.scale", (hidden,)
    yield f"{name}.norm.weight", (hidden,)
    yield from _linear(f"{name}.output_proj", config.latent_dim, hidden, bias=True)


def _conv_next(name: str, width: int) -> Tensors:
    yield f"{name}.gamma", (width,)
    yield from _conv(f"{name}.dwconv.conv", width, 1, CODEC_KERNEL)
    yield f"{name}.norm.weight", (width,)
    yield f"{name}.norm.bias", (width,)
    yield from _linear(f"{name}.pwconv1", 4 * width, width, bias=True)
    yield from _linear(f"{name}.pwconv2", width, 4 * width, bias=True)


def _snake(name: str, width: int) -> Tensors:
    yield f"{name}.alpha", (width,)
    yield f"{name}.beta", (width,)


def _vocoder(name: str, config: CodecDecoderConfig) -> Tensors:
    width = config.decoder_dim
    yield from _conv(f"{name}.0.conv", width, config.latent_dim, CODEC_KERNEL)
    for index, rate in enumerate(config.upsample_rates, start=1):
        half = config.decoder_dim // 2**index
        yield from _snake(f"{name}.{index}.block.0", width)
        yield from _transposed_conv(f"{name}.{index}.block.1.conv", width, half, 2 * rate)
        for unit in range(2, 2 + RESIDUAL_UNITS):
            block = f"{name}.{index}.block.{unit}"
            yield from _snake(f"{block}.act1", half)
            yield from _conv(f"{block}.conv1.conv", half, half, CODEC_KERNEL)
            yield from _snake(f"{block}.act2", half)
            yield from _conv(f"{block}.conv2.conv", half, half, 1)
        width = half
    last = len(config.upsample_rates) + 1
    yield from _snake(f"{name}.{last}", width)
    yield from _conv(f"{name}.{last + 1}.conv", 1, width, CODEC_KERNEL)


def _speech_encoder(config: CodecEncoderConfig) -> Tensors:
    hidden = config.hidden_size
    yield from _encoder_convolutions("encoder.encoder", config)
    for index in range(config.num_hidden_layers):
        layer = f"encoder.encoder_transformer.layers.{index}"
        yield from _attention(f"{layer}.self_attn", config, head_norm=False)
        yield f"{layer}.mlp.fc1.weight", (config.intermediate_size, hidden)
        yield f"{layer}.mlp.fc2.weight", (hidden, config.intermediate_size)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", (hidden,)
            yield f"{layer}.{norm}.bias", (hidden,)
        yield f"{layer}.self_attn_layer_scale.scale", (hidden,)
        yield f"{layer}.mlp_layer_scale.scale", (hidden,)
    # Mimi's 25 Hz become the codec's 12.5 Hz: stride 2, twice that as the kernel.
    yield from _conv("encoder.downsample.conv", hidden, hidden, 4, bias=False)
    yield from _encoder_quantizer("encoder.quantizer", config)


def _encoder_convolutions(name: str, config: CodecEncoderConfig) -> Tensors:
    """SEANet: numbers of layers count the activations between them, which have no tensors."""
    width, layer = config.num_filters, 0
    yield from _conv(f"{name}.layers.{layer}.conv", width, config.audio_channels, config.kernel_size)
    for ratio in reversed(config.upsampling_ratios):
        for _ in range(config.num_residual_layers):
            layer += 1
            narrow = width // config.compress
            yield from _conv(f"{name}.layers.{layer}.block.1.conv", narrow, width, config.residual_kernel_size)
            yield from _conv(f"{name}.layers.{layer}.block.3.conv", width, narrow, 1)
        layer += 2
        yield from _conv(f"{name}.layers.{layer}.conv", 2 * width, width, 2 * ratio)
        width *= 2
    yield from _conv(f"{name}.layers.{layer + 2}.conv", config.hidden_size, width, config.last_kernel_size)


def _encoder_quantizer(name: str, config: CodecEncoderConfig) -> Tensors:
    hidden, width = config.hidden_size, config.vector_quantization_hidden_dimension
    acoustic = config.num_quantizers - config.num_semantic_quantizers
    for part, layers in (("semantic", config.num_semantic_quantizers), ("acoustic", acoustic)):
        quantizer = f"{name}.{part}_residual_vector_quantizer"
        if width != hidden:
            yield from _conv(f"{quantizer}.input_proj", width, hidden, 1, bias=False)
            yield from _conv(f"{quantizer}.output_proj", hidden, width, 1, bias=False)
        for index in range(layers):
            codebook = f"{quantizer}.layers.{index}.codebook"
            yield f"{codebook}.initialized", (1,)
            yield f"{codebook}.cluster_usage", (config.codebook_size,)
            yield f"{codebook}.embed_sum", (config.codebook_size, config.codebook_dim)
