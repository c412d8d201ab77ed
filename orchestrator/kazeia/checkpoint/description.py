"""What `kz checkpoint info` tells about a checkpoint."""

from __future__ import annotations

import msgspec

from kazeia.checkpoint.reader import Checkpoint
from kazeia.tokenizer import build_tokenizer


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint in numbers and names."""

    path: str
    name: str
    official: str | None
    """The official checkpoint it is, or None."""
    verified: bool
    """Whether every file was hashed and found to be the official one."""
    random_seed: int | None
    """The seed of a made-up checkpoint's weights."""
    kind: str
    size: str
    parameters: int
    dtype: str
    hidden_size: int
    layers: int
    codebooks: int
    codebook_size: int
    languages: list[str]
    dialects: list[str]
    speakers: list[str]
    tokenizer_ids: int
    tokenizer_markers: int
    """Of these ids, how many are control markers."""
    codec_parameters: int
    codec_dtype: str
    sample_rate: int
    frame_ms: float


def describe(checkpoint: Checkpoint, *, verified: bool = False) -> Description:
    """Describe an opened checkpoint.

    Raises:
        CheckpointError: its tokenizer is broken.
    """
    config, codec = checkpoint.config, checkpoint.codec_config
    talker = config.talker_config
    dialects = {dialect for dialect in talker.spk_is_dialect.values() if isinstance(dialect, str)}
    tokenizer = build_tokenizer(checkpoint.path)
    return Description(
        path=str(checkpoint.path),
        name=checkpoint.name,
        official=checkpoint.official,
        verified=verified,
        random_seed=config.kz_random_seed,
        kind=config.tts_model_type,
        size=config.tts_model_size,
        parameters=checkpoint.parameters,
        dtype=checkpoint.dtype,
        hidden_size=talker.hidden_size,
        layers=talker.num_hidden_layers,
        codebooks=talker.num_code_groups,
        codebook_size=codec.decoder_config.codebook_size,
        languages=sorted(set(talker.codec_language_id) - dialects),
        dialects=sorted(dialects),
        speakers=sorted(talker.spk_id),
        tokenizer_ids=tokenizer.get_vocab_size(),
        tokenizer_markers=len(tokenizer.get_added_tokens_decoder()),
        codec_parameters=checkpoint.codec_parameters,
        codec_dtype=checkpoint.codec_dtype,
        sample_rate=codec.output_sample_rate,
        frame_ms=1000 * codec.decode_upsample_rate / codec.output_sample_rate,
    )
