"""One running `kz_runner`, spoken to as runner/PROTOCOL.md says: a JSON header line, then a raw payload."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

import msgspec

from kazeia import __version__
from kazeia.bundle import CONTRACT_VERSION, read_manifest
from kazeia.defaults import ANSWER_TIMEOUT_S, EMULATED_ANSWER_TIMEOUT_S, START_TIMEOUT_S
from kazeia.devices.base import Channel, Device
from kazeia.errors import RunnerError

PROTOCOL_VERSION = 1
HEADER_LIMIT_BYTES = 64 * 1024
PAYLOAD_LIMIT_BYTES = 1 << 30
READ_BYTES = 1 << 16
OUT_OF_MEMORY_STATUSES = (-9, 137)

Role: TypeAlias = Literal["generate", "decode", "embed"]


class Ready(msgspec.Struct, tag_field="type", tag="ready"):
    """The runner has loaded its programs."""

    protocol: int
    contract: int
    version: str
    executorch: str
    backends: list[str]
    threads: int
    load_ms: float
    npu_emulated: bool = False
    """The NPU's programs run in an emulator: what they compute is right, the time they take means nothing."""
    files: dict[str, str] = {}
    """SHA-256 of the bundle's files that were loaded, by name."""


class Frame(msgspec.Struct, tag_field="type", tag="frame"):
    """Payload: 16 little-endian int16 codebook IDs."""

    id: str
    index: int


class Done(msgspec.Struct, tag_field="type", tag="done"):
    """A generation has ended; times are totals in milliseconds."""

    id: str
    stop_reason: Literal["eos", "frame_cap", "cancelled"]
    frames: int
    prefill_ms: float
    talker_ms: float
    predictor_ms: float
    kv_copied_bytes: int
    calls_per_frame: float
    peak_rss_bytes: int
    npu_calls_per_frame: float = 0.0
    kv_copied_bytes_per_step: float = 0.0


class Audio(msgspec.Struct, tag_field="type", tag="audio"):
    """Payload: float32 samples in [-1, 1]."""

    id: str
    samples: int
    decode_ms: float
    peak_rss_bytes: int = 0


class Embedding(msgspec.Struct, tag_field="type", tag="embedding"):
    """Payload: one float32 speaker embedding."""

    id: str
    size: int
    embed_ms: float


class Failure(msgspec.Struct, tag_field="type", tag="error"):
    """The runner refuses or could not do it."""

    code: str
    message: str
    id: str = ""


Answer: TypeAlias = Ready | Frame | Done | Audio | Embedding | Failure


class _Envelope(msgspec.Struct):
    payload_bytes: int = 0


