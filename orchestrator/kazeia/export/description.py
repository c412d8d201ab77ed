"""What a bundle's manifest says of the model it was made from."""

from __future__ import annotations

from kazeia.bundle import Model, Sampling, Speaker, TokenIds
from kazeia.checkpoint import Checkpoint
from kazeia.checkpoint.config import Config, TalkerConfig
from kazeia.export.options import ExportOptions


def describe_model(checkpoint: Checkpoint, options: ExportOptions) -> Model:
    """Sizes, languages, speakers and token ids of `config.json`, rates of `speech_tokenizer/config.json`."""
    config, codec = checkpoint.config, checkpoint.codec_config
    talker = config.talker_config
    return Model(
        name=checkpoint.name,
        kind=config.tts_model_type,
        size=config.tts_model_size,
        hidden_size=talker.hidden_size,
        layers=talker.num_hidden_layers,
        kv_heads=talker.num_key_value_heads,
        head_dim=talker.head_dim,
        vocab_size=talker.vocab_size,
        code_groups=talker.num_code_groups,
        codebook_size=talker.code_predictor_config.vocab_size,
        context_length=options.context_length,
        prefill_tokens=options.prefill_tokens,
        sample_rate=codec.output_sample_rate,
        samples_per_frame=codec.decode_upsample_rate,
        speaker_embedding_size=talker.hidden_size,
        languages=talker.codec_language_id,
        speakers=_speakers(talker),
        tokens=_tokens(config),
        auto_language=checkpoint.generation.auto_language,
    )


def describe_sampling(checkpoint: Checkpoint) -> Sampling:
    """The sampling defaults of `generation_config.json`."""
    generation = checkpoint.generation
    return Sampling(
        do_sample=generation.do_sample,
        temperature=generation.temperature,
        top_k=generation.top_k,
        top_p=generation.top_p,
        repetition_penalty=generation.repetition_penalty,
        subtalker_dosample=generation.subtalker_dosample,
        subtalker_temperature=generation.subtalker_temperature,
        subtalker_top_k=generation.subtalker_top_k,
        subtalker_top_p=generation.subtalker_top_p,
        max_new_tokens=generation.max_new_tokens,
    )


def _speakers(talker: TalkerConfig) -> dict[str, Speaker]:
    """`spk_is_dialect` holds false or a language key."""
    dialects = {name: dialect for name, dialect in talker.spk_is_dialect.items() if isinstance(dialect, str)}
    return {name: Speaker(id=row, dialect=dialects.get(name)) for name, row in talker.spk_id.items()}


def _tokens(config: Config) -> TokenIds:
    talker = config.talker_config
    return TokenIds(
        im_start=config.im_start_token_id,
        im_end=config.im_end_token_id,
        tts_bos=config.tts_bos_token_id,
        tts_eos=config.tts_eos_token_id,
        tts_pad=config.tts_pad_token_id,
        codec_bos=talker.codec_bos_id,
        codec_eos=talker.codec_eos_token_id,
        codec_pad=talker.codec_pad_id,
        codec_think=talker.codec_think_id,
        codec_nothink=talker.codec_nothink_id,
        codec_think_bos=talker.codec_think_bos_id,
        codec_think_eos=talker.codec_think_eos_id,
    )
