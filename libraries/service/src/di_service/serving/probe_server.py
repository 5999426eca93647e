"""An HTTP server for probes and metrics that no other traffic can delay.

It serves a few pages, reads no bodies and keeps no connections open, so one event loop is enough: a
slow or silent client occupies a buffer and no thread. A kubelet without a response restarts the
process, so at the limit the source with the most connections loses one.
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
"""Maximum number of connections. One more closes the oldest of the source with the most."""
MOST_OF_SOURCE: Final = 256
"""Maximum number of connections from one address; one more closes its oldest."""
MOST_UNREAD: Final = 8 * 1024 * 1024
"""Maximum unsent bytes of responses; above it the largest of the source with the most is dropped. A
page of metrics has a hundred kilobytes or more, and its client may never read it.
"""
AT_ONCE: Final = 128
"""Burst of new connections from one address."""
PER_SECOND: Final = 200.0
"""Rate of new connections from one address. It is low enough to cost little. It is high enough that
a kubelet's probe, which shares its address with all clients on the node, waits less than its
timeout behind hundreds of others.
"""
SECONDS: Final = 10.0
"""Seconds from the opening of a connection to the last byte of its response; a page can depend on
an API server that takes half of them.
"""
_MOST_HEAD: Final = 8 * 1024
_SEND_BUFFER: Final = 16 * 1024
"""Bytes of an unread response that the kernel keeps in this container's memory."""
_END: Final = b"\r\n\r\n"
_PLAIN: Final = "text/plain; charset=utf-8"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """The response for a path."""

    body: bytes
    status: int = 200
    content_type: str = _PLAIN


Pages = Mapping[str, Callable[[], Page]]
"""Fast pages by path: they can be called on an event loop."""
SlowPages = Mapping[str, Callable[[], Page | Awaitable[Page]]]
"""Pages by path, some of which the event loop has to await."""


async def serve(pages: SlowPages, listeners: Sequence[socket.socket]) -> None:
    """Serve GET and HEAD on listening sockets until cancelled."""
    async with serving(pages, listeners):
        await asyncio.Event().wait()


@asynccontextmanager
async def serving(
    pages: SlowPages, listeners: Sequence[socket.socket], *, seconds: float = SECONDS
) -> AsyncIterator[None]:
    """Serve GET and HEAD on listening sockets, which are closed at the end."""
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
        # Accepted sockets inherit this from their listener.
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
        """Close without a response."""
        self._dropped = True
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.drop)
        if self._dropped:
            # It was evicted before it began.
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
        # Separate writes avoid a copy of the page, which all clients of the same second share.
        self._transport.write(head.encode())
        self._transport.write(body)
        # Closed once everything is sent; the deadline still applies.
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
    """Return method and path, and the status of a refusal or None."""
    words = received.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", "", HTTPStatus.BAD_REQUEST
    method, target, _ = words
    refusal = None if method in ("GET", "HEAD") else HTTPStatus.METHOD_NOT_ALLOWED
    return method, target.partition("?")[0], refusal


def _broken(path: str) -> Page:
    """Return the page for an exception that is being handled."""
    log.exception("a page cannot be made", extra={"path": path})
    return _said(HTTPStatus.INTERNAL_SERVER_ERROR)


def _said(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status)
