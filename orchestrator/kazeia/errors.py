"""Every failure a user can meet, as one tree. Only `cli.py` maps it to an exit code.

    KazeiaError                   exit 1
    ├── UsageError                exit 2   a wrong option or value
    ├── NothingToSay              exit 3   text without a letter or a digit
    ├── PromptTooLong             exit 4   text beyond the context
    ├── CheckpointError           exit 5   a checkpoint that is missing, broken or foreign
    ├── BundleError               exit 6   a bundle that is missing, broken or of another contract
    ├── VoiceError                exit 7   an unknown, broken or mismatched voice
    ├── AudioError                exit 8   a recording that cannot be read, a sound that cannot be written
    ├── ExportError               exit 9   a model that cannot be exported as asked
    ├── RunnerError               exit 10  the runner is missing, died, answered garbage or reported an error
    ├── DeviceError               exit 11  a device that is missing, unreachable or refuses
    ├── FrameCapReached           exit 12  speech stopped by the frame cap, not by its own end
    ├── PhrasesFailed             exit 13  a batch in which some phrases have no sound
    └── ChecksFailed              exit 14  kz doctor found something bad

A message says what failed and what to do next, in one line.
"""

from __future__ import annotations


class KazeiaError(Exception):
    """Base of all: `str(error)` is the one line a user reads."""

    exit_code = 1


class UsageError(KazeiaError):
    exit_code = 2


class NothingToSay(KazeiaError):
    exit_code = 3

    def __init__(self) -> None:
        super().__init__("nothing to say: the text has no letter or digit; give at least one word")


class PromptTooLong(KazeiaError):
    exit_code = 4


class CheckpointError(KazeiaError):
    exit_code = 5


class BundleError(KazeiaError):
    exit_code = 6


class VoiceError(KazeiaError):
    exit_code = 7


class AudioError(KazeiaError):
    exit_code = 8


class ExportError(KazeiaError):
    exit_code = 9


class RunnerError(KazeiaError):
    exit_code = 10


class DeviceError(KazeiaError):
    exit_code = 11


class FrameCapReached(KazeiaError):
    exit_code = 12


class PhrasesFailed(KazeiaError):
    exit_code = 13


class ChecksFailed(KazeiaError):
    exit_code = 14
