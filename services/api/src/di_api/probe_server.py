"""An HTTP endpoint for probes and metrics that no other traffic can delay.

It knows a few pages, reads no bodies and keeps no connection, so one event loop serves it: a
client that is slow, or says nothing, holds a buffer and no thread. A kubelet that cannot get an
answer restarts the process, so what keeps others from being answered is dropped first.
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

MOST_CONNECTIONS: Final = 256
"""At once. One more drops the oldest of them: a prober has sent its request by then."""
SECONDS: Final = 5.0
"""From the opening of a connection to the last byte of its answer."""
_BACKLOG: Final = 64
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
    open_ones: dict[_Connection, None] = {}

    def connect() -> _Connection:
        return _Connection(pages, open_ones, most=most, seconds=seconds)

    server = await asyncio.get_running_loop().create_server(
        connect, sock=listener, backlog=_BACKLOG
    )
    try:
        yield
    finally:
        server.close()
        for connection in list(open_ones):
            connection.drop()


class _Connection(asyncio.Protocol):
    def __init__(
        self, pages: Pages, others: dict[_Connection, None], *, most: int, seconds: float
    ) -> None:
        self._pages = pages
        # In the order they were opened, this one too once it is.
        self._others = others
        self._most = most
        self._seconds = seconds
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Close without another word."""
        if self._transport is not None:
            self._transport.abort()
        self._others.pop(self, None)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of uvloop it is of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.drop)
        self._others[self] = None
        if len(self._others) > self._most:
            next(iter(self._others)).drop()

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
        self._others.pop(self, None)

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
