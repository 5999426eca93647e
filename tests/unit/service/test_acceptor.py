"""Which connections are taken from a listening socket, and what becomes of the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest

from di_service.serving import acceptor as module
from di_service.serving.acceptor import Acceptor
from di_service.serving.arrivals import Arrivals
from di_service.serving.connections import Connection, Connections
from tests.unit.asynchronous import asynchronous


class Listener:
    """A listening socket whose queue has these; an error is the answer to one accept."""

    def __init__(self, *queue: socket.socket | OSError) -> None:
        self.queue = [*queue]
        self.is_closed = False
        self._signal, self._other = socket.socketpair()
        if queue:
            self._other.send(b"x")

    def fileno(self) -> int:
        return self._signal.fileno()

    def setblocking(self, _: bool) -> None:
        pass

    def listen(self, _: int) -> None:
        pass

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if not self.queue:
            raise BlockingIOError
        found = self.queue.pop(0)
        if isinstance(found, OSError):
            raise found
        return found, ("10.0.0.1", 1)

    def close(self) -> None:
        self.is_closed = True
        self._signal.close()
        self._other.close()


class Waiting:
    """Connections that wait for their turn."""

    def __init__(self) -> None:
        self.gone: list[Callable[[], bool]] = []
        self.came = asyncio.Event()

    def add(self, _: Connection, *, gone: Callable[[], bool], **__: Any) -> None:
        self.gone.append(gone)
        self.came.set()


def accepting(listener: Listener, *, most: int = 9) -> tuple[Acceptor, Waiting]:
    waiting = Waiting()
    made = Acceptor(
        cast(socket.socket, listener),
        connections=Connections(most=most, most_of_source=most),
        arrivals=cast(Arrivals, waiting),
        begin=lambda *_: None,
    )
    return made, waiting


@asynchronous
async def test_without_a_free_descriptor_clients_wait_for_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    ours, theirs = socket.socketpair()
    listener = Listener(OSError(24, "too many open files"), ours)
    made, waiting = accepting(listener)
    await waiting.came.wait()
    made.close()
    made.close()  # of no effect
    assert (listener.is_closed, listener.queue) == (True, [])
    (gone,) = waiting.gone
    assert not gone()
    theirs.close()
    assert gone()
    ours.close()
    assert gone()


@asynchronous
async def test_who_is_queued_at_the_end_is_taken_and_nobody_after_an_error() -> None:
    pairs = [socket.socketpair() for _ in range(20)]
    made, waiting = accepting(Listener(*(ours for ours, _ in pairs)), most=99)
    made.close()
    assert len(waiting.gone) == 20
    made, waiting = accepting(Listener(OSError(24, "too many open files"), pairs[0][0]))
    made.close()
    await asyncio.sleep(0)
    assert not waiting.gone
    for each in (end for pair in pairs for end in pair):
        each.close()


@asynchronous
async def test_a_connection_that_is_not_let_in_is_hung_up_on() -> None:
    ours, theirs = socket.socketpair()
    made, waiting = accepting(Listener(ConnectionAbortedError(), ours), most=0)
    made._accept()
    made._accept()
    assert theirs.recv(1) == b""
    assert not waiting.gone
    made.close()
    theirs.close()
