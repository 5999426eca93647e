"""Probes are answered whatever else comes to their port; real connections, no cluster."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import uvloop

from di_operator.process.health import serve_health
from di_service.serving import probe_server
from di_service.serving.probe_server import (
    AT_ONCE,
    MOST_OF_SOURCE,
    MOST_UNREAD,
    Page,
    SlowPages,
    serving,
)
from di_service.settings import Address
from tests.waiting import wait_until

_STRANGER = "127.0.0.2"
_LARGE = MOST_UNREAD // 2
_GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def _broken() -> Page:
    raise ValueError("no such luck")


async def _later() -> Page:
    await asyncio.sleep(0)
    return Page(b"at last\n")


async def _broken_later() -> Page:
    await asyncio.sleep(0)
    raise ValueError("no such luck")


async def _never() -> Page:
    return await asyncio.Future[Page]()


PAGES: SlowPages = {
    "/healthz": lambda: Page(b"ok\n"),
    "/large": lambda: Page(b"x" * _LARGE),
    "/broken": _broken,
    "/later": _later,
    "/broken-later": _broken_later,
    "/never": _never,
}


@pytest.fixture
def port() -> Iterator[int]:
    """A server that serves until the end of the test."""
    with _running() as port:
        yield port


@contextlib.contextmanager
def _running(*, seconds: float = 60.0, uv: bool = False) -> Iterator[int]:
    """A server whose connections have `seconds`, on either event loop; it ends in time."""
    listener = socket.create_server(("127.0.0.1", 0))
    port, ready = listener.getsockname()[1], threading.Event()
    ending: list[Callable[[], object]] = []

    async def main() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        ending.append(partial(loop.call_soon_threadsafe, end.set))
        async with serving(PAGES, [listener], seconds=seconds):
            ready.set()
            await end.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if uv else None) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield port
    finally:
        ending[0]()
        thread.join(60)
    assert not thread.is_alive()


def _connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60, (source, 0))


def _all_of(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            data += piece
    return data


def _ask(port: int, request: bytes = _GET) -> bytes:
    with _connect(port) as sock:
        sock.sendall(request)
        return _all_of(sock)


@pytest.mark.proves("security.md#probes-and-metrics")
@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz HTTP/1.1", b"200 OK", b"ok\n"),
        ("GET /healthz?verbose HTTP/1.0", b"200 OK", b"ok\n"),
        ("HEAD /healthz HTTP/1.1", b"200 OK", b""),
        ("GET /nothing HTTP/1.1", b"404 Not Found", b"Not Found\n"),
        ("POST /healthz HTTP/1.1", b"405 Method Not Allowed", b"Method Not Allowed\n"),
        ("GET /healthz", b"400 Bad Request", b"Bad Request\n"),
        ("\x16\x03\x01 \x00 \x00", b"400 Bad Request", b"Bad Request\n"),
        ("GET /later HTTP/1.1", b"200 OK", b"at last\n"),
        ("HEAD /later HTTP/1.1", b"200 OK", b""),
        ("GET /broken-later HTTP/1.1", b"500 Internal Server Error", b"Internal Server Error\n"),
        ("GET /broken HTTP/1.1", b"500 Internal Server Error", b"Internal Server Error\n"),
    ],
)
def test_answers(port: int, request_line: str, status: bytes, body: bytes) -> None:
    head, _, found = _ask(port, f"{request_line}\r\nHost: x\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 " + status)
    assert found == body
    assert b"Connection: close" in head


def test_a_request_in_pieces_is_answered_and_one_without_end_is_refused(port: int) -> None:
    with _connect(port) as sock:
        for number in range(len(_GET)):
            sock.sendall(_GET[number : number + 1])
        assert b"200 OK" in _all_of(sock)
    assert b" 431 " in _ask(port, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 8200)


def test_connections_hold_no_thread_and_the_oldest_make_room(port: int) -> None:
    threads = threading.active_count()
    with ExitStack() as stack:
        opened = [stack.enter_context(_connect(port)) for _ in range(2 * MOST_OF_SOURCE)]
        for sock in opened[::2]:
            # Dropped ones among them may be closed already.
            with contextlib.suppress(ConnectionError):
                sock.sendall(_GET[:10])
        assert b"200 OK" in _ask(port)
        assert threading.active_count() == threads
        assert _all_of(opened[0]) == b""
        opened[-1].sendall(_GET)
        assert b"200 OK" in _all_of(opened[-1])


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_who_comes_again_and_again_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch, uv: bool
) -> None:
    monkeypatch.setattr(probe_server, "PER_SECOND", 1e-6)
    with _running(uv=uv) as port, ExitStack() as stack:
        for _ in range(AT_ONCE):
            with _connect(port, _STRANGER) as sock:
                sock.sendall(_GET)
                assert b"200 OK" in _all_of(sock)
        waiting = [stack.enter_context(_connect(port, _STRANGER)) for _ in range(50)]
        late = waiting[-1]
        late.sendall(_GET)
        for _ in range(5):
            assert b"200 OK" in _ask(port)
        late.setblocking(False)
        with pytest.raises(BlockingIOError):
            late.recv(1)


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_a_crowd_of_one_address_is_answered_in_the_end(uv: bool) -> None:
    with _running(uv=uv) as port, ExitStack() as stack:
        crowd = [stack.enter_context(_connect(port, _STRANGER)) for _ in range(2 * AT_ONCE)]
        for sock in crowd:
            sock.sendall(_GET)
        assert all(b"200 OK" in _all_of(sock) for sock in crowd)


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_who_still_waits_at_the_end_is_hung_up_on(uv: bool) -> None:
    with ExitStack() as stack:
        with _running(uv=uv) as port:
            silent, asking = (stack.enter_context(_connect(port)) for _ in range(2))
            asking.sendall(b"GET /never HTTP/1.1\r\n\r\n")
            assert b"200 OK" in _ask(port)
        assert _all_of(silent) == b""
        assert _all_of(asking) == b""


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_one_deadline_holds_for_all_of_a_connection(uv: bool) -> None:
    with _running(seconds=0.3, uv=uv) as port, ExitStack() as stack:
        silent, trickling = (stack.enter_context(_connect(port)) for _ in range(2))

        def is_closed() -> bool:
            try:
                trickling.sendall(b"x")
            except ConnectionError:
                return True
            return False

        wait_until(is_closed, what="the end of a request that trickles in")
        assert _all_of(silent) == b""


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_an_answer_that_is_not_read_in_time_is_thrown_away(uv: bool) -> None:
    with _running(seconds=0.3, uv=uv) as port:

        def is_cut() -> bool:
            with _connect(port) as deaf, _connect(port) as later:
                # On a busy machine it may be too late to ask.
                with contextlib.suppress(ConnectionError):
                    deaf.sendall(b"GET /large HTTP/1.1\r\n\r\n")
                assert _all_of(later) == b""
                return 0 < len(_all_of(deaf)) < _LARGE

        wait_until(is_cut)


@pytest.mark.parametrize("uv", [False, True], ids=["asyncio", "uvloop"])
def test_who_reads_no_answers_has_few_of_them_kept(uv: bool) -> None:
    with _running(uv=uv) as port, ExitStack() as stack:
        deaf = [stack.enter_context(_connect(port, _STRANGER)) for _ in range(6)]
        for sock in deaf:
            sock.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            # Its answer has begun.
            assert sock.recv(1, socket.MSG_PEEK)
        head, _, body = _ask(port, b"GET /large HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
        assert (head.startswith(b"HTTP/1.1 200 OK"), len(body)) == (True, _LARGE)
        whole = [len(_all_of(sock)) > _LARGE for sock in deaf]
        assert sum(whole) == 1


def test_the_operator_is_served_by_it_and_renders_once_a_second() -> None:
    now, renderings = [100.0], 0
    threads: set[int] = set()
    stuck: list[str | None] = [None]

    def render() -> bytes:
        nonlocal renderings
        renderings += 1
        threads.add(threading.get_ident())
        return b"up 1\n"

    async def main() -> None:
        async with serve_health(
            address=Address(host="127.0.0.1", port=0),
            alive=lambda: stuck[0],
            ready=lambda: "no lease",
            begin_metrics=lambda: render,
            monotonic=lambda: now[0],
        ) as port:

            async def get(page: str) -> bytes:
                return await asyncio.to_thread(_ask, port, f"GET /{page} HTTP/1.1\r\n\r\n".encode())

            assert b"200 OK" in await get("healthz")
            stuck[0] = "neither leads nor stands by"
            assert b" 503 " in await get("healthz")
            ready = await get("readyz")
            assert (b" 503 " in ready, ready.endswith(b"no lease\n")) == (True, True)
            scrapes = await asyncio.gather(*(get("metrics") for _ in range(50)))
            assert all(scrape.endswith(b"\r\n\r\nup 1\n") for scrape in scrapes)
            assert all(b"text/plain; version=0.0.4" in scrape for scrape in scrapes)
            assert renderings == 1
            now[0] += 1
            await get("metrics")
            assert renderings == 2
            # Thousands of jobs take long: nothing else waits for them.
            assert threading.get_ident() not in threads

    asyncio.run(main())
