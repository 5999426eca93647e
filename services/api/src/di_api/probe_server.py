"""An HTTP endpoint for probes and metrics that no other traffic can delay.

It knows a few pages, reads no bodies and keeps no connection, so one event loop serves it: a
client that is slow, or says nothing, holds a buffer and no thread. A kubelet that cannot get an
answer restarts the process, so the source that has most connections loses one for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

from typing_extensions import override

from di_api.serving.acceptor import Acceptor
from di_api.serving.guests import Guest, Guests

MOST_CONNECTIONS: Final = 1024
"""At once. One more drops the oldest of the source that has most."""
MOST_OF_SOURCE: Final = 512
"""Connections from one address; one more drops the oldest of them. Who is dropped comes again at
once, and that costs more than a connection that says nothing."""
SECONDS: Final = 5.0
"""From the opening of a connection to the last byte of its answer."""
_MOST_HEAD: Final = 8 * 1024
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
"""By path. They are called on the event loop, so they must be quick."""


@asynccontextmanager
async def serving(
    pages: Pages,
    listener: socket.socket,
    *,
    most: int = MOST_CONNECTIONS,
    seconds: float = SECONDS,
) -> AsyncIterator[None]:
    """Answer GET and HEAD on a listening socket, which is closed at the end."""
    loop = asyncio.get_running_loop()
    # Bodies are never kept, so there is nothing to count of them.
    guests = Guests(most=most, most_of_source=MOST_OF_SOURCE, most_bytes=0)
    beginning: set[asyncio.Task[object]] = set()
    connections: set[_Connection] = set()

    def welcome(sock: socket.socket, guest: Guest) -> None:
        connection = _Connection(pages, guest, connections, seconds=seconds)
        task = loop.create_task(loop.connect_accepted_socket(lambda: connection, sock))
        beginning.add(task)
        task.add_done_callback(beginning.discard)

    acceptor = Acceptor(listener, guests=guests, welcome=welcome)
    try:
        yield
    finally:
        acceptor.close()
        if beginning:
            await asyncio.wait(beginning)
        for connection in list(connections):
            connection.drop()


class _Connection(asyncio.Protocol):
    def __init__(
        self, pages: Pages, guest: Guest, others: set[_Connection], *, seconds: float
    ) -> None:
        self._pages = pages
        self._guest = guest
        guest.end = self.drop
        self._others = others
        self._seconds = seconds
        self._dropped = False
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

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
        self._others.add(self)
        if self._dropped:
            # Its place was lost before it began.
            self._transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        self._received += data
        if _END in self._received[-len(data) - len(_END) :]:
            self._answer(*_request(bytes(self._received)))
        elif len(self._received) > _MOST_HEAD:
            self._answer("", "", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._others.discard(self)
        self._guest.leave()

    def _answer(self, method: str, path: str, refusal: HTTPStatus | None) -> None:
        assert self._transport is not None
        page = self._page(path) if refusal is None else _said(refusal)
        head = (
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(page.body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if method == "HEAD" else page.body))
        # Once all is sent; the deadline still holds.
        self._transport.close()

    def _page(self, path: str) -> Page:
        page = self._pages.get(path)
        if page is None:
            return _said(HTTPStatus.NOT_FOUND)
        try:
            return page()
        except Exception:
            log.exception("a page cannot be made", extra={"path": path})
            return _said(HTTPStatus.INTERNAL_SERVER_ERROR)


def _request(received: bytes) -> tuple[str, str, HTTPStatus | None]:
    """Method and path; and the refusal, None if there is none."""
    words = received.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", "", HTTPStatus.BAD_REQUEST
    method, target, _ = words
    refusal = None if method in ("GET", "HEAD") else HTTPStatus.METHOD_NOT_ALLOWED
    return method, target.partition("?")[0], refusal


def _said(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status)
