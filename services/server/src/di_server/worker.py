"""The HTTP side of a process: gunicorn's threaded worker with read deadlines and a drain."""

# gunicorn ships no types, so its classes are Any to the type checker; the waivers below say so
# where a class of ours extends one of them.

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, Final

from gunicorn.http import get_parser  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.http.unreader import SocketUnreader  # type: ignore[import-untyped]
from gunicorn.workers import gthread  # type: ignore[import-untyped]

from di_api.linger import linger
from di_server.envelope import failure_body

READ_SECONDS: Final = 5.0
"""From the first byte of a request to its last: a client slower than this holds a thread for
nothing. One time-out a read would not do, a byte a second passes each of them."""
PROBE_THREADS: Final = 4
"""One may wait for the API server; the others see slow clients off."""


class ReadTimedOutError(TimeoutError):
    """The request did not arrive in time.

    The worker closes the connection without a word of log when it meets this errno; a plain
    TimeoutError would leave a traceback for every slow client.
    """

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the request did not arrive in time")


class DeadlineReader(SocketUnreader):  # type: ignore[misc]  # an untyped base
    """Reads a socket until a moment set by the first byte of each request."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._until: float | None = None

    def begin(self) -> None:
        """Forget the last request's deadline."""
        self._until = None

    def chunk(self, size_hint: int | None = None) -> bytes:
        now = time.monotonic()
        if self._until is None:
            self._until = now + READ_SECONDS
        if now >= self._until:
            raise ReadTimedOutError
        self.sock.settimeout(self._until - now)
        try:
            data: bytes = super().chunk(size_hint)
        except TimeoutError as error:
            raise ReadTimedOutError from error
        # Answers are written without a deadline; they fit the socket's buffer.
        self.sock.settimeout(None)
        return data


class Pools:
    """The worker's threads: those for requests, and a few for what comes to the health port.

    When the API server hangs, all threads for requests may wait for it; a kubelet whose probes
    waited behind them would restart the process, and with it end what they wait for.
    """

    def __init__(self, *, threads: int, health_port: int | None) -> None:
        self._health_port = health_port
        self._requests = ThreadPoolExecutor(threads)
        self._probes = ThreadPoolExecutor(PROBE_THREADS)

    def submit(self, handle: Callable[[Any], object], conn: Any) -> Future[object]:
        """Answer a connection of gunicorn's in a thread of the port it came to."""
        is_probe = conn.server[1] == self._health_port
        return (self._probes if is_probe else self._requests).submit(handle, conn)

    def shutdown(self, wait: bool = True) -> None:
        """Take no more."""
        for pool in (self._requests, self._probes):
            pool.shutdown(wait)


class DrainingWorker(gthread.ThreadWorker):  # type: ignore[misc]  # an untyped base
    """Serves until some time after SIGTERM, and refuses in the envelope."""

    def get_thread_pool(self) -> Pools:
        """The threads that answer."""
        return Pools(threads=self.cfg.threads, health_port=self.app.health_port)

    def enqueue_req(self, conn: Any) -> None:
        """Give a connection a reader with a deadline before a thread reads from it."""
        if conn.parser is None:
            conn.parser = get_parser(self.cfg, conn.sock, conn.client)
            conn.parser.unreader = DeadlineReader(conn.sock)
        conn.parser.unreader.begin()
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> object:
        """Answer a request, or let a connection that has said nothing wait in the poller."""
        if not conn.initialized and not conn.wait_for_data(0):
            return gthread._DEFER
        keep = super().handle(conn)
        if not keep:
            # Here, or the main loop would do it and keep all others waiting.
            linger(conn.sock)
        return keep

    def murder_pending(self) -> None:
        """Close what has said nothing for too long; at the end, at once."""
        if not self.alive:
            for conn in self.pending_conns:
                conn.timeout = 0.0
        super().murder_pending()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: say not ready, go on for a while, then finish what has begun."""
        draining: threading.Event = self.app.draining
        if draining.is_set():
            return
        draining.set()
        stop = threading.Timer(self.app.drain_seconds, super().handle_exit, (sig, frame))
        stop.daemon = True
        stop.start()

    def handle_error(
        self, req: object, client: socket.socket, addr: object, exc: Exception
    ) -> None:
        """Answer what never became a request, in the shape of every other answer."""
        match exc:
            case LimitRequestHeaders():
                status, message = "431 Request Header Fields Too Large", "too many header bytes"
            case LimitRequestLine():
                status, message = "400 Bad Request", "the request line is too long"
            case ParseException():
                status, message = "400 Bad Request", "this is not HTTP"
            case _:
                self.log.error("request failed", exc_info=exc)
                status, message = "500 Internal Server Error", "internal error"
        body = failure_body(message)
        head = (
            f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            client.sendall(head.encode() + body)
        except OSError as error:
            self.log.debug("client left before its refusal: %s", error)
