"""Takes connections from a listening socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from di_api.service.sources import source_of
from di_api.serving.guests import Guest, Guests

BACKLOG: Final = 1024
"""Connections that the kernel keeps until the loop has a turn; of more the openings are lost, and a
client waits a second before it tries again."""
_AT_ONCE: Final = 16
"""Connections taken before other events have their turn; the rest wait in the kernel."""
_PAUSE_SECONDS: Final = 0.1

_log = logging.getLogger("gunicorn.error")

Welcome = Callable[[socket.socket, Guest], None]
"""Told of a connection and its place; has to see to both. The guest has no `end` of its own yet."""


class Acceptor:
    """Accepts in the event loop that it is made in, each connection with a place among guests."""

    def __init__(self, listener: socket.socket, *, guests: Guests, welcome: Welcome) -> None:
        """Begin.

        Args:
            listener: a bound socket; closed at the end.
            guests: where a place is asked for; who gets none is hung up on.
            welcome: what to do with a connection.
        """
        self._listener = listener
        self._guests = guests
        self._welcome = welcome
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Take who is in the queue already, for they think that they are being served; no more."""
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
                # No descriptor is free. The client waits in the kernel, for one to be.
                _log.warning("cannot accept a connection: %s", error)
                if not self._closed:
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            sock.setblocking(False)
            guest = self._guests.admit(source_of(address[0]), sock.close)
            if guest is None:
                sock.close()
            else:
                self._welcome(sock, guest)

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)
