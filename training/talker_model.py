"""Talker and code predictor as they are trained: whole utterances at once, parameters named as in the checkpoint.

One thing here is not in the checkpoint: probes that read the talker's states, whose losses teach it where it is in the text,
which phone it speaks and what the frame sounds like, long before the codes alone would.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kazeia.checkpoint.config import CodePredictorConfig, TalkerConfig
from training.codes import ENTRIES, LAG_CODEBOOK, WIDTH
from training.decoder_model import MLP, RMSNorm, rotated, rotations
from training.talker_data import PHONES

INITIAL_SPREAD = 0.02
GUIDED_LAYER, PACED_LAYER = 3, 2
"""Layers that are taught the place in the text: by then a position has read its neighbours."""
GUIDED_OFFSETS = (0, 1, -1)
"""The guided layer's first heads look at the token being spoken, the next and the last one: letters sound by their neighbours."""

MOVES = 4
"""By how many tokens a frame may be further than the last one, and one more."""
LAG_SPREAD = 0.06


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, config: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(width, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, width, bias=False)
        self.q_norm, self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps), RMSNorm(self.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], shown_heads: int = 0) -> tuple[Tensor, Tensor | None]:
        """[B, T, D] to the same, and the log of the first `shown_heads` heads' attention [B, heads, T, T]."""
        q = rotated(self.q_norm(self.q_proj(x).unflatten(2, (self.heads, self.head_dim))).transpose(1, 2), rotation)
        k = rotated(self.k_norm(self.k_proj(x).unflatten(2, (self.kv_heads, self.head_dim))).transpose(1, 2), rotation)
        v = self.v_proj(x).unflatten(2, (self.kv_heads, self.head_dim)).transpose(1, 2)
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        # by hand: on a CPU the fused attention's backward pass takes several times as long for a few positions
        scores = (q @ k.transpose(2, 3) * self.head_dim**-0.5).masked_fill(future, float("-inf"))
        y = scores.softmax(-1).to(v.dtype) @ v
        shown = scores[:, :shown_heads].log_softmax(-1) if shown_heads else None
        return self.o_proj(y.transpose(1, 2).flatten(2)), shown


class Layer(nn.Module):
    def __init__(self, config: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), MLP(config.hidden_size, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], shown_heads: int = 0) -> tuple[Tensor, Tensor | None]:
        change, shown = self.self_attn(self.input_layernorm(x), rotation, shown_heads)
        x = x + change
        return x + self.mlp(self.post_attention_layernorm(x)), shown


class Stack(nn.Module):
    """Layers and the final norm."""

    def __init__(self, config: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def rotation(self, length: int) -> tuple[Tensor, Tensor]:
        return rotations(length, self.config.head_dim, self.config.rope_theta)

    def forward(self, x: Tensor) -> Tensor:
        rotation = self.rotation(x.shape[1])
        for layer in self.layers:
            x, _ = layer(x, rotation)
        y: Tensor = self.norm(x)
        return y


class PredictorStack(Stack):
    def __init__(self, config: CodePredictorConfig, talker_width: int) -> None:
        super().__init__(config)
        count = config.num_code_groups - 1
        self.codec_embedding = nn.ModuleList(nn.Embedding(config.vocab_size, talker_width) for _ in range(count))


class CodePredictor(nn.Module):
    def __init__(self, config: CodePredictorConfig, talker_width: int) -> None:
        super().__init__()
        if config.hidden_size != talker_width:
            raise ValueError("the built-in model's talker and code predictor are equally wide")
        self.model = PredictorStack(config, talker_width)
        self.lm_head = nn.ModuleList(
            nn.Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.num_code_groups - 1)
        )

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Talker states [N, D] and the embeddings [N, 15, D] of codes 0 to 14: logits [N, 15, V] of codes 1 to 15."""
        states = self.model(torch.cat([hidden[:, None], embedded], 1))
        return torch.stack([head(states[:, 1 + i]) for i, head in enumerate(self.lm_head)], 1)


class TextProjection(nn.Module):
    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(inner, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear_fc2(F.silu(self.linear_fc1(x)))
        return y


class TalkerStack(Stack):
    def __init__(self, config: TalkerConfig) -> None:
        super().__init__(config)
        self.codec_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.text_embedding = nn.Embedding(config.text_vocab_size, config.text_hidden_size)


class TalkerStates(NamedTuple):
    """hidden [B, T, D] after the final norm; paced and read [B, T, D] of PACED_LAYER and GUIDED_LAYER.

    log_attention [B, heads, T, T] of the guided heads.
    """

    hidden: Tensor
    paced: Tensor
    read: Tensor
    log_attention: Tensor


class Talker(nn.Module):
    """`talker.*` of the checkpoint."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.model = TalkerStack(config)
        self.text_projection = TextProjection(config.text_hidden_size, config.hidden_size)
        self.codec_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.code_predictor = CodePredictor(config.code_predictor_config, config.hidden_size)

    def text(self, ids: Tensor) -> Tensor:
        """[...] to [..., D]: projected text embeddings."""
        y: Tensor = self.text_projection(self.model.text_embedding(ids))
        return y

    def embedded_codes(self, codes: Tensor) -> Tensor:
        """Codes [..., 16] to the embedding of each [..., 16, D]."""
        tables = [self.model.codec_embedding, *self.code_predictor.model.codec_embedding]
        return torch.stack([table(codes[..., i]) for i, table in enumerate(tables)], -2)

    def forward(self, embeddings: Tensor) -> TalkerStates:
        """[B, T, D] prompt and frames."""
        x, rotation = embeddings, self.model.rotation(embeddings.shape[1])
        for index, layer in enumerate(self.model.layers):
            x, shown = layer(x, rotation, len(GUIDED_OFFSETS) if index == GUIDED_LAYER else 0)
            if shown is not None:
                read, log_attention = x, shown
            if index == PACED_LAYER:
                paced = x
        return TalkerStates(self.model.norm(x), paced, read, log_attention)


class Lecture(nn.Module):
    """The talker with what only its training needs: the voices' embeddings and the probes."""

    def __init__(self, config: TalkerConfig, voices: int) -> None:
        super().__init__()
        self.talker = Talker(config)
        self.voices = nn.Embedding(voices, config.hidden_size)
        self.frame_probe = nn.Linear(config.hidden_size, WIDTH)
        self.start_probe = nn.Linear(config.hidden_size, 1)
        self.move_probe = nn.Linear(config.hidden_size, MOVES)
        self.phone_probe = nn.Linear(config.hidden_size, PHONES)
        self.apply(_initialise)
        for stack in (self.talker.model, self.talker.code_predictor.model):
            for name, weight in stack.named_parameters():
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    nn.init.normal_(weight, std=INITIAL_SPREAD / (2 * len(stack.layers)) ** 0.5)
        cosine, sine = rotations(ENTRIES, config.head_dim, config.rope_theta)
        with torch.no_grad():  # a lag begins as the rotation that turns a query to the token so far back
            lags = self.get_parameter(f"talker.code_predictor.model.codec_embedding.{LAG_CODEBOOK - 1}.weight")
            lags[:, : 2 * cosine.shape[1]] = LAG_SPREAD * torch.cat([cosine, sine], 1)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_SPREAD * (2 if isinstance(module, nn.Embedding) else 1))
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
