"""One application on its sockets: accepts, does TLS handshakes, and shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Collection, Sequence
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from di_service.serving.acceptor import Acceptor
from di_service.serving.arrivals import Arrivals
from di_service.serving.bounds import LINGER_SECONDS, Bounds
from di_service.serving.connections import Connection, Connections
from di_service.serving.penalties import Penalties
from di_service.serving.protocol import BoundedProtocol, Refusal
from di_service.serving.wsgi import ThreadedApplication
from di_service.token_buckets import TokenBuckets

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_SEND_BUFFER: Final = 128 * 1024
"""Kernel memory of a connection whose client does not read; it counts as the pod's memory."""
_TLS_BUFFER: Final = 32 * 1024
"""TLS buffer in bytes. With asyncio's default, 256 KiB from the start, a thousand idle connections
would exceed the pod's memory. A TLS record is 16 KiB at most.
"""
_LOOK_SECONDS: Final = 0.02

_log = logging.getLogger("gunicorn.error")


class Front:
    """Serves an application on listening sockets in the event loop that runs it."""

    def __init__(
        self,
        application: WSGIApplication,
        *,
        threads: int,
        bounds: Bounds,
        refusal: Refusal,
        tls: Callable[[], ssl.SSLContext] | None = None,
        tls_port: int | None = None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            application: called in threads.
            threads: number of concurrent requests.
            bounds: limits on clients.
            refusal: the body of a response that the application does not create.
            tls: returns the context for a new connection; None: plain HTTP.
            tls_port: the only port with TLS; None: all ports.
        """
        self._application = application
        self._threads = threads
        self._bounds = bounds
        self._refusal = refusal
        self._tls = tls
        self._tls_port = tls_port
        self._state = ServerState()
        self._penalties = Penalties()
        self._pace = TokenBuckets[str](
            rate=bounds.connections_per_second,
            burst=bounds.connections_at_once,
            clock=time.monotonic,
        )
        self._connections = Connections(
            most=bounds.connections,
            most_of_source=bounds.connections_of_source,
            most_bytes=bounds.bodies_bytes,
            crowded=partial(self._came_to_nothing, "too many connections"),
            # A busy pool of connections opens more than it uses, and closes them. So a source that
            # reuses some can open as many others.
            kept=self._pace.give,
        )
        self._arrivals = Arrivals(
            seconds=bounds.handshake_seconds,
            pace=self._pace,
            slows=self._penalties.slows,
        )
        self._handshakes: dict[asyncio.Task[None], Connection] = {}
        self._ended = asyncio.Event()

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    async def serve(self, sockets: Sequence[socket.socket], *, grace: float) -> None:
        """Serve until `stop`, then finish running requests.

        Args:
            sockets: listening sockets; closed at the end.
            grace: seconds for running requests.
        """
        sslproto.SSLProtocol.max_size = _TLS_BUFFER
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report)
        app = ThreadedApplication(
            self._application,
            threads=self._threads,
            queue_seconds=self._bounds.queue_seconds,
            refusal=self._refusal,
            penalties=self._penalties,
            counts_refused_tokens=self._bounds.counts_refused_tokens,
            tenant=self._bounds.tenant,
        )
        config = _uvicorn(app, self._bounds)
        acceptors = []
        for sock in sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            acceptors.append(
                Acceptor(
                    sock,
                    connections=self._connections,
                    arrivals=self._arrivals,
                    begin=partial(self._begin, config, self._tls_of(sock)),
                )
            )
        while not self._ended.is_set():
            self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 1.0)
        for acceptor in acceptors:
            acceptor.close()
        self._arrivals.close()
        app.leave()
        await self._finish(loop.time() + grace)
        app.close()

    def stop(self) -> None:
        """End `serve`; called in its event loop."""
        self._ended.set()

    def _tls_of(self, listener: socket.socket) -> Callable[[], ssl.SSLContext] | None:
        return self._tls if self._tls_port in (None, listener.getsockname()[1]) else None

    def _begin(
        self,
        config: Config,
        tls: Callable[[], ssl.SSLContext] | None,
        sock: socket.socket,
        connection: Connection,
    ) -> None:
        connection.end = partial(_cut, sock)
        # The present context: the certificate may have changed a moment ago.
        context = tls() if tls else None
        shaking = self._shake_hands(sock, connection, config, context)
        task = asyncio.get_running_loop().create_task(shaking)
        self._handshakes[task] = connection
        task.add_done_callback(self._handshakes.pop)

    async def _shake_hands(
        self,
        sock: socket.socket,
        connection: Connection,
        config: Config,
        tls: ssl.SSLContext | None,
    ) -> None:
        def protocol() -> BoundedProtocol:
            return BoundedProtocol(
                config,
                self._state,
                connection=connection,
                fault=partial(self._penalties.count, connection.source),
                bounds=self._bounds,
                refusal=self._refusal,
                ending=self._ended,
            )

        seconds = self._bounds.handshake_seconds if tls else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                sock,
                ssl=tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=LINGER_SECONDS if tls else None,
            )
        except OSError as error:
            self._came_to_nothing("handshakes that fail", connection.source)
            connection.release()
            _log.debug("TLS handshake failed: %s", error)

    def _came_to_nothing(self, what: str, source: str) -> None:
        # A fault of clients that connect without requests. A busy pool also opens connections that
        # it does not need, and closes some early, but it uses others.
        if self._pace.wait(source):
            self._penalties.count(source, what)

    async def _finish(self, until: float) -> None:
        """Wait for running requests; idle connections must not delay the shutdown."""
        loop = asyncio.get_running_loop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._gone(loop.time() + LINGER_SECONDS, self._handshakes)
        for begun in self._handshakes.values():
            begun.end()
        await self._gone(until, self._handshakes, self._state.connections, self._state.tasks)
        # Their time is over. No other code closes what the loop leaves open.
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._gone(loop.time() + LINGER_SECONDS, self._handshakes, self._state.connections)

    async def _gone(self, until: float, *what: Collection[object]) -> None:
        """Wait until the collections are empty, or the time is over."""
        loop = asyncio.get_running_loop()
        while any(what) and loop.time() < until:
            await asyncio.sleep(_LOOK_SECONDS)


def _uvicorn(app: ThreadedApplication, bounds: Bounds) -> Config:
    # A line for each client that does not send HTTP would let any client fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        # No header about the caller is trusted.
        proxy_headers=False,
        timeout_keep_alive=int(bounds.idle_seconds),
    )
    config.load()
    return config


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError):
        _log.debug("a connection failed: %s", error)
    else:
        _log.error("%s", context.get("message"), exc_info=error)
