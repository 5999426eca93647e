"""A front slows a source down that does what no good client does, and no other."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest

from di_service.serving import arrivals, penalties
from di_service.serving.penalties import FAULTS_AT_ONCE
from tests.integration.running_front import (
    BOUNDS,
    GOOD,
    STRANGER,
    Running,
    head,
    running,
    until_end,
)
from tests.waiting import wait_until

_WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
_ENOUGH = FAULTS_AT_ONCE + 2


def _no_http(server: Running) -> None:
    for _ in range(_ENOUGH):
        with server.raw(STRANGER) as sock:
            sock.sendall(b"no such thing\r\n\r\n")
            until_end(sock)


def _too_late(server: Running) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(server.raw(STRANGER)) for _ in range(_ENOUGH)]
        for sock in socks:
            sock.sendall(GOOD[:-1])
        for sock in socks:
            until_end(sock)


def _before_the_answer(server: Running) -> None:
    for _ in range(_ENOUGH // 2):
        with server.raw(STRANGER) as sock:
            sock.sendall(GOOD * 3)
            for _ in range(3):
                head(sock)
                sock.recv(4, socket.MSG_WAITALL)


def _wrong_token(server: Running) -> None:
    with server.raw(STRANGER) as sock:
        for _ in range(_ENOUGH):
            sock.sendall(b"GET /refused HTTP/1.1\r\nHost: x\r\n\r\n")
            assert head(sock).startswith(b"HTTP/1.1 401")


def _unread(server: Running) -> None:
    with ExitStack() as stack:
        for _ in range(_ENOUGH):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.bind((STRANGER, 0))
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(server.app.calls) == _ENOUGH)
        wait_until(lambda: server.front.connections == 0)


def _good(server: Running) -> None:
    with server.raw(STRANGER) as sock:
        for _ in range(_ENOUGH):
            sock.sendall(GOOD)
            head(sock)
            sock.recv(4, socket.MSG_WAITALL)


@pytest.fixture(autouse=True)
def _nothing_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(penalties, "FAULTS_PER_SECOND", 1e-6)


def _served_at_once(server: Running, expected: int) -> None:
    """Of two requests of a source, and four places, so many are served at the same time."""
    seen = len(server.app.calls)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(server.raw(STRANGER)).sendall(_WAIT)
        wait_until(lambda: server.front.connections == 2)
        wait_until(lambda: len(server.app.calls) == seen + expected)
        if expected == 1:
            # The other places are there for others, and they come first.
            assert server.good() == b"good"
            assert [each["PATH_INFO"] for each in server.app.calls[seen:]] == ["/wait", "/echo"]
        server.app.gate.set()


@pytest.mark.parametrize(
    ("misbehave", "what"),
    [
        (_no_http, "this is not HTTP"),
        (_too_late, "the request did not arrive in time"),
        (_before_the_answer, "requests before the last one was answered"),
        (_wrong_token, "credentials that do not hold"),
        (_unread, "an answer was not read in time"),
    ],
)
def test_who_is_at_fault_again_and_again_is_served_one_after_another(
    misbehave: Callable[[Running], None], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    bounds = replace(BOUNDS, read_seconds=0.5, write_seconds=0.5)
    logs = caplog.at_level(logging.WARNING, "gunicorn.error")
    with running(bounds=bounds, threads=4) as server, logs:
        misbehave(server)
        _served_at_once(server, 1)
        lines = [line for line in caplog.messages if STRANGER in line]
        assert len(lines) == 1
        assert what in lines[0]


def test_who_asks_much_and_reads_the_answers_is_not_slowed_down() -> None:
    with running(threads=4) as server:
        _good(server)
        _served_at_once(server, 2)


def test_new_connections_of_a_slow_source_wait_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running() as server, ExitStack() as stack:
        _wrong_token(server)
        monkeypatch.setattr(arrivals, "SLOW_SECONDS", 60.0)
        first, second = (stack.enter_context(server.raw(STRANGER)) for _ in range(2))
        wait_until(lambda: server.front.connections == 2)
        second.sendall(GOOD)
        first.sendall(GOOD)
        assert head(first).startswith(b"HTTP/1.1 200")
        for _ in range(5):
            assert server.good() == b"good"
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(1)


@pytest.mark.proves("security.md#clients-that-hold-on/new-connections-of-one-address-at-once")
def test_a_source_begins_so_many_connections_and_then_so_many_a_second() -> None:
    bounds = replace(BOUNDS, connections_at_once=8, connections_per_second=1e-6)
    with running(bounds=bounds) as server, ExitStack() as stack:
        for _ in range(8):
            with server.raw(STRANGER) as sock:
                sock.sendall(GOOD)
                head(sock)
        late = stack.enter_context(server.raw(STRANGER))
        late.sendall(GOOD)
        for _ in range(5):
            assert server.good() == b"good"
        late.setblocking(False)
        with pytest.raises(BlockingIOError):
            late.recv(1)


def test_who_uses_a_connection_again_may_open_another() -> None:
    bounds = replace(BOUNDS, connections_at_once=2, connections_per_second=1e-6)
    with running(bounds=bounds) as server, ExitStack() as stack:
        kept = stack.enter_context(server.raw(STRANGER))
        _answered(stack.enter_context(server.raw(STRANGER)))
        _answered(kept)
        for _ in range(4):
            _answered(kept)
            _answered(stack.enter_context(server.raw(STRANGER)))


def _answered(sock: socket.socket) -> None:
    sock.sendall(GOOD)
    assert head(sock).startswith(b"HTTP/1.1 200")
    assert sock.recv(4, socket.MSG_WAITALL) == b"good"


def test_connections_that_are_opened_for_their_own_sake_are_a_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bounds = replace(BOUNDS, connections_of_source=4, connections_at_once=4)
    with (
        running(bounds=bounds) as server,
        ExitStack() as stack,
        caplog.at_level(logging.WARNING, "gunicorn.error"),
    ):

        def is_slow() -> bool:
            stack.enter_context(server.raw(STRANGER))
            return any("too many connections" in line for line in caplog.messages)

        wait_until(is_slow, every=0.0)
        assert server.good() == b"good"


def test_a_pool_that_opens_more_than_it_needs_is_at_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bounds = replace(
        BOUNDS, connections_of_source=4, connections_at_once=4, connections_per_second=1e-6
    )
    with (
        running(bounds=bounds) as server,
        ExitStack() as stack,
        caplog.at_level(logging.WARNING, "gunicorn.error"),
    ):
        kept = stack.enter_context(server.raw(STRANGER))
        _answered(kept)
        for _ in range(2 * _ENOUGH):
            stack.enter_context(server.raw(STRANGER))
            _answered(kept)
        _answered(stack.enter_context(server.raw(STRANGER)))
        assert not any(STRANGER in line for line in caplog.messages)


def test_who_waits_for_its_pace_is_served_in_the_end() -> None:
    bounds = replace(BOUNDS, connections_at_once=8, connections_per_second=100.0)
    with running(bounds=bounds) as server, ExitStack() as stack:
        for _ in range(4):
            socks = [stack.enter_context(server.raw(STRANGER)) for _ in range(8)]
            for sock in socks:
                sock.sendall(GOOD)
            for sock in socks:
                assert head(sock).startswith(b"HTTP/1.1 200")
                sock.close()
        wait_until(lambda: server.front.connections == 0)
