"""A bundle of the smallest programs that keep the runner's contract, for tests of the runner alone.

The models are nonsense, but every part of the contract is at work: dynamic past, masks, positions, keys and values, state.
Weights come from a fixed seed. The result is committed, as lowering takes half a minute; after a change of this file or of the
contract, write it again:

    PYTHONPATH=orchestrator:. python -m tests.runner.tiny_bundle
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kazeia.bundle import CONTRACT_VERSION, EXECUTORCH_VERSION
from kazeia.export.lowering import lower
from kazeia.export.program import Method, ProgramSpec

TINY_BUNDLE = Path(__file__).parent / "tiny"
SEED = 7
WIDTH = 4  # hidden size of talker and predictor
LAYERS = 2
KV_HEADS = 2
HEAD_DIM = 2
CONTEXT = 24
PREFILL = 4
GROUPS = 16
CODEBOOK = 8
VOCAB = 12  # 8 codes, then control ids
EOS = 9
MAX_FRAMES = 3
SAMPLES_PER_FRAME = 5
SAMPLE_RATE = 24000
MEL_BINS = 4
MASK_VALUE = -1e9
TABLE_ROWS = [VOCAB] + [CODEBOOK] * (GROUPS - 1)


class Attention(nn.Module):
    """One cached attention layer, with the position added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, KV_HEADS * HEAD_DIM) for _ in range(3))
        self.out = nn.Linear(KV_HEADS * HEAD_DIM, WIDTH)

    def forward(self, x: Tensor, mask: Tensor, past_k: Tensor, past_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [1, T, D], mask [1, T, P+T], past [P, KV, H] -> [1, T, D], new keys and values [T, KV, H]."""
        shape = (x.shape[1], KV_HEADS, HEAD_DIM)
        q, k, v = self.q(x).view(shape), self.k(x).view(shape), self.v(x).view(shape)
        keys, values = torch.cat([past_k, k]), torch.cat([past_v, v])
        scores = torch.bmm(q.transpose(0, 1), keys.permute(1, 2, 0)) + mask
        mixed = torch.bmm(torch.softmax(scores, -1), values.transpose(0, 1))
        return x + self.out(mixed.transpose(0, 1).reshape(1, shape[0], KV_HEADS * HEAD_DIM)), k, v


class Transformer(nn.Module):
    """Layers of attention; returns the last row, [1, D], then all new keys, then all new values."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, past_k: list[Tensor], past_v: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """See the runner's transformer_pass.h."""
        x = embeds + 0.1 * positions.to(torch.float32).view(1, -1, 1)
        new_k, new_v = [], []
        for layer, k, v in zip(self.layers, past_k, past_v, strict=True):
            x, k_new, v_new = layer(x, mask, k, v)
            new_k.append(k_new)
            new_v.append(v_new)
        return (torch.tanh(x[:, -1]), *new_k, *new_v)


class Talker(nn.Module):
    """Transformer and the head of codebook 0."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = Transformer()
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, *inputs: Any) -> tuple[Tensor, ...]:
        """-> logits [1, V], hidden [1, D], new keys and values."""
        hidden, *rest = self.transformer(*inputs)
        return (self.head(hidden), hidden, *rest)


class Head(nn.Module):
    """The head of one further codebook."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CODEBOOK)

    def forward(self, hidden: Tensor) -> Tensor:
        """[1, Q] -> [1, codebook]."""
        return self.head(hidden)  # type: ignore[no-any-return]


class SpeechDecoder(nn.Module):
    """A leaky sum of the codes, written out as samples: the sum is the state."""

    def forward(self, codes: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """codes [1, G, F], state [1, 1] -> audio [1, F * samples_per_frame], next state."""
        sums = torch.cumsum(codes.to(torch.float32).sum(1), 1) + state
        ramp = torch.arange(1, SAMPLES_PER_FRAME + 1, dtype=torch.float32) / (SAMPLES_PER_FRAME * 1024)
        audio = (sums.unsqueeze(-1) * ramp).reshape(1, -1)
        return audio.clamp(-1, 1), sums[:, -1:]


class SpeakerEncoder(nn.Module):
    """The mean over the mel's frames."""

    def forward(self, mel: Tensor) -> Tensor:
        """[1, M, bins] -> [1, E]."""
        return mel.mean(1)


def _cached_inputs(tokens: int, past: int, layers: int = LAYERS) -> tuple[Any, ...]:
    caches = [torch.zeros(past, KV_HEADS, HEAD_DIM) for _ in range(2 * layers)]
    mask = torch.zeros(1, tokens, past + tokens)
    return torch.zeros(1, tokens, WIDTH), torch.zeros(tokens, dtype=torch.int64), mask, caches[:layers], caches[layers:]


def _cached_method(module: nn.Module, tokens: int, max_past: int) -> Method:
    past = torch.export.Dim("past", min=1, max=max_past)
    caches = [{0: past}] * LAYERS
    shapes: Any = ({}, {}, {2: past + tokens}, caches, caches)
    return Method(module, _cached_inputs(tokens, 3), (shapes,) if isinstance(module, Talker) else shapes)


def _talker(**changes: int | float) -> ProgramSpec:
    talker = Talker()
    methods = {
        "prefill": _cached_method(talker, PREFILL, CONTEXT - 1),
        "decode": _cached_method(talker, 1, CONTEXT - 1),
    }
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "context_length": CONTEXT,
        "prefill_tokens": PREFILL,
        "layers": LAYERS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_size": WIDTH,
        "vocab_size": VOCAB,
        "code_groups": GROUPS,
        "codebook_size": CODEBOOK,
        "codec_eos_id": EOS,
        "suppress_from": CODEBOOK,
        "past_dynamic": 1,
        "mask_value": MASK_VALUE,
    }
    return ProgramSpec("talker", methods, {**constants, **changes})


def _code_predictor() -> ProgramSpec:
    transformer = Transformer()
    methods = {"prefill": _cached_method(transformer, 2, GROUPS), "decode": _cached_method(transformer, 1, GROUPS)}
    for index in range(GROUPS - 1):
        methods[f"head_{index}"] = Method(Head(), (torch.zeros(1, WIDTH),))
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "layers": LAYERS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_size": WIDTH,
        "predictor_hidden_size": WIDTH,
        "code_groups": GROUPS,
        "codebook_size": CODEBOOK,
        "past_dynamic": 1,
        "mask_value": MASK_VALUE,
    }
    return ProgramSpec("code_predictor", methods, constants)


