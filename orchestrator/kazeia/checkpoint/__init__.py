"""Checkpoints of Qwen3-TTS 12Hz: read, described, recognised, and made up at random."""

from __future__ import annotations

from kazeia.checkpoint.reader import Checkpoint

__all__ = ["Checkpoint"]
