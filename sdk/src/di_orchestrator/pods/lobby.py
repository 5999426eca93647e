"""Connections that wait for their first request, all in one thread.

Every pod of the cluster can connect to a pod's port. A connection gets a thread only with the
complete head of a request. Until then it costs a descriptor and the bytes that it has sent, for a
limited time; beyond a maximum number the source with the most loses its oldest one.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

HEAD_SECONDS = 10.0
"""Seconds within which the head of the first request has to be complete."""
MOST_HEAD = 64 * 1024
"""Maximum bytes of a head."""
MOST_WAITING = 512
"""Maximum number of connections without a complete head."""
_AT_ONCE = 64
"""Connections that are accepted before waiting ones are handled."""
_PAUSE_SECONDS = 0.1

Clock = Callable[[], float]
Begin = Callable[[socket.socket, "tuple[str, int]", bytes], None]
"""Called with a connection, its remote address, and the bytes read: a complete head, and possibly
more. It must not block.
"""


class _Guest:
    """A waiting connection, with its source, its bytes, and its deadline."""

    def __init__(self, sock: socket.socket, address: tuple[str, int], until: float) -> None:
        self.sock = sock
        self.address = address
        self.until = until
        self.head = bytearray()

    def has_head(self, came: int) -> bool:
        """Return whether the head is complete; the last `came` bytes are new."""
        new = self.head[-(came + 3) :]
        return b"\n\r\n" in new or b"\n\n" in new


class Lobby:
    """Accepts the connections of a listening socket and begins those with a complete head."""

    def __init__(
        self,
        listener: socket.socket,
        begin: Begin,
        *,
        most: int = MOST_WAITING,
        clock: Clock = time.monotonic,
    ) -> None:
        """`most` is the maximum number of waiting connections."""
        self._listener = listener
        self._begin = begin
        self._most = most
        self._clock = clock
        # The oldest first.
        self._waiting: dict[socket.socket, _Guest] = {}
        self._by_source: dict[str, dict[socket.socket, _Guest]] = {}
        self._woken, self._wake = socket.socketpair()
        self._is_open = True
        self._is_over = threading.Event()

    @property
    def waiting(self) -> int:
        """Return the number of waiting connections."""
        return len(self._waiting)

    def serve(self) -> None:
        """Accept and begin connections until `close` is called."""
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as selector:
            self._selector = selector
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._is_open:
                for key, _ in selector.select(self._patience()):
                    sock = key.fileobj
                    if sock is self._listener:
                        self._take()
                    elif isinstance(sock, socket.socket) and sock in self._waiting:
                        self._read(self._waiting[sock])
                self._expire()
            for guest in list(self._waiting.values()):
                self._drop(guest)
        self._is_over.set()

    def close(self) -> None:
        """Accept no more connections, and close the waiting ones; can be called twice."""
        if not self._is_open:
            return
        self._is_open = False
        self._wake.send(b".")
        self._is_over.wait()
        for sock in (self._listener, self._woken, self._wake):
            sock.close()

    def _patience(self) -> float | None:
        oldest = next(iter(self._waiting.values()), None)
        return None if oldest is None else max(0.0, oldest.until - self._clock())

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError:
                # No descriptor is free. Waiting connections can end meanwhile.
                time.sleep(_PAUSE_SECONDS)
                return
            while len(self._waiting) >= self._most:
                crowd = max(self._by_source.values(), key=len)
                self._drop(next(iter(crowd.values())))
            sock.setblocking(False)
            guest = _Guest(sock, (address[0], address[1]), self._clock() + HEAD_SECONDS)
            self._waiting[sock] = guest
            self._by_source.setdefault(guest.address[0], {})[sock] = guest
            self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, guest: _Guest) -> None:
        try:
            came = guest.sock.recv(MOST_HEAD)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        guest.head += came
        if guest.has_head(len(came)):
            self._forget(guest)
            self._begin(guest.sock, guest.address, bytes(guest.head))
        elif not came or len(guest.head) >= MOST_HEAD:
            self._drop(guest)

    def _expire(self) -> None:
        now = self._clock()
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.until > now:
                return
            self._drop(oldest)

    def _forget(self, guest: _Guest) -> None:
        self._selector.unregister(guest.sock)
        del self._waiting[guest.sock]
        source = self._by_source[guest.address[0]]
        del source[guest.sock]
        if not source:
            del self._by_source[guest.address[0]]

    def _drop(self, guest: _Guest) -> None:
        self._forget(guest)
        with contextlib.suppress(OSError):
            guest.sock.close()
