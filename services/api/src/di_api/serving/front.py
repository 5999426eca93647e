"""One application on its sockets: accepts, shakes hands, and ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from di_api.serving.bounds import LINGER_SECONDS, Bounds
from di_api.serving.guests import Guest, Guests, source_of
from di_api.serving.protocol import BoundedProtocol, Refusal
from di_api.serving.wsgi import ThreadedApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_ACCEPT_AT_ONCE: Final = 16
"""Connections taken before other events have their turn; the rest wait in the kernel."""
_SEND_BUFFER: Final = 128 * 1024
"""Kernel memory of a connection that does not read; it counts as the pod's."""
_TLS_BUFFER: Final = 32 * 1024
"""asyncio's default, 256 KiB for each connection from its first moment, makes a thousand silent
ones as heavy as the pod may be. A TLS record is 16 KiB at most."""
_PAUSE_SECONDS: Final = 0.1

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
    ) -> None:
        """Nothing happens yet.

        Args:
            application: called in threads.
            threads: how many requests are answered at once.
            bounds: what clients may.
            refusal: the body of an answer that the application never sees.
            tls: the context for a connection that is accepted now; None: plain HTTP.
        """
        self._application = application
        self._threads = threads
        self._bounds = bounds
        self._refusal = refusal
        self._tls = tls
        self._state = ServerState()
        self._guests = Guests(
            most=bounds.connections,
            most_of_source=bounds.connections_of_source,
            most_bytes=bounds.bodies_bytes,
        )
        self._handshakes: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._guests)

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
        )
        config = _uvicorn(app, self._bounds)
        for sock in sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            loop.add_reader(sock, self._accept, sock, config)
        while not self._ended.is_set():
            self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 1.0)
        for sock in sockets:
            loop.remove_reader(sock)
            # Who is in the queue already thinks that it is being served.
            self._accept(sock, config)
            sock.close()
        await self._finish(loop.time() + grace)
        app.close()

    def stop(self) -> None:
        """End `serve`; called in its event loop."""
        self._ended.set()

    def _accept(self, listener: socket.socket, config: Config) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptor is free. The client waits in the kernel, for one to be.
                _log.warning("cannot accept a connection: %s", error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener)
                loop.call_later(_PAUSE_SECONDS, self._resume, listener, config)
                return
            sock.setblocking(False)
            guest = self._guests.admit(source_of(address[0]), partial(_cut, sock))
            if guest is None:
                sock.close()
                continue
            task = asyncio.get_running_loop().create_task(self._welcome(sock, guest, config))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _resume(self, listener: socket.socket, config: Config) -> None:
        if not self._ended.is_set():
            asyncio.get_running_loop().add_reader(listener, self._accept, listener, config)

    async def _welcome(self, sock: socket.socket, guest: Guest, config: Config) -> None:
        def protocol() -> BoundedProtocol:
            return BoundedProtocol(
                config,
                self._state,
                guest=guest,
                bounds=self._bounds,
                refusal=self._refusal,
                ending=self._ended,
            )

        seconds = self._bounds.handshake_seconds if self._tls else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                sock,
                ssl=self._tls() if self._tls else None,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=LINGER_SECONDS if self._tls else None,
            )
        except OSError as error:
            guest.leave()
            _log.debug("TLS handshake failed: %s", error)

    async def _finish(self, until: float) -> None:
        """Wait for requests that have begun; who has said nothing must not hold up the end."""
        loop = asyncio.get_running_loop()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=LINGER_SECONDS)
        for task in self._handshakes:
            task.cancel()
        while (self._state.connections or self._state.tasks) and loop.time() < until:
            await asyncio.sleep(0.02)


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
