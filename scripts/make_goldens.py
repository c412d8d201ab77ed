"""Remake `tests/golden/babble.npz`: what the reference says with the checkpoint of the tests, greedily.

    python -m scripts.make_goldens

Needs the reference (the README's test command installs it). Made with qwen-tts 0.1.1, transformers 4.57.3, torch 2.13.0.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from kazeia.bundle import Bundle
from kazeia.voices import default_voice
from scripts.babble_checkpoint import write_babble_checkpoint
from tests.parity.reference import load_reference, reference
from tests.support.bundles import BABBLE

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "babble.npz"
TEXT = "Bonjour, it is 8 o'clock – 你好!"
FRAMES = 60
SAMPLE_RATE = 24000


def main() -> None:
    bundle = Bundle.open(BABBLE)
    with tempfile.TemporaryDirectory() as work:
        checkpoint = Path(work) / "babble"
        write_babble_checkpoint(checkpoint)
        model = load_reference(checkpoint)
    codes = greedy_codes(model, bundle)
    (samples,), _ = model.model.speech_tokenizer.decode([{"audio_codes": codes}])
    recording = hum()
    embedding = model.model.extract_speaker_embedding(recording, SAMPLE_RATE).numpy()
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        TARGET,
        text=np.array(TEXT),
        codes=codes.numpy().astype(np.int16),
        samples=samples,
        recording=recording,
        embedding=embedding,
    )
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes, {len(codes)} frames")


def greedy_codes(model, bundle: Bundle):
    """The reference's codes `[60, 16]`, with the end of speech forbidden."""
    import torch

    kept = []
    generate, decode = model.model.talker.generate, model.model.speech_tokenizer.decode
    model.model.talker.generate = lambda **inputs: generate(**{**inputs, "min_new_tokens": FRAMES + 1})
    model.model.speech_tokenizer.decode = lambda items: (kept.append(items[0]["audio_codes"]), decode(items))[1]
    item = reference("qwen_tts.inference.qwen3_tts_model").VoiceClonePromptItem
    embedding = torch.from_numpy(default_voice(bundle).embedding.copy())
    voice = [item(ref_code=None, ref_spk_embedding=embedding, x_vector_only_mode=True, icl_mode=False)]
    options = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": FRAMES + 1}
    model.generate_voice_clone(text=TEXT, language="French", voice_clone_prompt=voice, **options)
    model.model.speech_tokenizer.decode = decode
    return kept[0]


def hum() -> np.ndarray:
    """Two seconds that a speaker encoder can chew on: a gliding tone with overtones and a little noise."""
    time = np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * time)) / SAMPLE_RATE
    tone = sum(np.sin(k * phase) / k for k in range(1, 12))
    noise = np.random.default_rng(0).standard_normal(len(time))
    return (0.2 * tone + 0.01 * noise).astype(np.float32)


if __name__ == "__main__":
    main()
