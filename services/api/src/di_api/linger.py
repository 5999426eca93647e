"""Ending a connection of a server so that its client still reads the answer."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Final

LINGER_SECONDS: Final = 1.0
# Of a body that was refused by its length, most is still under way; throwing it away is cheap.
_BYTES: Final = 16 * 1024 * 1024


def linger(sock: socket.socket) -> None:
    """End a connection, with a second for the client to read what it was sent.

    Closing with unread bytes resets the connection, and the answer may be lost on the way
    (RFC 9112, section 9.6). Blocks until the client has closed its end, sent too much or taken
    `LINGER_SECONDS`; never raises. The socket is left open, with nothing to wait for any more.
    """
    shut_down(sock, socket.SHUT_WR)
    deadline = time.monotonic() + LINGER_SECONDS
    left = _BYTES
    with contextlib.suppress(OSError):
        while left > 0 and (remaining := deadline - time.monotonic()) > 0:
            sock.settimeout(remaining)
            # The bytes below TLS: they are thrown away, so nothing needs to decrypt them.
            received = socket.socket.recv(sock, 64 * 1024)
            if not received:
                break
            left -= len(received)
    shut_down(sock, socket.SHUT_RDWR)


def shut_down(sock: socket.socket, how: int) -> None:
    """Shut a connection down, if it still is one; wakes a thread that reads or writes."""
    # Not the method of SSLSocket, which drops the TLS state another thread may be using.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, how)
