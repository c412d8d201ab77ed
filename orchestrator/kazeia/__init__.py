"""Kazeia: Qwen3-TTS on a Snapdragon tablet's NPU.

`Synthesizer` speaks; everything else is reached through the command `kz`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kazeia.synthesis import Speech as Speech
    from kazeia.synthesis import Synthesizer as Synthesizer

__version__ = "0.1.0"
__all__ = ["Speech", "Synthesizer", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the library on first use, so that `import kazeia` and `kz --help` stay instant."""
    if name in ("Speech", "Synthesizer"):
        from kazeia import synthesis

        return getattr(synthesis, name)
    raise AttributeError(f"module 'kazeia' has no attribute {name!r}")