def _speech_decoder() -> ProgramSpec:
    frames = torch.export.Dim("frames", min=1, max=MAX_FRAMES)
    inputs = (torch.zeros(1, GROUPS, 2, dtype=torch.int64), torch.zeros(1, 1))
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "code_groups": GROUPS,
        "codebook_size": CODEBOOK,
        "max_frames": MAX_FRAMES,
        "samples_per_frame": SAMPLES_PER_FRAME,
        "sample_rate": SAMPLE_RATE,
        "state_count": 1,
    }
    return ProgramSpec("speech_decoder", {"decode": Method(SpeechDecoder(), inputs, ({2: frames}, {}))}, constants)


def _speaker_encoder() -> ProgramSpec:
    frames = torch.export.Dim("frames", min=2, max=64)
    constants: dict[str, int | float] = {
        "contract_version": CONTRACT_VERSION,
        "mel_bins": MEL_BINS,
        "min_mel_frames": 2,
        "max_mel_frames": 64,
        "embedding_size": MEL_BINS,
        "sample_rate": SAMPLE_RATE,
    }
    method = Method(SpeakerEncoder(), (torch.zeros(1, 3, MEL_BINS),), ({1: frames},))
    return ProgramSpec("speaker_encoder", {"encode": method}, constants)


PROGRAMS: dict[str, Callable[[], ProgramSpec]] = {
    "talker": _talker,
    "code_predictor": _code_predictor,
    "speech_decoder": _speech_decoder,
    "speaker_encoder": _speaker_encoder,
}


def seeded_models() -> tuple[dict[str, ProgramSpec], Tensor]:
    """The programs by name, and the codec embedding tables [V + 15 * codebook, D], with the bundle's own weights."""
    torch.manual_seed(SEED)
    specs = {name: build() for name, build in PROGRAMS.items()}
    modules = {id(method.module): method.module for spec in specs.values() for method in spec.methods.values()}
    for module in modules.values():
        for parameter in module.parameters():
            nn.init.uniform_(parameter, -1.0, 1.0)
    return specs, torch.empty(sum(TABLE_ROWS), WIDTH).uniform_(-1.0, 1.0)


def write_tiny_bundle(folder: Path) -> None:
    """Write the bundle into `folder`, which is emptied first: what the runner reads, nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    specs, table = seeded_models()
    for name, spec in specs.items():
        (folder / f"{name}.pte").write_bytes(lower(spec, "xnnpack", "fp32"))
    table.numpy().astype("<f4").tofile(folder / "codec_embeddings.bin")
    (folder / "manifest.json").write_text(json.dumps(_manifest(folder), indent=1) + "\n")


def _manifest(folder: Path) -> dict[str, Any]:
    return {
        "contract": CONTRACT_VERSION,
        "executorch": EXECUTORCH_VERSION,
        "model": {
            "hidden_size": WIDTH,
            "layers": LAYERS,
            "kv_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCAB,
            "code_groups": GROUPS,
            "codebook_size": CODEBOOK,
            "context_length": CONTEXT,
            "prefill_tokens": PREFILL,
            "sample_rate": SAMPLE_RATE,
            "samples_per_frame": SAMPLES_PER_FRAME,
            "speaker_embedding_size": MEL_BINS,
        },
        "programs": {name: {"file": f"{name}.pte"} for name in PROGRAMS},
        "tables": {"codec_embeddings": {"file": "codec_embeddings.bin", "dtype": "f32", "rows": TABLE_ROWS, "width": WIDTH}},
        "files": [{"name": path.name, "bytes": path.stat().st_size} for path in sorted(folder.iterdir())],
    }


if __name__ == "__main__":
    write_tiny_bundle(TINY_BUNDLE)
