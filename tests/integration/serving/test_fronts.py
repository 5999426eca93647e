"""A front in this process, its good clients, and those that hold on to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPResponse
from typing import Any

import pytest

from di_certs.files import write_certificates
from tests.integration.running_front import (
    BOUNDS,
    GOOD,
    HOST,
    LONG,
    STRANGER,
    Running,
    head,
    running,
    until_end,
)
from tests.waiting import wait_until
from tools.hostile.attackers import AT_NOBODY, KINDS, ONLY_TLS, Plan, attack
from tools.hostile.target import Target

TRIED = sorted(KINDS.keys() - AT_NOBODY - {"bogus-token", "reviews"})


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder, [HOST], now=datetime.now(UTC), lifetime=timedelta(days=1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


# Behind a handshake the bytes are the same ones.
@pytest.mark.parametrize(
    ("kind", "encrypted"),
    [
        *((kind, kind in ONLY_TLS) for kind in TRIED),
        *(
            pytest.param(kind, True, marks=pytest.mark.extended)
            for kind in TRIED
            if kind not in ONLY_TLS
        ),
    ],
)
def test_good_clients_are_answered_while_others_hold_on(
    kind: str, encrypted: bool, tls: ssl.SSLContext
) -> None:
    # Who pipelines is cut again and again, and so never has all of its connections.
    enough = 1 if kind == "pipelining" else 40
    with running(tls=tls if encrypted else None) as server:
        target = Target(host=HOST, port=server.port, tls=encrypted, request=GOOD)

        async def ask() -> bytes:
            reader, writer = await target.connect(None, tls=target.tls_context())
            writer.write(GOOD)
            answer = await reader.readuntil(b"good")
            writer.close()
            await writer.wait_closed()
            return answer

        async def run() -> None:
            holding = asyncio.create_task(
                attack(kind, target, Plan(connections=40, seconds=LONG, source=STRANGER))
            )
            async with asyncio.timeout(LONG):
                while server.front.connections < enough:
                    await asyncio.sleep(0.02)
                for _ in range(5):
                    assert (await ask()).startswith(b"HTTP/1.1 200 OK")
            holding.cancel()
            await asyncio.wait([holding])

        try:
            asyncio.run(run())
        finally:
            server.stop()
        if kind not in {"never-reading", "pipelining"}:
            # They never asked for anything whole: no thread was taken for them.
            assert server.app.strangers == 0


@pytest.mark.proves("security.md#clients-that-hold-on/connections-in-all-of-one-address")
def test_a_source_has_so_many_connections_and_others_have_theirs() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(running(bounds=replace(BOUNDS, connections_of_source=20)))
        held = [stack.enter_context(server.raw(STRANGER)) for _ in range(21)]
        # The first has lost its place to the last.
        assert until_end(held[0]) == b""
        wait_until(lambda: server.front.connections == 20)
        assert server.good() == b"good"
        held[-1].sendall(GOOD)
        assert head(held[-1]).startswith(b"HTTP/1.1 200")


def test_many_sources_do_not_take_the_place_of_one_more() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(running(bounds=replace(BOUNDS, connections=32)))
        for number in range(64):
            stack.enter_context(server.raw(f"127.0.1.{1 + number % 4}"))
        wait_until(lambda: server.front.connections == 32)
        assert server.good() == b"good"


def test_nobody_at_work_is_ended_for_another() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(running(bounds=replace(BOUNDS, connections=16), threads=32))
        for _ in range(16):
            sock = stack.enter_context(server.raw(STRANGER))
            sock.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(server.app.calls) == 16)
        with server.raw() as late:
            assert until_end(late) == b""
        server.app.gate.set()


def test_of_two_sources_that_wait_for_a_thread_each_has_its_turn() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(running(threads=1))
        for number in range(20):
            sock = stack.enter_context(server.raw(STRANGER))
            sock.sendall(b"GET /wait HTTP/1.1\r\nHost: %d\r\n\r\n" % number)
        wait_until(lambda: server.front.connections == 20)
        wait_until(lambda: len(server.app.calls) == 1)
        good = stack.enter_context(server.raw())
        good.sendall(GOOD)
        # An answer that needs no thread: by then the request before it waits for one.
        with server.raw() as last:
            last.sendall(b"no HTTP\r\n\r\n")
            assert until_end(last).startswith(b"HTTP/1.1 400")
        server.app.gate.set()
        assert head(good).startswith(b"HTTP/1.1 200")
        places = [environ["REMOTE_ADDR"] for environ in list(server.app.calls)]
        # One stranger was at work already, and one may have had its turn before.
        assert places.index(HOST) <= 2


@pytest.mark.proves("security.md#clients-that-hold-on/taking-what-was-written-to-it")
def test_who_does_not_read_is_cut_at_the_deadline() -> None:
    with (
        running(bounds=replace(BOUNDS, write_seconds=0.5)) as server,
        socket.socket() as deaf,
    ):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((HOST, server.port))
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
        wait_until(lambda: server.app.calls)
        assert server.good() == b"good"
        wait_until(lambda: server.front.connections == 0)
        # The next answer waits for the first to be read; no other was begun.
        assert sum(environ["PATH_INFO"] == "/large" for environ in server.app.calls) <= 2


def test_who_sends_many_requests_at_once_is_cut() -> None:
    with running() as server, server.raw() as sock:
        sock.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        assert until_end(sock) == b""


def test_a_few_requests_at_once_are_answered_in_order() -> None:
    with running() as server, server.raw() as sock:
        for word in (b"one", b"two", b"end"):
            close = b"Connection: close\r\n" if word == b"end" else b""
            sock.sendall(
                b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: 3\r\n\r\n%b" % (close, word)
            )
        answer = until_end(sock)
    assert [answer.count(word) for word in (b"HTTP/1.1 200", b"one", b"two")] == [3, 1, 1]
    assert answer.index(b"one") < answer.index(b"two") < answer.index(b"\r\n\r\nend")


@pytest.mark.proves(
    "rest.md#answers/408", "security.md#clients-that-hold-on/a-request-from-its-first-byte-to-its"
)
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /x HT",
        b"GET /x HTTP/1.1\r\nX: ",
        b"POST /x HTTP/1.1\r\nContent-Length: 4\r\n\r\ngo",
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ngo\r\n",
    ],
)
def test_a_request_that_does_not_end_is_refused_in_time(sent: bytes) -> None:
    with running(bounds=replace(BOUNDS, read_seconds=0.3)) as server, server.raw() as sock:
        # Deadlines of earlier requests say nothing about this one.
        sock.sendall(GOOD)
        head(sock)
        assert sock.recv(4) == b"good"
        sock.sendall(sent)
        answer = until_end(sock)
        assert answer.startswith(b"HTTP/1.1 408")
        assert answer.endswith(b'{"408": "the request did not arrive in time"}')
        assert len(server.app.calls) == 1
        wait_until(lambda: server.front.connections == 0)


def test_blank_lines_do_not_hold_a_connection() -> None:
    with running(bounds=replace(BOUNDS, read_seconds=0.3)) as server, server.raw() as sock:
        sock.sendall(b"\r\n\r\n")
        assert until_end(sock).startswith(b"HTTP/1.1 408")


@pytest.mark.proves("security.md#clients-that-hold-on/tls-handshake")
def test_a_handshake_that_does_not_end_is_cut(tls: ssl.SSLContext) -> None:
    with (
        running(bounds=replace(BOUNDS, handshake_seconds=0.3), tls=tls) as server,
        server.raw() as sock,
    ):
        assert until_end(sock) == b""
        wait_until(lambda: server.front.connections == 0)


@pytest.mark.proves("security.md#clients-that-hold-on/nothing-between-requests-and-before-the")
def test_who_says_nothing_is_let_go() -> None:
    with running(bounds=replace(BOUNDS, idle_seconds=0.3)) as server, server.raw() as sock:
        assert until_end(sock) == b""

        def ends_after_the_answer() -> bool:
            with server.raw() as other, contextlib.suppress(ConnectionError):
                # On a busy machine it may be too late for that.
                other.sendall(GOOD)
                return until_end(other).endswith(b"good")
            return False

        wait_until(ends_after_the_answer)


@pytest.mark.proves("security.md#clients-that-hold-on/bodies-of-requests-not-answered-yet-in")
def test_bodies_over_the_bound_reach_the_application_cut_and_end_the_connection() -> None:
    chunks = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    with running() as server:
        for sent, seen in (
            (b"Content-Length: 1000\r\n\r\n" + b"x" * 1000, 1000),
            (b"Content-Length: 5000000\r\n\r\n" + b"x" * 10, 0),
            (b"Transfer-Encoding: chunked\r\n\r\n" + chunks * 4, 1001),
        ):
            with server.raw() as sock:
                sock.sendall(b"POST /len HTTP/1.1\r\nHost: x\r\n" + sent)
                answer = head(sock)
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"content-length: %d\r\n" % seen in answer.lower()
                assert (b"connection: close" in answer.lower()) is (seen != 1000)


def test_an_answer_reaches_a_client_that_still_writes() -> None:
    # Larger than all buffers on the way: the client would get a reset instead of its answer.
    body = b"x" * 12_000_000
    with running() as server:
        client = server.client()
        client.request("POST", "/echo", body)
        assert client.getresponse().status == 200
        client.close()


@pytest.mark.proves("security.md#clients-that-hold-on/bodies-of-requests-not-answered-yet-in")
def test_large_bodies_of_one_source_do_not_crowd_out_another() -> None:
    half = b"POST /x HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 999
    with ExitStack() as stack:
        server = stack.enter_context(running())
        held = [stack.enter_context(server.raw(STRANGER)) for _ in range(20)]
        for sock in held:
            sock.sendall(half)
        wait_until(lambda: server.front.connections <= 10)
        client = server.client()
        client.request("POST", "/echo", b"y" * 1000)
        assert client.getresponse().read() == b"y" * 1000
        client.close()
        assert server.app.strangers == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"no HTTP\r\n\r\n", 400),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 41 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + (b"X: %b\r\n" % (b"y" * 4000)) * 5 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
    ids=lambda value: ascii(value[:30]) if isinstance(value, bytes) else None,
)
def test_what_is_no_request_is_refused_without_a_thread(sent: bytes, status: int) -> None:
    with running() as server, server.raw() as sock:
        for start in range(0, len(sent), 16_000):
            sock.sendall(sent[start : start + 16_000])
            time.sleep(0)
        answer = until_end(sock)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert b"content-type: application/json" in answer
        assert server.app.calls == []


def _asked(
    server: Running, method: str, path: str, body: Any = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    client = server.client()
    client.request(method, path, body, headers)
    answer = client.getresponse()
    body = answer.read()
    client.close()
    return answer, body


def test_the_application_sees_what_was_asked() -> None:
    with running() as server:
        assert (
            _asked(server, "DELETE", "/a%20b/%C3%A9?q=%20", b"body", **{"X-Y": "z"})[1] == b"body"
        )
        environ = server.app.calls[-1]
        assert environ["PATH_INFO"] == "/a b/\u00c3\u00a9"
        assert environ["QUERY_STRING"] == "q=%20"
        assert (environ["REQUEST_METHOD"], environ["HTTP_X_Y"]) == ("DELETE", "z")
        assert (environ["REMOTE_ADDR"], environ["CONTENT_LENGTH"]) == (HOST, "4")
        assert "CONTENT_TYPE" not in environ
        assert _asked(server, "GET", "/", iter([b"chun", b"ked"]))[1] == b"chunked"
        assert "CONTENT_LENGTH" not in server.app.calls[-1]
        # A name with "_" would pass for one with "-", and what follows a body for a header.
        with server.raw() as sock:
            sock.sendall(
                b"POST / HTTP/1.1\r\nX_Y: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
            )
            assert head(sock).startswith(b"HTTP/1.1 200")
        assert {"HTTP_X_Y", "HTTP_AUTHORIZATION"}.isdisjoint(server.app.calls[-1])


def test_clients_of_http_1_0_and_those_that_ask_to_continue_are_served() -> None:
    with running() as server:
        with server.raw() as sock:
            sock.sendall(b"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nold")
            assert until_end(sock).endswith(b"\r\n\r\nold")
        with server.raw() as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            assert head(sock) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(b"yes")
            assert head(sock).startswith(b"HTTP/1.1 200")


@pytest.mark.proves("security.md#clients-that-hold-on/waiting-for-a-thread")
def test_who_waits_too_long_for_a_thread_is_told_to_come_back() -> None:
    with (
        running(bounds=replace(BOUNDS, queue_seconds=0.3), threads=1) as server,
        server.raw() as busy,
    ):
        busy.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: server.app.calls)
        answer, _ = _asked(server, "GET", "/")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        server.app.gate.set()
        assert head(busy).startswith(b"HTTP/1.1 200")


def test_what_has_begun_is_finished_at_the_end(tls: ssl.SSLContext) -> None:
    # One source has half of the threads: one for the request that waits, one for the others.
    with running(threads=4) as server, ExitStack() as stack:
        silent, partial, working = (stack.enter_context(server.raw()) for _ in range(3))
        partial.sendall(GOOD[:-2])
        working.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: server.app.calls)
        assert server.good() == b"good"
        server.stop()
        # Who has said nothing holds up no end.
        assert until_end(silent) == b""
        partial.sendall(GOOD[-2:])
        assert until_end(partial).endswith(b"good")
        assert not server.ended.is_set()
        server.app.gate.set()
        assert until_end(working).startswith(b"HTTP/1.1 200")
        assert server.ended.wait(LONG)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
def test_nobody_is_left_when_the_time_to_finish_is_up(encrypted: bool, tls: ssl.SSLContext) -> None:
    with (
        running(tls=tls if encrypted else None, grace=0.1) as server,
        server.raw() as deaf,
        server.raw() as silent,
    ):
        wait_until(lambda: server.front.connections == 2)
        if not encrypted:
            # It has its answers, takes none of them, and so is read no further.
            deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
            wait_until(lambda: server.app.calls)
        server.stop()
        assert server.ended.wait(LONG)
        assert server.front.connections == 0
        assert until_end(silent) == b""


def test_a_request_on_a_kept_connection_is_answered_at_the_end_and_is_its_last() -> None:
    # Longer than any pause of this machine.
    with running(bounds=replace(BOUNDS, leave_seconds=LONG)) as server:
        client = server.client()
        client.request("POST", "/echo", b"first")
        assert client.getresponse().read() == b"first"
        server.stop()
        wait_until(lambda: _refuses(server), what="the front to take no more connections")
        # As when it was sent before the client could know.
        client.request("POST", "/echo", b"last")
        answer = client.getresponse()
        assert (answer.read(), answer.headers["Connection"]) == (b"last", "close")
        assert server.ended.wait(LONG)


def _refuses(server: Running) -> bool:
    try:
        server.raw().close()
    except ConnectionError:
        # Refused, or reset: it was in the queue of a listener that closed just then.
        return True
    return False
