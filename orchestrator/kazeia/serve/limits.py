"""What the service allows. Times are in seconds."""

from __future__ import annotations

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8125
DEFAULT_QUEUE = 32
"""Requests that may wait; one more gets 429."""

UNREAD_RESPONSES = 32
"""Speech whose readers are slow; each holds at most one context of 16-bit sound, 4 MB. More get 429."""

REQUEST_TIMEOUT_S = 300.0
"""From admission until the last sample is ready, waiting included."""
WRITE_TIMEOUT_S = 30.0
"""A reader that takes nothing for so long is cut off."""
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 10.0
LINGER_S = 2.0
"""How long the rest of a refused body is read and dropped, so that the client sees the refusal."""
SHUTDOWN_TIMEOUT_S = 10
"""Speech under way may end within this; then it is cancelled."""
IDLE_CHECK_S = 1.0

MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 256 * 1024
MAX_INPUT_CHARACTERS = 16_384
WRITE_BYTES = 64 * 1024

MIN_TOKEN_CHARACTERS = 16
