"""The least a test needs to talk to a kz_runner."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.runner.build import Preset, built_runner

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int16]

GREEDY: dict[str, Any] = {
    "greedy": True,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "repetition_penalty": 1.0,
    "predictor_greedy": True,
    "predictor_temperature": 1.0,
    "predictor_top_k": 0,
    "predictor_top_p": 1.0,
}
SAMPLED = {**GREEDY, "greedy": False, "predictor_greedy": False, "top_k": 6, "top_p": 0.95, "predictor_top_k": 5}


class Runner:
    """One runner process; a context manager. `ready` is its first message."""

    def __init__(self, bundle: Path, role: str, *arguments: str, preset: Preset = "release") -> None:
        command = [str(built_runner(preset)), "--bundle", str(bundle), "--role", role, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self.ready, _ = self.receive()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one message."""
        self._stdin.write(json.dumps({**header, "payload_bytes": len(payload)}).encode() + b"\n" + payload)
        self._stdin.flush()

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next message and its payload."""
        header: dict[str, Any] = json.loads(self._stdout.readline())
        return header, self._stdout.read(header["payload_bytes"])

    def generate(self, prompt: Floats, trailing: Floats, pad: Floats, **options: Any) -> tuple[Codes, dict[str, Any]]:
        """Codes [frames, groups] of a whole generation, and its last message."""
        header = {"prompt_tokens": len(prompt), "trailing_tokens": len(trailing), "hidden_size": prompt.shape[1]}
        limits = {"seed": 0, "max_frames": 100, "min_frames": 2}
        payload = b"".join(part.astype("<f4").tobytes() for part in (prompt, trailing, pad))
        self.send({"type": "generate", "id": "g", **header, **limits, **options}, payload)
        frames: list[Codes] = []
        while True:
            answer, payload = self.receive()
            if answer["type"] != "frame":
                return np.array(frames, np.int16), answer
            frames.append(np.frombuffer(payload, "<i2"))

    def decode(self, codes: Codes, reset: bool) -> Floats:
        """Samples of `codes` [frames, groups]."""
        self.send({"type": "decode", "id": "d", "frames": len(codes), "reset": reset}, codes.astype("<i2").tobytes())
        answer, payload = self.receive()
        assert answer["type"] == "audio", answer
        return np.frombuffer(payload, "<f4")

    def finish(self) -> int:
        """Close standard input; the exit code."""
        self._stdin.close()
        return self.process.wait(timeout=60)
