"""Answers without an end: they hold no thread, and end with their client or the front."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

from tests.integration.running_front import LONG, Running, running, until_end
from tests.waiting import wait_until

_ASK = b"%b /stream HTTP/1.1\r\nHost: x\r\n\r\n"


class Numbers:
    """A stream of what a test puts in."""

    beat_seconds = LONG
    rest_seconds = 0.0

    def __init__(self) -> None:
        self.pieces = deque[bytes | None]()
        self.wakes: list[Callable[[], None]] = []
        self.calls = 0
        self.closed = 0
        self._lock = threading.Lock()

    def on_news(self, wake: Callable[[], None]) -> None:
        self.wakes.append(wake)

    def more(self, *, is_news: bool) -> bytes | None:
        assert is_news
        self.calls += 1
        return self.pieces.popleft() if self.pieces else b""

    def close(self) -> None:
        with self._lock:
            self.closed += 1

    def put(self, *pieces: bytes | None) -> None:
        for piece in pieces:
            self.pieces.append(piece)
            self.wakes[-1]()
            wait_until(lambda: not self.pieces)


def opened(server: Running, stack: ExitStack, method: bytes = b"GET") -> socket.socket:
    sock = stack.enter_context(server.raw())
    sock.sendall(_ASK % method)
    return sock


def test_pieces_arrive_as_they_come_until_the_stream_ends() -> None:
    with running() as server, ExitStack() as stack:
        stream = server.app.stream = Numbers()
        sock = opened(server, stack)
        wait_until(lambda: stream.wakes)
        stream.put(b"one", b"", b"two", None)
        # Then the connection is kept, as any other.
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = until_end(sock)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert body.startswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 200 OK")
        assert (stream.calls, stream.closed) == (4, 1)


def test_many_streams_hold_no_thread() -> None:
    with running(threads=1) as server, ExitStack() as stack:
        stream = server.app.stream = Numbers()
        for _ in range(100):
            opened(server, stack)
        wait_until(lambda: len(stream.wakes) == 100)
        assert server.good() == b"good"


def test_a_stream_is_closed_when_its_client_leaves() -> None:
    with running() as server:
        stream = server.app.stream = Numbers()
        with ExitStack() as stack:
            opened(server, stack)
            wait_until(lambda: stream.wakes)
        wait_until(lambda: stream.closed == 1)
        wait_until(lambda: server.front.connections == 0)


def test_a_stream_ends_when_the_front_ends() -> None:
    with running() as server, ExitStack() as stack:
        stream = server.app.stream = Numbers()
        sock = opened(server, stack)
        wait_until(lambda: stream.wakes)
        server.stop()
        assert until_end(sock).endswith(b"0\r\n\r\n")
        wait_until(server.ended.is_set)
        assert stream.closed == 1


def test_the_head_of_a_stream_alone_is_answered_at_once() -> None:
    with running() as server, ExitStack() as stack:
        stream = server.app.stream = Numbers()
        sock = opened(server, stack, b"HEAD")
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
        wait_until(lambda: stream.closed == 1)
        assert not stream.wakes
