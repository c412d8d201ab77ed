"""Failures as OpenAI's API words them: a status, and `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from kazeia.errors import AudioError, DeviceError, KazeiaError, NothingToSay, PromptTooLong, RunnerError, UsageError, VoiceError

FIELD_OF_OPTION = {"speaker": "voice", "instruct": "instructions"}
"""Where a command-line option and the request's field differ."""

OPTION = re.compile(r"--([a-z][a-z-]*)")


class ApiError(Exception):
    """A refusal or a failure that a client can read."""

    def __init__(
        self, status: int, code: str, message: str, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def response(self) -> Response:
        return Response(self.body(), self.status, self.headers, "application/json")


def speaking_error(error: KazeiaError) -> ApiError:
    """The answer to a request that Kazeia could not speak."""
    message = str(error)
    if isinstance(error, NothingToSay):
        return ApiError(400, "nothing_to_say", message, "input")
    if isinstance(error, PromptTooLong):
        return ApiError(400, "input_too_long", message, "input")
    if isinstance(error, VoiceError):
        return ApiError(400, "invalid_voice", message, "voice")
    if isinstance(error, UsageError):
        named = OPTION.search(message)
        return ApiError(400, "invalid_value", OPTION.sub(_field, message), _field(named) if named else None)
    if isinstance(error, RunnerError | DeviceError):
        return ApiError(503, "runner_failed", message, headers={"Retry-After": "1"})
    if isinstance(error, AudioError):
        return ApiError(500, "bad_sound", message)
    return ApiError(500, "internal_error", message)


def _field(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    return FIELD_OF_OPTION.get(name, name)
