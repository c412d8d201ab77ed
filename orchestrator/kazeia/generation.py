"""One request to a generating runner: a prompt goes in, frames come out as they are predicted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kazeia.bundle import Model
from kazeia.defaults import CAP_FLOOR_S, CAP_S_PER_CHARACTER
from kazeia.errors import PromptTooLong, RunnerError, UsageError
from kazeia.prompt import Prompt
from kazeia.runner_client import Done, Frame, RunnerClient
from kazeia.sampling import SamplingOptions

Codes: TypeAlias = NDArray[np.int16]


class Generation:
    """A running generation. Iterate over it for frames, then read `done`."""

    def __init__(
        self, client: RunnerClient, model: Model, prompt: Prompt, sampling: SamplingOptions, seed: int, max_frames: int
    ) -> None:
        self.done: Done | None = None
        self._client = client
        self._groups = model.code_groups
        parts = (prompt.embeddings, prompt.trailing, prompt.pad)
        header = {
            "type": "generate",
            "prompt_tokens": len(prompt.embeddings),
            "trailing_tokens": len(prompt.trailing),
            "hidden_size": model.hidden_size,
            "seed": seed,
            "max_frames": max_frames,
            **sampling.header(),
        }
        self._id = client.send(header, b"".join(np.ascontiguousarray(part, "<f4").tobytes() for part in parts))

    def __iter__(self) -> Iterator[Codes]:
        """Yield each frame, int16 `[16]`.

        Raises:
            RunnerError: the runner reports an error, died, hangs or answers garbage.
        """
        while self.done is None:
            answer, payload = self._client.receive()
            if isinstance(answer, Done):
                self.done = answer
            elif isinstance(answer, Frame) and len(payload) == 2 * self._groups:
                yield np.frombuffer(payload, "<i2")
            else:
                raise RunnerError(f"the runner answered {type(answer).__name__} to a generate request; install kazeia again")

    def frame_waiting(self) -> bool:
        """Would the next frame, or the end, come without waiting?"""
        return self.done is None and self._client.answer_waiting()

    def cancel(self) -> None:
        """Stop early and leave the runner ready for the next request; frames on their way are dropped."""
        if self.done is None:
            self._client.cancel(self._id)
            for _ in self:
                pass


def frame_limit(model: Model, prompt: Prompt, max_frames: int | None) -> int:
    """Frames a request may take: the given cap, or one from the text's length; never beyond the context.

    Raises:
        UsageError: the given cap is not positive.
        PromptTooLong: the prompt, or the text that trails it, does not fit the context.
    """
    room = model.context_length - len(prompt.embeddings)
    needed = len(prompt.trailing) + 1
    if room < needed:
        over = needed - room
        raise PromptTooLong(
            f"the text needs {over} more positions than this bundle's context of {model.context_length}; "
            f"shorten it by about {over} tokens ({over * 4} characters), or export with a larger --context"
        )
    if max_frames is None:
        frame_rate = model.sample_rate / model.samples_per_frame
        seconds = CAP_FLOOR_S + CAP_S_PER_CHARACTER * len(prompt.text)
        max_frames = max(int(seconds * frame_rate), needed)
    elif max_frames < 1:
        raise UsageError(f"--max-frames must be at least 1, not {max_frames}")
    return min(max_frames, room)
