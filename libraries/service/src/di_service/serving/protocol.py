"""uvicorn's HTTP protocol with bounds on all that a client decides."""

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
"""The JSON body that goes with a status and a reason."""


class _Refused(Exception):
    """The request ends here; raised through the parser, which then takes no more."""


class BoundedProtocol(HttpToolsProtocol):
    """Parses, queues and answers as uvicorn does; begins a request once all of it is here.

    So a request that is slow, large or no HTTP at all is refused by the event loop, and costs no
    thread.
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
        # Of the request that is being read.
        self._arriving = False
        self._in_head = True
        # Whether one has ended in the bytes that came last.
        self._completed = False
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_bound = 0
        self._cut = False
        # The application, while the request that is to go to it has not arrived in full.
        self._unread: Any = None

    # ------------------------------------------------------------ the connection
    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(
            LingeringTransport(transport, loop=self.loop, write_seconds=self._bounds.write_seconds)
        )
        # What the kernel does not take at once has a deadline. (With 0 for `high` a TLS transport
        # pauses on an empty buffer.)
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
        """Finish what has begun, then end; called when the front ends."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif self._read_timer:
            return
        else:
            # A request may be under way, on a new connection as on one that is kept. Its answer
            # tells the client to go elsewhere; without one the client would have to try again,
            # and an API server that asks a webhook does not.
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
            # Of a field without an end the parser says nothing.
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.head_bytes + self._bounds.line_bytes:
                self._refused = (431, "too many header bytes")
                self.send_400_response("")

    def _too_slow(self) -> None:
        self._refused = (408, "the request did not arrive in time")
        self.send_400_response("")

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what never became a request, in the shape of every other answer."""
        if self._cut:
            return
        self._read_timer.stop()
        status, message = self._refused or (400, "this is not HTTP")
        self._fault(message)
        if self._connection.serving:
            # An answer is due before this one; a client that breaks HTTP behind a request that
            # it waits for gets none.
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
        """Who asks for another protocol is answered in this one, and is worth no line of log."""

    # ------------------------------------------------------------ what the parser finds
    @override
    def on_message_begin(self) -> None:
        if self._cut:
            raise _Refused
        if self._connection.serving:
            # Allowed, and what nobody does who reads the answers: a flood.
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
            # A field behind the body. It is not one of the request's.
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
        """Go on with what there is of a body that is too long: the application says how long it
        may be, and this connection ends with its answer."""
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
        """Run from now, unless it runs already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, late)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
