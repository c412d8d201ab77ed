"""What every request passes first: the Host it names, the token it carries; and what every answer carries."""

from __future__ import annotations

import hmac
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kazeia.serve.api_error import ApiError
from kazeia.serve.metrics import Metrics

OPEN_PATHS = ("/", "/healthz")
"""Need no token: a page without data, and a yes or no."""

LOCAL_HOST = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)


class Gate:
    """ASGI middleware.

    Args:
        token: what `Authorization: Bearer` must carry; None lets everyone in.
        local_only: refuse other Host names than this machine's, so that no web page can reach the service by
            pointing its own name here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, token: str | None, local_only: bool, metrics: Metrics) -> None:
        self._app = app
        self._token = token
        self._local_only = local_only
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.responses.labels(str(message["status"])).inc()
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error.response()(scope, receive, counted)
        else:
            await self._app(scope, receive, counted)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._local_only and not LOCAL_HOST.fullmatch(headers.get("host", "")):
            raise ApiError(403, "wrong_host", "ask for this service by localhost or 127.0.0.1, not by another name")
        if self._token is None or scope["path"] in OPEN_PATHS:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            challenge = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "invalid_token", "send the service's token: Authorization: Bearer TOKEN", headers=challenge)
