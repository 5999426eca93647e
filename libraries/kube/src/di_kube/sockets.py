"""The sockets of one client, so that none of them outlives it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

# An end that asyncio sees at its next look; only a loop that somebody holds takes longer.
_CLOSE_SECONDS = 1.0
_LOOK_SECONDS = 0.001


class Sockets:
    """Makes sockets, and hangs up those that are still open when the client goes.

    A TLS connection whose owner was cancelled while it was being opened is in no pool: asyncio
    says goodbye to it and waits half a minute for the peer's answer, on a loop that may be gone
    by then.
    """

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: Sequence[Any], /) -> socket.socket:
        """Make a socket for an address as `getaddrinfo` gives it."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Hang up without waiting for any peer; returns when asyncio has let go of all of them."""
        for left in self._open():
            # Not connected, or hung up by the peer just now.
            with suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        clock = asyncio.get_running_loop().time
        until = clock() + _CLOSE_SECONDS
        while self._open() and clock() < until:
            await asyncio.sleep(_LOOK_SECONDS)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]
