"""The configuration files of the five official checkpoints: one as published, the others edited from it."""

from __future__ import annotations

from pathlib import Path

from kazeia.checkpoint.presets import SPEAKER_DIALECTS, SPEAKERS

DATA = Path(__file__).parents[1] / "data" / "official"
CODEC_CONFIG = "speech_tokenizer/config.json"


def official_configs() -> dict[str, str]:
    """The text of `config.json`, by checkpoint."""
    small = (DATA / "config.json").read_text()
    large = _larger(small)
    return {
        "Qwen3-TTS-12Hz-0.6B-Base": small,
        "Qwen3-TTS-12Hz-0.6B-CustomVoice": _custom_voice(small),
        "Qwen3-TTS-12Hz-1.7B-Base": large,
        "Qwen3-TTS-12Hz-1.7B-CustomVoice": _custom_voice(large),
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign": _other_kind(large, "voice_design"),
    }


def _larger(config: str) -> str:
    config = config.replace('"0b6"', '"1b7"').replace('"enc_dim": 1024', '"enc_dim": 2048')
    # The code predictor, which comes first, keeps its widths.
    predictor, talker = config.split('"codec_bos_id"')
    talker = talker.replace('"hidden_size": 1024', '"hidden_size": 2048').replace('3072,\n    "max', '6144,\n    "max')
    return f'{predictor}"codec_bos_id"{talker}'


def _other_kind(config: str, kind: str) -> str:
    before, after = config.split('  "speaker_encoder_config"')
    return before.replace('"base"', f'"{kind}"') + '  "talker_config"' + after.split('  "talker_config"')[1]


def _custom_voice(config: str) -> str:
    config = _other_kind(config, "custom_voice")
    config = config.replace(
        '"russian": 2069\n', '"russian": 2069,\n        "beijing_dialect": 2074,\n        "sichuan_dialect": 2062\n'
    )
    dialects = {name: f'"{SPEAKER_DIALECTS[name]}"' if name in SPEAKER_DIALECTS else "false" for name in SPEAKERS}
    for key, values in (("spk_id", SPEAKERS), ("spk_is_dialect", dialects)):
        lines = ",\n".join(f'      "{name}": {value}' for name, value in values.items())
        config = config.replace(f'"{key}": {{\n', f'"{key}": {{\n{lines}\n')
    return config