class RunnerClient:
    """Owns one runner process. Not thread-safe; use it as a context manager."""

    def __init__(self, device: Device, bundle: Path, role: Role, threads: int | None = None) -> None:
        arguments = ["--role", role]
        if threads is not None:
            arguments += ["--threads", str(threads)]
        self._device_name = device.name
        self._bundle = bundle
        self._channel: Channel = device.open_runner(bundle, arguments)
        self._buffer = bytearray()
        self._requests = 0
        self._answer_timeout_s = ANSWER_TIMEOUT_S
        self._unanswered = 0
        self._answers = msgspec.json.Decoder(Answer)
        self._envelopes = msgspec.json.Decoder(_Envelope)

    def __enter__(self) -> RunnerClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def wait_ready(self) -> Ready:
        """Wait until the runner has loaded; checks that both sides speak the same versions.

        Raises:
            RunnerError: it could not load, or is another version.
        """
        answer, _ = self._receive(START_TIMEOUT_S)
        if not isinstance(answer, Ready):
            raise self._broken(f"said {type(answer).__name__} before it was ready")
        theirs, ours = (answer.protocol, answer.contract, answer.version), (PROTOCOL_VERSION, CONTRACT_VERSION, __version__)
        if theirs != ours:
            raise RunnerError(
                "the runner on {} speaks protocol {}, contract {}, version {}; this kz needs {}, {} and {}: "
                "install the same kazeia on both sides".format(self._device_name, *theirs, *ours)
            )
        self._check_loaded(answer.files)
        if answer.npu_emulated:
            self._answer_timeout_s = EMULATED_ANSWER_TIMEOUT_S
        return answer

    def send(self, header: dict[str, Any], payload: bytes = b"") -> str:
        """Send a request and return its new id."""
        self._requests += 1
        self._unanswered += 1
        request_id = str(self._requests)
        self._write({**header, "id": request_id}, payload)
        return request_id

    def cancel(self, request_id: str) -> None:
        """Ask a running generation to stop; it still answers with `Done`."""
        self._write({"type": "cancel", "id": request_id}, b"")

    def receive(self, timeout_s: float | None = None) -> tuple[Answer, bytes]:
        """The next answer and its payload; `timeout_s` None for as long as such a runner may be silent.

        Raises:
            RunnerError: the runner reports an error, died, hangs or answers garbage.
        """
        return self._receive(self._answer_timeout_s if timeout_s is None else timeout_s)

    def answer_waiting(self) -> bool:
        """Has something arrived that `receive` would not have to wait for?"""
        return bool(self._buffer) or self._channel.ready()

    def close(self) -> None:
        """End the runner: at once if it is still at work, by closing its input otherwise."""
        if self._unanswered:
            self._channel.kill()
        self._channel.close()

    def _write(self, header: dict[str, Any], payload: bytes) -> None:
        line = msgspec.json.encode({**header, "payload_bytes": len(payload)})
        self._channel.write(line + b"\n" + payload)

    def _check_loaded(self, files: dict[str, str]) -> None:
        """Are the loaded files those of this side's bundle?"""
        expected = {file.name: file.sha256 for file in read_manifest(self._bundle).files} if files else {}
        for name, digest in files.items():
            if expected.get(name) != digest:
                raise RunnerError(
                    f"the runner on {self._device_name} loaded another {name} than this bundle has; run kz deploy again"
                )

    def _receive(self, timeout_s: float) -> tuple[Answer, bytes]:
        line = self._read_line(timeout_s)
        try:
            size_bytes = self._envelopes.decode(line).payload_bytes
            answer = self._answers.decode(line)
        except msgspec.DecodeError:
            raise self._broken(f"answered garbage ({bytes(line[:40])!r})") from None
        if not 0 <= size_bytes <= PAYLOAD_LIMIT_BYTES:
            raise self._broken(f"announced a payload of {size_bytes} bytes")
        while len(self._buffer) < size_bytes:
            self._fill(timeout_s)
        payload = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        if not isinstance(answer, Ready | Frame):
            self._unanswered -= 1
        if isinstance(answer, Failure):
            raise RunnerError(answer.message)
        return answer, payload

    def _read_line(self, timeout_s: float) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > HEADER_LIMIT_BYTES:
                raise self._broken("answered garbage (a header without an end)")
            self._fill(timeout_s)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _fill(self, timeout_s: float) -> None:
        try:
            data = self._channel.read(READ_BYTES, timeout_s)
        except TimeoutError:
            raise self._broken(f"did not answer for {timeout_s:.0f} s and was stopped") from None
        if not data:
            raise self._ended()
        self._buffer += data

    def _broken(self, what: str) -> RunnerError:
        """An error for a runner that can no longer be understood; ends it."""
        self._channel.kill()
        return RunnerError(f"the runner on {self._device_name} {what}; try again, and install kazeia again if it stays so")

    def _ended(self) -> RunnerError:
        log = self._channel.log_tail().strip().splitlines()
        status = self._channel.close()
        if status in OUT_OF_MEMORY_STATUSES:
            return RunnerError(
                f"the runner on {self._device_name} was killed (signal 9), most likely for memory; "
                "close other programs or use a smaller or more quantised bundle"
            )
        detail = f": {log[-1]}" if log else ""
        return RunnerError(f"the runner on {self._device_name} ended early (status {status}){detail}; try again")
