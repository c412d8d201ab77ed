"""uvicorn's HTTP/1.1 connection with limits it has no settings for, and refusals in JSON."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from kazeia.serve.api_error import ApiError
from kazeia.serve.limits import HEAD_TIMEOUT_S, LINGER_S, MAX_CONNECTIONS, MAX_HEAD_BYTES, WRITE_TIMEOUT_S

CONNECTION_KEY = "connection"


class HttpConnection(H11Protocol):
    """One client's connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.app_state = {**self.app_state, CONNECTION_KEY: self}
        self._head_timer: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(ApiError(503, "too_many_connections", f"more than {MAX_CONNECTIONS} connections; close some"))
        else:
            self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._untime_head()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        # h11 measures a head only while it is incomplete: in small pieces, a long one is never taken whole.
        for start in range(0, len(data), MAX_HEAD_BYTES):
            if not self._refused:
                super().data_received(data[start : start + MAX_HEAD_BYTES])
        if self.conn.their_state is h11.IDLE and not self._refused:
            self._time_head()
        else:
            self._untime_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER_S, self._stop_reading_body, self.cycle)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # Closing waits for the reader to take what is left; not for ever.
        self.loop.call_later(WRITE_TIMEOUT_S, self.abort)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(ApiError(400, "invalid_http", "this is not a valid HTTP/1.1 request, or its head is too long"))
        else:
            self.abort()

    def abort(self) -> None:
        """Close now, without sending what is left or the end of a chunked body."""
        self.transport.abort()

    def _stop_reading_body(self, cycle: object) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.abort()

    def _time_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _untime_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(ApiError(408, "request_too_slow", f"no complete request head within {HEAD_TIMEOUT_S:.0f} s"))

    def _refuse(self, error: ApiError) -> None:
        """Answer outside any request, and close; what still comes is dropped."""
        self._refused = True
        body = error.body()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        head = h11.Response(status_code=error.status, headers=headers, reason=HTTPStatus(error.status).phrase)
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in (head, h11.Data(data=body), h11.EndOfMessage())))
        # Closing while something unread arrives would reset the connection, and the client might never see the answer.
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)


def connection_of(scope: Scope) -> HttpConnection:
    """The connection a request came by."""
    connection = scope["state"][CONNECTION_KEY]
    assert isinstance(connection, HttpConnection)
    return connection
