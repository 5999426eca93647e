"""uvicorn's HTTP protocol with limits on everything that a client controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from di_service.serving.bounds import Bounds
from di_service.serving.connections import Connection
from di_service.serving.lingering import LingeringTransport

Refusal = Callable[[int, str], bytes]
"""Returns the JSON body for a status and a reason."""


class _Refused(Exception):
    """Ends the request; raised through the parser, which then reads no more."""


class BoundedProtocol(HttpToolsProtocol):
    """Parses, queues and answers as uvicorn does, but starts a request only when it is complete.

    So the event loop refuses a request that is slow, too large or invalid, and no thread is used.
    """

    transport: Any

    def __init__(
        self,
        config: Config,
        state: ServerState,
        *,
        connection: Connection,
        fault: Callable[[str], None],
        bounds: Bounds,
        refusal: Refusal,
        ending: asyncio.Event,
    ) -> None:
        super().__init__(config, state, {})
        self._connection = connection
        self._fault = fault
        self._bounds = bounds
        self._refusal = refusal
        self._ending = ending
        self._refused: tuple[int, str] | None = None
        self._read_timer = _Timer(self.loop, bounds.read_seconds)
        self._write_timer = _Timer(self.loop, bounds.write_seconds)
        # State of the request that is being read.
        self._arriving = False
        self._in_head = True
        # Whether a request ended in the last bytes.
        self._completed = False
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_bound = 0
        self._cut = False
        # The application, while its request is incomplete.
        self._unread: Any = None

    # ------------------------------------------------------------ the connection
    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(
            LingeringTransport(transport, loop=self.loop, write_seconds=self._bounds.write_seconds)
        )
        # Data that the kernel does not accept at once has a deadline. (With 0 for `high` a TLS
        # transport pauses on an empty buffer.)
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait_for_request()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._read_timer.stop()
        self._write_timer.stop()
        self._unset_keepalive_if_required()
        self._connection.release()
        self._unread = None
        super().connection_lost(exc)
        self.transport.ended()

    @override
    def shutdown(self) -> None:
        """Finish running requests, then close; called when the front shuts down."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif self._read_timer:
            return
        else:
            # A request can be on its way, on a new connection as on an old one. Its response tells
            # the client to reconnect; without a response the client would have to retry, which an
            # API server that calls a webhook does not.
            self._wait_for_request()

    @override
    def timeout_keep_alive_handler(self) -> None:
        self.transport.close_now()

    def _wait_for_request(self) -> None:
        self._unset_keepalive_if_required()
        bounds = self._bounds
        seconds = bounds.leave_seconds if self._ending.is_set() else bounds.idle_seconds
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    # ------------------------------------------------------------ reading
    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._cut:
            self.transport.discard(data)
            return
        self._completed = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._connection.serving:
            self._read_timer.start(self._too_slow)
        if self._arriving and self._in_head and not self._completed:
            # The parser does not report an endless header.
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.head_bytes + self._bounds.line_bytes:
                self._refused = (431, "too many header bytes")
                self.send_400_response("")

    def _too_slow(self) -> None:
        self._refused = (408, "the request did not arrive in time")
        self.send_400_response("")

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer input that never became a request, in the form of every other response."""
        if self._cut:
            return
        self._read_timer.stop()
        status, message = self._refused or (400, "this is not HTTP")
        self._fault(message)
        if self._connection.serving:
            # An earlier response is due; a client that violates HTTP behind a pending request gets
            # none.
            self.transport.abort()
            return
        self._unread = None
        body = self._refusal(status, message)
        head = (
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()

    @override
    def _unsupported_upgrade_warning(self) -> None:
        """Ignore a protocol upgrade silently: the response uses this protocol, and no line is
        logged.
        """

    # ------------------------------------------------------------ what the parser finds
    @override
    def on_message_begin(self) -> None:
        if self._cut:
            raise _Refused
        if self._connection.serving:
            # Allowed by HTTP, but no client does so that reads its responses: a flood.
            self._fault("requests before the last one was answered")
        super().on_message_begin()
        self._arriving = self._in_head = True
        self._head_bytes = self._body_bytes = 0

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._bounds.line_bytes:
            self._refuse(400, "the request line is too long")

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            # A trailer behind the body, which is not a header of the request.
            return
        super().on_header(name, value)
        if (
            len(name) + len(value) > self._bounds.field_bytes
            or len(self.headers) > self._bounds.fields
        ):
            self._refuse(431, "too many header bytes")

    @override
    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._bounds.pipelined:
            self._refuse(400, "too many requests at once on one connection")
        fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if fields > self._bounds.head_bytes:
            self._refuse(
                431, f"the headers must not be longer than {self._bounds.head_bytes} bytes"
            )
        self._in_head = False
        super().on_headers_complete()
        self._body_bound = self._bounds.body_bytes(self.scope["path"])
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if self._ending.is_set():
            self.cycle.keep_alive = False
        if int(length) > self._body_bound:
            self._cut_body()
        elif self.cycle.waiting_for_100_continue and self._unread is not None:
            self.cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    @override
    def on_body(self, body: bytes) -> None:
        if self._cut:
            return
        kept = body[: self._body_bound + 1 - self._body_bytes]
        self._body_bytes += len(kept)
        self.cycle.body += kept
        self._connection.grow(len(kept))
        if self._body_bytes > self._body_bound:
            self._cut_body()

    @override
    def on_message_complete(self) -> None:
        if not self._cut:
            self._complete()

    def _cut_body(self) -> None:
        """Pass on the first part of a body that is too long: the application reports the limit, and
        the connection ends with that response.
        """
        self._cut = True
        self.cycle.keep_alive = False
        self._complete()

    def _complete(self) -> None:
        super().on_message_complete()
        self._arriving = False
        self._completed = True
        self._read_timer.stop()
        if self._unread is not None:
            app, self._unread = self._unread, None
            self._begin(self.cycle, app)

    def _refuse(self, status: int, message: str) -> None:
        self._refused = (status, message)
        raise _Refused

    # ------------------------------------------------------------ answering
    @override
    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if cycle.more_body:
            self._unread = app
        else:
            self._begin(cycle, app)

    def _begin(self, cycle: Any, app: Any) -> None:
        self._connection.begin()
        super()._start_asgi_task(cycle, app)

    @override
    def on_response_complete(self) -> None:
        self._connection.answered()
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._connection.serving:
            return
        if self._arriving:
            # The next request has begun to arrive behind this one.
            self._unset_keepalive_if_required()
            self._read_timer.start(self._too_slow)
        elif self._ending.is_set():
            self.transport.close()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer.start(self._unread_answer)

    def _unread_answer(self) -> None:
        self._fault("an answer was not read in time")
        self.transport.abort()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_timer.stop()


class _Timer:
    """A deadline that runs or does not; true while it runs."""

    __slots__ = ("_handle", "_loop", "_seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._handle is not None

    def start(self, late: Callable[[], object]) -> None:
        """Start now, unless it runs already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, late)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
