"""A WSGI application behind an ASGI server, in a bounded number of threads."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from di_service.serving.bounds import Tenant
from di_service.serving.later import LATER, Later, Waits
from di_service.serving.penalties import Penalties
from di_service.serving.streams import STREAM, Stream, Streams
from di_service.serving.turns import Flow, Turns
from di_service.sources import plain_address, source_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

    from di_service.serving.protocol import Refusal

_Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
_PIECE: Final = 64 * 1024
"""Bytes of a long response that are passed on at once: an unread response is in memory once, plus
one piece per client.
"""
_STREAM_THREADS: Final = 8
"""Separate threads for the data of streams: while the API server is slow, streams and requests do
not delay each other.
"""
_PLAIN: Final = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


class ThreadedApplication:
    """Calls the application with complete requests in memory, and sends its whole response.

    A thread never reads from a client or writes to one.
    """

    def __init__(
        self,
        application: WSGIApplication,
        *,
        threads: int,
        queue_seconds: float,
        refusal: Refusal,
        penalties: Penalties,
        counts_refused_tokens: bool,
        tenant: Tenant,
    ) -> None:
        self._application = application
        self._tenant = tenant
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="request")
        self._turns = Turns(threads, slows=penalties.slows)
        self._penalties = penalties
        self._counts_refused_tokens = counts_refused_tokens
        self._queue_seconds = queue_seconds
        self._refusal = refusal
        self._waits = Waits()
        self._stream_pool = ThreadPoolExecutor(_STREAM_THREADS, thread_name_prefix="stream")
        self._streams = Streams(self._stream_pool)

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Answer one request."""
        message: Any = await receive()
        if message["type"] != "http.request":
            return
        source = source_of(scope["client"][0]) if scope["client"] else ""
        flow = Flow(source, self._tenant(scope["path"], message["body"]))
        try:
            # A request that waits too long never reaches a thread.
            turn = await self._turns.take(flow, self._queue_seconds)
        except TimeoutError:
            await _send(send, *self._busy())
            return
        environ = _environ(scope, message["body"])
        with _closing_its_stream(environ):
            try:
                answer = await asyncio.get_running_loop().run_in_executor(
                    self._pool, _call, self._application, environ
                )
            finally:
                self._turns.give_back(turn)
            if self._counts_refused_tokens and answer[0] == HTTPStatus.UNAUTHORIZED:
                self._penalties.count(source, "credentials that do not hold")
            # A waiting request holds no thread and no place.
            if (stream := environ.get(STREAM)) is not None and scope["method"] != "HEAD":
                await self._send_stream(send, answer, stream, receive)
                return
            if (later := environ.get(LATER)) is not None:
                answer = await self._once_there_is_news(later, answer, receive)
            await _send(send, *answer)

    async def _send_stream(
        self,
        send: ASGISendCallable,
        answer: _Answer,
        stream: Stream,
        receive: ASGIReceiveCallable,
    ) -> None:
        status, headers, body = answer
        # Without a length the response is chunked.
        kept = [field for field in headers if field[0].lower() != b"content-length"]
        await send({"type": "http.response.start", "status": status, "headers": kept})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        pieces = self._streams.pieces(stream, receive)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _once_there_is_news(
        self, later: Later, answer: _Answer, receive: ASGIReceiveCallable
    ) -> _Answer:
        body = await self._waits.until_news(later, receive)
        if body is None:
            return answer
        status, headers, _ = answer
        kept = [field for field in headers if field[0].lower() != b"content-length"]
        return status, [*kept, (b"content-length", b"%d" % len(body))], body

    def leave(self) -> None:
        """Answer the requests that wait for news, end all streams, and accept no further ones."""
        self._waits.end()
        self._streams.end()

    def close(self) -> None:
        """Start no more calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stream_pool.shutdown(wait=False, cancel_futures=True)

    def _busy(self) -> _Answer:
        body = self._refusal(503, "too many requests are being served, try again")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"retry-after", b"1"),
        ]
        return 503, headers, body


@contextlib.contextmanager
def _closing_its_stream(environ: WSGIEnvironment) -> Iterator[None]:
    try:
        yield
    finally:
        if (stream := environ.get(STREAM)) is not None:
            stream.close()


def _call(application: WSGIApplication, environ: WSGIEnvironment) -> _Answer:
    begun: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Any:
        begun[:] = [status, headers]
        return None

    begin: StartResponse = start_response
    parts = application(environ, begin)
    try:
        body = b"".join(parts)
    finally:
        # Flask runs its hooks for the end of a request here.
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    status, headers = begun
    return (
        int(status.split(" ", 1)[0]),
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        body,
    )


async def _send(
    send: ASGISendCallable, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for begin in range(0, max(1, len(body)), _PIECE):
        piece = body[begin : begin + _PIECE]
        more = begin + _PIECE < len(body)
        await send({"type": "http.response.body", "body": piece, "more_body": more})


def _environ(scope: HTTPScope, body: bytes) -> WSGIEnvironment:
    server, client = scope["server"] or ("", 0), scope["client"] or ("", 0)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": plain_address(client[0]),
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        # The input ends with the body, also if no length was sent.
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw, value in scope["headers"]:
        if b"_" in raw:
            # X_Y would be mistaken for X-Y.
            continue
        name = _PLAIN.get(raw) or "HTTP_" + raw.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        environ[name] = f"{environ[name]},{text}" if name in environ else text
    return environ
