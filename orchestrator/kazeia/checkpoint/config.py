"""A checkpoint's configuration files as typed, immutable structs whose fields are named as the keys.

Defaults are those of the reference's configuration classes (`configuration_qwen3_tts.py`,
`configuration_qwen3_tts_tokenizer_v2.py`, transformers' `MimiConfig`): Hugging Face leaves out keys that equal them.
Keys that say nothing about inference are ignored.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MODEL_TYPE = "qwen3_tts"
TOKENIZER_TYPE = "qwen3_tts_tokenizer_12hz"

SPECIAL_CODES = 1024
"""Ids at the end of the talker's vocabulary that are no codes: control ids, languages, speakers (reference `generate`)."""

Kind = Literal["base", "custom_voice", "voice_design"]
AutoLanguage = Literal["model", "text"]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts: immutable, unknown keys ignored."""


def _fill_head_dim(section: TalkerConfig | CodecDecoderConfig | CodecEncoderConfig) -> None:
    if not section.head_dim and section.num_attention_heads > 0:
        msgspec.structs.force_setattr(section, "head_dim", section.hidden_size // section.num_attention_heads)


class RopeScaling(Section, frozen=True, kw_only=True):
    rope_type: str = "default"
    interleaved: bool = False
    mrope_section: tuple[int, ...] = ()


class CodePredictorConfig(Section, frozen=True, kw_only=True):
    """`talker_config.code_predictor_config`: the decoder that predicts codebooks 1 to `num_code_groups - 1`."""

    vocab_size: int = 2048
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 5
    num_attention_heads: int = 16
    num_key_value_heads: int = 8
    head_dim: int = 128
    hidden_act: str = "silu"
    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    attention_bias: bool = False
    use_sliding_window: bool = False
    num_code_groups: int = 32


class TalkerConfig(Section, frozen=True, kw_only=True):
    """`talker_config`: the decoder that predicts codebook 0, one step per frame."""

    text_vocab_size: int
    code_predictor_config: CodePredictorConfig = CodePredictorConfig()
    vocab_size: int = 3072
    hidden_size: int = 1024
    intermediate_size: int = 2048
    num_hidden_layers: int = 20
    num_attention_heads: int = 16
    num_key_value_heads: int = 2
    head_dim: int = 0
    """`hidden_size / num_attention_heads` where the file is silent."""
    hidden_act: str = "silu"
    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    attention_bias: bool = False
    use_sliding_window: bool = False
    num_code_groups: int = 32
    text_hidden_size: int = 2048
    codec_eos_token_id: int = 4198
    codec_think_id: int = 4202
    codec_nothink_id: int = 4203
    codec_think_bos_id: int = 4204
    codec_think_eos_id: int = 4205
    codec_pad_id: int = 4196
    codec_bos_id: int = 4197
    codec_language_id: dict[str, int] = {}
    spk_id: dict[str, int] = {}
    spk_is_dialect: dict[str, str | bool] = {}
    """By speaker: false, or the key of `codec_language_id` that replaces Chinese and auto."""

    def __post_init__(self) -> None:
        _fill_head_dim(self)


class SpeakerEncoderConfig(Section, frozen=True, kw_only=True):
    """`speaker_encoder_config`: the ECAPA-TDNN of base models; `enc_dim` is the width of a voice's embedding."""

    mel_dim: int = 128
    enc_dim: int = 1024
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128
    sample_rate: int = 24000


class Config(Section, frozen=True, kw_only=True):
    """`config.json`."""

    model_type: str
    tokenizer_type: str
    tts_model_type: Kind
    talker_config: TalkerConfig
    tts_model_size: str = ""
    """`0b6` or `1b7` in the official checkpoints; the reference ignores `instruct` for `0b6`."""
    speaker_encoder_config: SpeakerEncoderConfig | None = None
    """Never None for base models, always None for the others: only base models have a speaker encoder."""
    im_start_token_id: int = 151644
    im_end_token_id: int = 151645
    tts_pad_token_id: int = 151671
    tts_bos_token_id: int = 151672
    tts_eos_token_id: int = 151673
    kz_random_seed: int | None = None
    """Only in a made-up checkpoint: the seed of its random weights."""

    def __post_init__(self) -> None:
        base = self.tts_model_type == "base"
        encoder = (self.speaker_encoder_config or SpeakerEncoderConfig()) if base else None
        msgspec.structs.force_setattr(self, "speaker_encoder_config", encoder)


class GenerationConfig(Section, frozen=True, kw_only=True):
    """`generation_config.json`: sampling defaults; `subtalker_*` are the code predictor's.

    Defaults are the reference's hard ones (`Qwen3TTSModel._merge_generate_kwargs`).
    """

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048
    auto_language: AutoLanguage = "model"
    """This project's own key: `text` for a model that speaks better when the language is named."""


class CodecDecoderConfig(Section, frozen=True, kw_only=True):
    """`decoder_config` of the speech tokenizer: the speech decoder."""

    codebook_dim: int
    codebook_size: int = 2048
    latent_dim: int = 1024
    decoder_dim: int = 1536
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 8
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 0
    """`hidden_size / num_attention_heads` where the file is silent."""
    hidden_act: str = "silu"
    attention_bias: bool = False
    max_position_embeddings: int = 8000
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    sliding_window: int = 72
    num_quantizers: int = 16
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)

    def __post_init__(self) -> None:
        _fill_head_dim(self)


class CodecEncoderConfig(Section, frozen=True, kw_only=True):
    """`encoder_config` of the speech tokenizer: the speech encoder (Mimi)."""

    sampling_rate: int = 24000
    audio_channels: int = 1
    hidden_size: int = 512
    num_filters: int = 64
    num_residual_layers: int = 1
    upsampling_ratios: tuple[int, ...] = (8, 6, 5, 4)
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: str = "constant"
    compress: int = 2
    trim_right_ratio: float = 1.0
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1
    use_conv_shortcut: bool = False
    vector_quantization_hidden_dimension: int = 256
    upsample_groups: int = 512
    num_hidden_layers: int = 8
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int = 0
    """`hidden_size / num_attention_heads` where the file is silent."""
    hidden_act: str = "gelu"
    max_position_embeddings: int = 8000
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    sliding_window: int = 250
    attention_bias: bool = False

    def __post_init__(self) -> None:
        _fill_head_dim(self)


class CodecConfig(Section, frozen=True, kw_only=True):
    """`speech_tokenizer/config.json`; rates are samples per frame, or Hz where named sample rate."""

    model_type: str
    decoder_config: CodecDecoderConfig
    encoder_config: CodecEncoderConfig = CodecEncoderConfig()
    encoder_valid_num_quantizers: int = 16
    input_sample_rate: int = 24000
    output_sample_rate: int = 24000
    decode_upsample_rate: int = 1920
    encode_downsample_rate: int = 1920
