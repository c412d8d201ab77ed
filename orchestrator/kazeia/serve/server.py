"""Binding, logging, running until a signal."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable

import uvicorn

from kazeia.errors import UsageError
from kazeia.serve.app import make_app
from kazeia.serve.http_connection import HttpConnection
from kazeia.serve.limits import MAX_HEAD_BYTES, MIN_TOKEN_CHARACTERS, SHUTDOWN_TIMEOUT_S
from kazeia.serve.metrics import Metrics
from kazeia.serve.speech_queue import SpeechQueue
from kazeia.synthesis import Synthesizer


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        UsageError: no such address here, or it is in use.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server((str(address[0]), port), family=family, backlog=128)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --host or --port") from None


def is_local(listener: socket.socket) -> bool:
    """Can only this machine reach it?"""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def check_token(token: str | None, listener: socket.socket) -> None:
    """Is there a token where one is needed, and is it a good one?

    Raises:
        UsageError: none where others could reach the service, or one that is easy to guess or cannot be sent.
    """
    if token is None:
        if not is_local(listener):
            raise UsageError(
                f"others could reach {listener.getsockname()[0]}: set a token with --token or $KZ_TOKEN, or leave --host as it is"
            )
    elif len(token) < MIN_TOKEN_CHARACTERS or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(
            f"the token must have at least {MIN_TOKEN_CHARACTERS} letters, digits or signs of ASCII and no space; "
            "make one with: openssl rand -hex 16"
        )


def address(listener: socket.socket) -> str:
    """The URL people open."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    listener: socket.socket,
    open_synthesizer: Callable[[], Synthesizer],
    queue_limit: int,
    token: str | None,
    ready: Callable[[SpeechQueue], None],
) -> None:
    """Answer until SIGINT or SIGTERM; then let speech under way end, for a while, and end the runners.

    Args:
        ready: called once, when requests are about to be answered.

    Raises:
        KazeiaError: the runners cannot be started.
    """
    _log_to_stderr()
    metrics = Metrics()
    with SpeechQueue(open_synthesizer, queue_limit, metrics) as queue:
        config = uvicorn.Config(
            make_app(queue, metrics, token, local_only=token is None),
            http=HttpConnection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        )
        ready(queue)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            # uvicorn raises the signal again once it has shut down: that was the way to end.
            logging.getLogger(__name__).info("stopped")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    for name in ("kazeia.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
