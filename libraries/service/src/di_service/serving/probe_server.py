"""An HTTP endpoint for probes and metrics that no other traffic can delay.

It knows a few pages, reads no bodies and keeps no connection, so one event loop serves it: a
client that is slow, or says nothing, holds a buffer and no thread. A kubelet that cannot get an
answer restarts the process, so the source that has most connections loses one for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

from typing_extensions import override

from di_service.serving.acceptor import Acceptor
from di_service.serving.arrivals import Arrivals
from di_service.serving.connections import Connection, Connections
from di_service.token_buckets import TokenBuckets

MOST_CONNECTIONS: Final = 1024
"""At once. One more drops the oldest of the source that has most."""
MOST_OF_SOURCE: Final = 256
"""Connections from one address; one more drops the oldest of them."""
MOST_UNREAD: Final = 8 * 1024 * 1024
"""Bytes of answers that are not all sent; more drops the largest of the source that has most. A
page of metrics has a hundred kilobytes or more, and who asks for it may never read it."""
AT_ONCE: Final = 128
"""New connections from one address that has opened none of late."""
PER_SECOND: Final = 200.0
"""New connections from one address that opens one after another. Few enough to cost little, and so
many that a probe of the kubelet, which has its address in common with all that use the node's,
waits less for hundreds of others than for its time-out."""
SECONDS: Final = 10.0
"""From the opening of a connection to the last byte of its answer; a page may have to ask an API
server that takes half of them."""
_MOST_HEAD: Final = 8 * 1024
_SEND_BUFFER: Final = 16 * 1024
"""Bytes that the kernel keeps of an answer that nobody reads, on account of this container."""
_END: Final = b"\r\n\r\n"
_PLAIN: Final = "text/plain; charset=utf-8"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """What a path answers."""

    body: bytes
    status: int = 200
    content_type: str = _PLAIN


Pages = Mapping[str, Callable[[], Page]]
"""By path. They are quick: they may be called on an event loop."""
SlowPages = Mapping[str, Callable[[], Page | Awaitable[Page]]]
"""The same, with pages that the event loop has to wait for."""


async def serve(pages: SlowPages, listeners: Sequence[socket.socket]) -> None:
    """Answer GET and HEAD on listening sockets until it is cancelled."""
    async with serving(pages, listeners):
        await asyncio.Event().wait()


@asynccontextmanager
async def serving(
    pages: SlowPages, listeners: Sequence[socket.socket], *, seconds: float = SECONDS
) -> AsyncIterator[None]:
    """Answer GET and HEAD on listening sockets, which are closed at the end."""
    connections = Connections(
        most=MOST_CONNECTIONS, most_of_source=MOST_OF_SOURCE, most_bytes=MOST_UNREAD
    )
    pace = TokenBuckets[str](rate=PER_SECOND, burst=AT_ONCE, clock=time.monotonic)
    arrivals = Arrivals(seconds=seconds, pace=pace)
    beginning: set[asyncio.Task[object]] = set()

    def begin(sock: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        protocol = _Protocol(pages, connection, seconds=seconds)
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, sock))
        beginning.add(task)
        task.add_done_callback(beginning.discard)

    for listener in listeners:
        # Accepted sockets have it from their listener.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    acceptors = [
        Acceptor(listener, connections=connections, arrivals=arrivals, begin=begin)
        for listener in listeners
    ]
    try:
        yield
    finally:
        for acceptor in acceptors:
            acceptor.close()
        arrivals.close()
        for connection in connections:
            connection.end()
        if beginning:
            await asyncio.wait(beginning)


class _Protocol(asyncio.Protocol):
    def __init__(self, pages: SlowPages, connection: Connection, *, seconds: float) -> None:
        self._pages = pages
        self._connection = connection
        connection.end = self.drop
        self._seconds = seconds
        self._dropped = False
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None

    def drop(self) -> None:
        """Close without another word."""
        self._dropped = True
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of uvloop it is of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.drop)
        if self._dropped:
            # Its place was lost before it began.
            self._transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing() or self._answering is not None:
            return
        self._received += data
        if _END in self._received[-len(data) - len(_END) :]:
            self._answer(*_request(bytes(self._received)))
        elif len(self._received) > _MOST_HEAD:
            self._send("", _said(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._connection.release()

    def _answer(self, method: str, path: str, refusal: HTTPStatus | None) -> None:
        page = self._page(path) if refusal is None else _said(refusal)
        if isinstance(page, Page):
            self._send(method, page)
        else:
            self._answering = asyncio.get_running_loop().create_task(self._wait(method, path, page))

    async def _wait(self, method: str, path: str, page: Awaitable[Page]) -> None:
        try:
            self._send(method, await page)
        except Exception:
            self._send(method, _broken(path))

    def _send(self, method: str, page: Page) -> None:
        assert self._transport is not None
        head = (
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(page.body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        body = b"" if method == "HEAD" else page.body
        self._connection.grow(len(body))
        if self._dropped:
            return
        # One after the other, for the page not to be copied: all who ask within a second share it.
        self._transport.write(head.encode())
        self._transport.write(body)
        # Once all is sent; the deadline still holds.
        self._transport.close()

    def _page(self, path: str) -> Page | Awaitable[Page]:
        page = self._pages.get(path)
        if page is None:
            return _said(HTTPStatus.NOT_FOUND)
        try:
            return page()
        except Exception:
            return _broken(path)


def _request(received: bytes) -> tuple[str, str, HTTPStatus | None]:
    """Method and path; and the refusal, None if there is none."""
    words = received.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", "", HTTPStatus.BAD_REQUEST
    method, target, _ = words
    refusal = None if method in ("GET", "HEAD") else HTTPStatus.METHOD_NOT_ALLOWED
    return method, target.partition("?")[0], refusal


def _broken(path: str) -> Page:
    """Called where the exception is handled."""
    log.exception("a page cannot be made", extra={"path": path})
    return _said(HTTPStatus.INTERNAL_SERVER_ERROR)


def _said(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status)
