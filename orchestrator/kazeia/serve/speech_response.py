"""The answer to a request to speak: nothing is sent before there is sound, and nothing incomplete looks complete."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import unicodedata
from typing import Any
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from kazeia.serve.api_error import ApiError, speaking_error
from kazeia.serve.encoding import MEDIA_TYPES
from kazeia.serve.http_connection import connection_of
from kazeia.serve.job import Chunk, Event, Failed, Finished, Job
from kazeia.serve.limits import REQUEST_TIMEOUT_S, WRITE_BYTES, WRITE_TIMEOUT_S
from kazeia.serve.metrics import Metrics
from kazeia.serve.speech_queue import SpeechQueue
from kazeia.synthesis import Statistics

logger = logging.getLogger(__name__)


class _CutOff(Exception):
    """The response cannot be completed; `reason` is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SpeechResponse:
    """An ASGI application for one job; releases it at the end."""

    def __init__(self, queue: SpeechQueue, job: Job, metrics: Metrics) -> None:
        self._queue = queue
        self._job = job
        self._metrics = metrics
        self._started = False
        self._deadline = time.monotonic() + REQUEST_TIMEOUT_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            await self._answer(gone, send)
        except ApiError as error:
            await error.response()(scope, receive, send)
        except _CutOff as cut:
            if self._started:
                self._metrics.cut_off.labels(cut.reason).inc()
            logger.warning("response ended early: %s", cut.reason)
            connection_of(scope).abort()
            await gone
        except asyncio.CancelledError:
            connection_of(scope).abort()
        finally:
            gone.cancel()
            self._queue.release(self._job)

    async def _answer(self, gone: asyncio.Future[None], send: Send) -> None:
        """Send the whole answer.

        Raises:
            ApiError: it failed before the first byte.
            _CutOff: it failed later, or the client is gone or takes nothing.
        """
        event = await self._next(gone)
        while isinstance(event, Chunk):
            if not self._started:
                await self._begin(send, self._headers())
            await self._write(send, event.data)
            event = await self._next(gone)
        if isinstance(event, Failed):
            raise speaking_error(event.error)
        if not self._started:
            await self._begin(send, {**self._headers(), **_end_headers(event)})
        await self._write(send, event.data)
        await self._send(send, {"type": "http.response.body", "body": b""})
        self._log(event.statistics)

    async def _next(self, gone: asyncio.Future[None]) -> Event:
        waiting = asyncio.ensure_future(self._job.next_event())
        timeout_s = max(0.0, self._deadline - time.monotonic())
        both: list[asyncio.Future[Any]] = [waiting, gone]
        await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            waiting.cancel()
            raise _CutOff("client left")
        if not waiting.done():
            waiting.cancel()
            if self._started:
                raise _CutOff("time limit")
            raise ApiError(503, "timed_out", f"not spoken within {REQUEST_TIMEOUT_S:.0f} s; ask again, or for less text")
        event = waiting.result()
        if isinstance(event, Failed) and self._started:
            raise _CutOff("failed")
        return event

    async def _begin(self, send: Send, headers: dict[str, str]) -> None:
        self._started = True
        raw = [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": raw})

    async def _write(self, send: Send, data: bytes) -> None:
        for start in range(0, len(data), WRITE_BYTES):
            part = data[start : start + WRITE_BYTES]
            await self._send(send, {"type": "http.response.body", "body": part, "more_body": True})

    async def _send(self, send: Send, message: dict[str, object]) -> None:
        try:
            await asyncio.wait_for(send(message), WRITE_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise _CutOff("slow reader") from None

    def _headers(self) -> dict[str, str]:
        request = self._job.request
        headers = {
            "Content-Type": MEDIA_TYPES[request.response_format],
            "Content-Disposition": content_disposition(f"{request.voice}-{request.seed}.{request.response_format}"),
            "Cache-Control": "no-store",
            "X-Kazeia-Seed": str(request.seed),
            "X-Kazeia-Sample-Rate": str(self._queue.bundle.manifest.model.sample_rate),
        }
        if self._job.warning:
            headers["X-Kazeia-Warning"] = quote(self._job.warning, safe=" ,;:.()'")
        return headers

    def _log(self, statistics: Statistics) -> None:
        cut = ", CUT OFF by the frame cap" if statistics.stop_reason == "frame_cap" else ""
        logger.info(
            "spoke %d frames, %.2f s, RTF %.2f, first audio after %.0f ms, seed %d%s",
            statistics.frames,
            statistics.audio_s,
            statistics.rtf,
            statistics.first_audio_ms,
            statistics.seed,
            cut,
        )


def content_disposition(name: str) -> str:
    """`name` for a download, in ASCII and, where that loses something, in UTF-8 too (RFC 6266)."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", plain).lstrip(". -") or "speech"
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{encoded}'


def _end_headers(end: Finished) -> dict[str, str]:
    """What only a finished speech can say."""
    return {
        "Content-Length": str(len(end.data)),
        "X-Kazeia-Stop-Reason": end.statistics.stop_reason,
        "X-Kazeia-Frames": str(end.statistics.frames),
    }


async def _hung_up(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
