"""One application on its sockets: accepts, shakes hands, and ends in order."""

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
"""Kernel memory of a connection that does not read; it counts as the pod's."""
_TLS_BUFFER: Final = 32 * 1024
"""asyncio's default, 256 KiB for each connection from its first moment, makes a thousand silent
ones as heavy as the pod may be. A TLS record is 16 KiB at most."""
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
        """Nothing happens yet.

        Args:
            application: called in threads.
            threads: how many requests are answered at once.
            bounds: what clients may.
            refusal: the body of an answer that the application never sees.
            tls: the context for a connection that is accepted now; None: plain HTTP.
            tls_port: the only port with TLS; None: all have it.
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
            # A pool of connections opens more than it uses, and closes them, when it is busy. So
            # who uses some again may open as many others.
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
        """How many are open."""
        return len(self._connections)

    async def serve(self, sockets: Sequence[socket.socket], *, grace: float) -> None:
        """Serve until `stop`, then finish what has begun.

        Args:
            sockets: they listen; closed at the end.
            grace: seconds for requests that have begun.
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
        # The context of now: the certificate may be another one than a moment ago.
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
        # A fault of who opens connections for their own sake. A busy pool has many that it does not
        # need any more, and ends some before they are there; it uses others.
        if self._pace.wait(source):
            self._penalties.count(source, what)

    async def _finish(self, until: float) -> None:
        """Wait for requests that have begun; who has said nothing must not hold up the end."""
        loop = asyncio.get_running_loop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._gone(loop.time() + LINGER_SECONDS, self._handshakes)
        for begun in self._handshakes.values():
            begun.end()
        await self._gone(until, self._handshakes, self._state.connections, self._state.tasks)
        # Their time is up. What the loop leaves open when it ends nobody closes.
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._gone(loop.time() + LINGER_SECONDS, self._handshakes, self._state.connections)

    async def _gone(self, until: float, *what: Collection[object]) -> None:
        """Wait until there is none of them, or the time is up."""
        loop = asyncio.get_running_loop()
        while any(what) and loop.time() < until:
            await asyncio.sleep(_LOOK_SECONDS)


def _uvicorn(app: ThreadedApplication, bounds: Bounds) -> Config:
    # A line for each client that sends no HTTP would be one more thing a stranger can fill.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        # Nothing in front of the service is believed about who the caller is.
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
