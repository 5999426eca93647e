"""A hub's connections that have asked nothing yet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import di_orchestrator as di
from di_api import names
from di_operator.builders import access
from di_orchestrator.pods import calls, hub, lobby
from di_orchestrator.pods.lobby import HEAD_SECONDS, Lobby

SECRET = access.job_secret(b"k" * 32, "uid-1")


class Guests:
    """A lobby of which every step is taken by hand, and the other ends of its connections."""

    def __init__(self, most: int = 4) -> None:
        self.now = 0.0
        self.begun: list[tuple[str, bytes]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lobby = Lobby(self.listener, self.begin, most=most, clock=lambda: self.now)
        self.thread = threading.Thread(target=self.lobby.serve)

    def begin(self, sock: socket.socket, address: tuple[str, int], head: bytes) -> None:
        self.begun.append((address[0], head))
        sock.close()

    def come(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(
            self.listener.getsockname(), timeout=60, source_address=(source, 0)
        )


@contextmanager
def opened(most: int = 4) -> Iterator[Guests]:
    guests = Guests(most)
    guests.thread.start()
    try:
        yield guests
    finally:
        guests.lobby.close()
        guests.thread.join()


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end has closed it; waits for that."""
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\n\r\n"])
def test_a_connection_begins_with_a_whole_head(end: bytes) -> None:
    with opened() as guests, guests.come() as sock:
        for part in (b"GET /x HTTP/1.1\r\nHost: y", end[:1], end[1:]):
            assert guests.begun == []
            sock.sendall(part)
        assert is_closed(sock)
        assert guests.begun == [("127.0.0.1", b"GET /x HTTP/1.1\r\nHost: y" + end)]


def test_the_source_with_the_most_connections_loses_its_oldest() -> None:
    with opened(most=4) as guests, ExitStack() as stack:
        member = stack.enter_context(guests.come("127.0.0.2"))
        strangers = [stack.enter_context(guests.come()) for _ in range(20)]
        for stranger in strangers[:17]:
            assert is_closed(stranger)
        member.sendall(b"GET /x HTTP/1.1\r\n\r\n")
        assert is_closed(member)
        assert guests.begun == [("127.0.0.2", b"GET /x HTTP/1.1\r\n\r\n")]
        assert guests.lobby.waiting <= 3


def test_bytes_now_and_then_do_not_prolong_the_time_for_a_head() -> None:
    with opened() as guests, guests.come() as slow:
        slow.sendall(b"GET ")
        with guests.come() as quick:
            quick.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_closed(quick)
        guests.now = HEAD_SECONDS + 1
        slow.sendall(b"/")
        assert is_closed(slow)
        assert len(guests.begun) == 1


def test_a_head_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby, "MOST_HEAD", 1024)
    with opened() as guests, guests.come() as sock:
        sock.sendall(b"x" * 1024)
        assert is_closed(sock)
        assert guests.lobby.waiting == 0


def test_a_lobby_that_closes_closes_those_who_wait() -> None:
    with opened() as guests:
        sock = guests.come()
        guests.lobby.close()
    assert is_closed(sock)
    sock.close()


@pytest.fixture
def in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_JOB_SECRET, SECRET)
    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.001)


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/di-hub")
@pytest.mark.usefixtures("in_a_job")
def test_strangers_that_ask_nothing_take_no_thread_of_a_hub() -> None:
    before = threading.active_count()
    with di.Hub(lambda _: di.Reply(body=b"x"), 0) as found, ExitStack() as stack:
        for _ in range(40):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", found.port), 60))
            sock.sendall(b"GET /x HTTP/1.1\r\n")
        assert di.call("GET", f"http://127.0.0.1:{found.port}/x") == b"x"
        # That of the hub, and that of the last answer.
        assert threading.active_count() <= before + 2


def asked(port: int, request: bytes, then: Callable[[socket.socket], object]) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(request)
        then(sock)


def whole(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(4096):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/di-hub")
@pytest.mark.usefixtures("in_a_job")
def test_a_stranger_gets_one_answer_on_a_connection() -> None:
    request = b"GET /metrics HTTP/1.1\r\n\r\n" * 2
    with di.Hub(lambda _: di.Reply(body=b"x"), 0, public=["/metrics"]) as found:
        said: list[bytes] = []
        asked(found.port, request, lambda sock: said.append(whole(sock)))
        assert said[0].count(b"HTTP/1.1 200") == 1
        assert b"Connection: close" in said[0]


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/di-hub")
@pytest.mark.parametrize("has_secret", [True, False])
@pytest.mark.usefixtures("in_a_job")
def test_one_source_of_strangers_has_a_few_answers_at_a_time(
    has_secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = hub.STRANGERS if has_secret else hub.UNPROVEN
    if not has_secret:
        monkeypatch.delenv(names.ENV_JOB_SECRET)
    under_way, go_on = threading.Semaphore(0), threading.Event()

    def answer(found: di.Asked) -> di.Reply:
        if found.path == "/metrics":
            under_way.release()
            go_on.wait(60)
        return di.Reply(body=b"x")

    request = b"GET /metrics HTTP/1.1\r\n\r\n"
    with di.Hub(answer, 0, public=["/metrics"]) as found, ExitStack() as stack:
        for _ in range(most):
            sock = socket.create_connection(("127.0.0.1", found.port), 60)
            stack.enter_context(sock).sendall(request)
            assert under_way.acquire(timeout=60)
        said: list[bytes] = []
        asked(found.port, request, lambda sock: said.append(whole(sock)))
        assert said[0].startswith(b"HTTP/1.1 503")
        if has_secret:
            assert di.call("GET", f"http://127.0.0.1:{found.port}/x") == b"x"
        go_on.set()


def test_a_slow_body_without_a_proof_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_JOB_SECRET, raising=False)
    monkeypatch.setattr(hub, "STRANGER_SECONDS", 0.0)
    with di.Hub(lambda _: di.Reply(body=b"x"), 0) as found:
        request = b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"
        said: list[bytes] = []
        asked(found.port, request, lambda sock: said.append(whole(sock)))
        assert said == [b""]
