"""The sockets of one client, so that all are closed with it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

# asyncio sees the end in its next iteration; only a blocked loop takes longer.
_CLOSE_SECONDS = 1.0
_LOOK_SECONDS = 0.001


class Sockets:
    """Creates sockets, and closes those that are still open when the client closes.

    A TLS connection whose opener was cancelled belongs to no pool: asyncio would wait half a minute
    for the peer's TLS shutdown, on a loop that can be closed by then.
    """

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: Sequence[Any], /) -> socket.socket:
        """Create a socket for an address from `getaddrinfo`."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Close without waiting for any peer; returns when asyncio has released all sockets."""
        for left in self._open():
            # Not connected, or just closed by the peer.
            with suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        clock = asyncio.get_running_loop().time
        until = clock() + _CLOSE_SECONDS
        while self._open() and clock() < until:
            await asyncio.sleep(_LOOK_SECONDS)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]
