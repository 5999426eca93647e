"""Accepts connections from a listening socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from di_service.serving.arrivals import Arrivals
from di_service.serving.connections import Connection, Connections
from di_service.sources import source_of

BACKLOG: Final = 1024
"""Connections that the kernel queues until the loop accepts them; further ones are dropped, and
their clients retry after a second.
"""
_AT_ONCE: Final = 16
"""Connections accepted before other events are handled; the rest wait in the kernel."""
_PAUSE_SECONDS: Final = 0.1

_log = logging.getLogger("gunicorn.error")

Begin = Callable[[socket.socket, Connection], None]
"""Called when a connection can begin; must set its `end`, and later close the socket and release
the connection.
"""


class Acceptor:
    """Accepts in the event loop in which it is created; each connection is counted, and begins in
    turn.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        connections: Connections,
        arrivals: Arrivals,
        begin: Begin,
    ) -> None:
        """Start to accept.

        Args:
            listener: a bound socket; closed at the end.
            connections: where a new connection is counted; a refused one is closed.
            arrivals: where it waits for its turn.
            begin: starts a connection.
        """
        self._listener = listener
        self._connections = connections
        self._arrivals = arrivals
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept the connections that the kernel has queued, whose clients believe to be connected;
        then no more.
        """
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._listener)
        self._accept(most=BACKLOG)
        self._listener.close()

    def _accept(self, most: int = _AT_ONCE) -> None:
        for _ in range(most):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # No file descriptor is free. The client waits in the kernel until one is.
                _log.warning("cannot accept a connection: %s", error)
                if not self._closed:
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            sock.setblocking(False)
            connection = self._connections.admit(source_of(address[0]), sock.close)
            if connection is None:
                sock.close()
            else:
                self._arrivals.add(
                    connection,
                    begin=partial(self._begin, sock, connection),
                    drop=sock.close,
                    gone=partial(_has_hung_up, sock),
                )

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)


def _has_hung_up(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
