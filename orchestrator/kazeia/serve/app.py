"""The routes."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kazeia import __version__
from kazeia.languages import AUTO, selectable
from kazeia.serve.api_error import ApiError
from kazeia.serve.gate import Gate
from kazeia.serve.job import Job
from kazeia.serve.limits import BODY_TIMEOUT_S, MAX_BODY_BYTES, MAX_INPUT_CHARACTERS
from kazeia.serve.metrics import CONTENT_TYPE, Metrics
from kazeia.serve.speech_queue import QueueFull, SpeechQueue
from kazeia.serve.speech_request import model_names, parse_request, speak_options, voice_names
from kazeia.serve.speech_response import SpeechResponse
from kazeia.templates import render

ERROR_CODES = {404: "not_found", 405: "method_not_allowed"}


def make_app(queue: SpeechQueue, metrics: Metrics, token: str | None, local_only: bool) -> Starlette:
    """The service's ASGI application over a queue that has been entered."""
    service = _Service(queue, metrics, token)
    return Starlette(
        routes=[
            Route("/", service.page),
            Route("/v1/audio/speech", service.speech, methods=["POST"]),
            Route("/v1/voices", service.voices),
            Route("/v1/models", service.models),
            Route("/v1/models/{name:path}", service.model),
            Route("/healthz", service.health),
            Route("/metrics", service.metrics),
        ],
        middleware=[Middleware(Gate, token=token, local_only=local_only, metrics=metrics)],
        exception_handlers={ApiError: _api_error, HTTPException: _http_error, Exception: _internal_error},
    )


class _Service:
    def __init__(self, queue: SpeechQueue, metrics: Metrics, token: str | None) -> None:
        self._queue = queue
        self._metrics = metrics
        self._needs_token = token is not None
        self._started_s = int(time.time())

    async def speech(self, request: Request) -> ASGIApp:
        """`POST /v1/audio/speech`"""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "not_json", "send JSON, with the header Content-Type: application/json")
        try:
            body = await asyncio.wait_for(_read_body(request), BODY_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise ApiError(408, "request_too_slow", f"no complete body within {BODY_TIMEOUT_S:.0f} s") from None
        except ClientDisconnect:
            return Response()
        bundle = self._queue.bundle
        parsed = await asyncio.to_thread(parse_request, body, bundle)
        # HTTP/1.0 marks the end of a stream by closing, which a failure would look like.
        stream = parsed.stream and request.scope["http_version"] != "1.0"
        job = Job(parsed, speak_options(parsed, bundle), stream=stream)
        try:
            self._queue.submit(job)
        except QueueFull as full:
            wait = {"Retry-After": str(full.retry_after_s)}
            raise ApiError(429, "queue_full", "too many requests wait; ask again later", headers=wait) from None
        return SpeechResponse(self._queue, job, self._metrics)

    async def voices(self, request: Request) -> Response:
        """`GET /v1/voices`: what `voice` and `language` may be."""
        bundle = self._queue.bundle
        names = await asyncio.to_thread(voice_names, bundle)
        languages = [AUTO, *selectable(bundle.manifest.model.languages)]
        return _json({"object": "list", "data": [{"id": name, "name": name} for name in names], "languages": languages})

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`"""
        return _json({"object": "list", "data": [self._model(name) for name in model_names(self._queue.bundle)]})

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/NAME`"""
        name = request.path_params["name"]
        if name not in model_names(self._queue.bundle):
            raise ApiError(404, "model_not_found", f"unknown model {name!r}", "model")
        return _json(self._model(name))

    async def health(self, request: Request) -> Response:
        """`GET /healthz`: 200 while the runners are loaded and answer."""
        return _json({"status": self._queue.state}, 200 if self._queue.state == "ok" else 503)

    async def metrics(self, request: Request) -> Response:
        """`GET /metrics`"""
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: Request) -> Response:
        """`GET /`: a page to type, listen and download."""
        manifest = self._queue.bundle.manifest
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "media-src blob:; img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
        )
        html = render(
            "serve.html.j2",
            nonce=nonce,
            version=__version__,
            model=manifest.model.name,
            notice=manifest.builtin,
            max_characters=MAX_INPUT_CHARACTERS,
            needs_token=self._needs_token,
            takes_instructions=manifest.model.kind != "base" and manifest.model.size != "0b6",
        )
        return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._started_s, "owned_by": "kazeia"}


async def _read_body(request: Request) -> bytes:
    """The body, as long as it is not too long; of a longer one no more than that is kept.

    Raises:
        ApiError: 413.
    """
    too_long = ApiError(413, "body_too_large", f"the body is larger than {MAX_BODY_BYTES} bytes; send less text")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise too_long
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise too_long
    return bytes(body)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, {"Cache-Control": "no-store"}, "application/json")


def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = ERROR_CODES.get(error.status_code, "invalid_request")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return ApiError(error.status_code, code, message, headers=error.headers).response()


def _internal_error(request: Request, error: Exception) -> Response:
    return ApiError(500, "internal_error", f"internal error: {type(error).__name__}; see the service's log").response()
