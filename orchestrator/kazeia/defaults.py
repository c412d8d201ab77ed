"""Named defaults, one place for command line and library."""

from __future__ import annotations

CONTEXT_LENGTH = 1024
"""Positions of the talker's KV cache: a prompt of 24 tokens leaves 1,000 frames, 80 s of speech."""

PREFILL_TOKENS = 16
"""Tokens a prefill call takes: an x-vector prompt has 9 or 10."""

MIN_FRAMES = 2
"""Frames before EOS is allowed (`min_new_tokens` of the reference's `generate`)."""

CAP_FLOOR_S = 4.0
CAP_S_PER_CHARACTER = 0.4
"""The automatic frame cap: generous for the slowest speech, far below the minutes of a run that never stops."""

FIRST_CHUNK_FRAMES = 1
CHUNK_GROWTH = 2
LARGEST_CHUNK_FRAMES = 16
"""Frames decoded at once: 1, 2, 4, 8, 16, 16, ...: sound early, then few calls."""

START_TIMEOUT_S = 120.0
"""A runner that loads a full-size model from a cold disk."""

ANSWER_TIMEOUT_S = 60.0
"""Silence of a running runner after which it counts as hung."""

EMULATED_ANSWER_TIMEOUT_S = 1800.0
"""Likewise, when it emulates the NPU: one frame of a full-size model takes minutes."""

BENCH_FRAMES = 50
BENCH_RUNS = 3
BENCH_PROMPT_TOKENS = 10
