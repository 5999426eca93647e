"""Answers that wait for news, on a front with two threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection

import pytest

from di_service.serving.later import Later, Wake
from tests.integration.running_front import LONG, Running, running
from tests.waiting import wait_until


@dataclass
class Board:
    """Something that there may be news of."""

    waiting: dict[object, Wake] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def subscribe(self, wake: Wake) -> Callable[[], None]:
        mine = object()
        with self.lock:
            self.waiting[mine] = wake
        return lambda: self._leave(mine)

    def tell(self, body: bytes) -> None:
        with self.lock:
            for wake in self.waiting.values():
                wake(body)

    def _leave(self, mine: object) -> None:
        with self.lock:
            del self.waiting[mine]


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def front(board: Board) -> Iterator[Running]:
    with running() as front:
        front.app.later = Later(LONG, board.subscribe)
        yield front


def ask(front: Running) -> HTTPConnection:
    client = front.client()
    client.request("POST", "/later", b"old")
    return client


def read(client: HTTPConnection) -> bytes:
    answer = client.getresponse().read()
    client.close()
    return answer


def test_who_waits_holds_no_thread_and_all_are_told(front: Running, board: Board) -> None:
    clients = [ask(front) for _ in range(50)]
    wait_until(lambda: len(board.waiting) == 50, what="all to wait")
    assert front.good() == b"good"
    # Longer than what was to be said, and than one piece.
    news = b"new" * 100_000
    board.tell(news)
    assert [read(client) for client in clients] == [news] * 50
    wait_until(lambda: not board.waiting, what="nobody to wait")


def test_a_connection_is_kept(front: Running, board: Board) -> None:
    client = front.client()
    for _ in range(3):
        client.request("POST", "/later", b"old")
        wait_until(lambda: len(board.waiting) == 1, what="it to wait")
        board.tell(b"new")
        assert client.getresponse().read() == b"new"
    client.close()


def test_when_the_time_is_up_it_is_answered_as_it_stood(front: Running, board: Board) -> None:
    front.app.later = Later(0.01, board.subscribe)
    assert read(ask(front)) == b"old"
    wait_until(lambda: not board.waiting, what="nobody to wait")


def test_who_is_told_at_once_is_answered_at_once(front: Running) -> None:
    def subscribe(wake: Wake) -> Callable[[], None]:
        wake(b"new")
        wake(b"newer")
        return lambda: None

    front.app.later = Later(LONG, subscribe)
    assert read(ask(front)) == b"new"


def test_a_client_that_leaves_waits_no_more(front: Running, board: Board) -> None:
    client = ask(front)
    wait_until(lambda: len(board.waiting) == 1, what="it to wait")
    client.close()
    wait_until(lambda: not board.waiting, what="nobody to wait")
    board.tell(b"new")
    assert front.good() == b"good"


def test_nobody_holds_up_the_end(front: Running, board: Board) -> None:
    client = ask(front)
    wait_until(lambda: len(board.waiting) == 1, what="it to wait")
    front.stop()
    assert read(client) == b"old"
    wait_until(front.ended.is_set, what="the front to end")
