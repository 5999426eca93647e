"""The connections of a client, against a server that says what the test has written down."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop

from di_certs.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, write_certificates
from di_kube import http
from di_kube.http import Answer, Broken, Connections, HungUp, Server, TooLarge
from di_kube.sockets import Sockets
from tests.waiting import DEADLINE

HOST = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nretry-AFTER: 7\r\n\r\n{}"
HANG_UP = b""


class Scripted:
    """Answers each request with the next of `replies`; HANG_UP ends its connection instead."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self._replies = list(replies)
        self.requests: list[bytes] = []
        self.accepted = 0
        self._connections = set[asyncio.Task[None]]()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it is closed."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        await self.serve(reader, writer)
        with suppress(OSError):
            await writer.wait_closed()

    async def ended(self) -> None:
        """Wait for the end of all connections, which can take longer than that of the client's."""
        await asyncio.gather(*self._connections)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            _, _, length = head.partition(b"Content-Length: ")
            body = await reader.readexactly(int(length.split(b"\r\n")[0]) if length else 0)
            self.requests.append(head + body)
            reply = self._replies.pop(0)
            if reply == HANG_UP:
                break
            writer.write(reply)
        writer.close()


def talk(
    replies: Sequence[bytes],
    story: Callable[[Connections, Scripted], Awaitable[None]],
    *,
    certificates: Path | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    server: type[Scripted] | None = None,
) -> Scripted:
    scripted = (server or Scripted)(replies)

    async def main() -> None:
        ours = theirs = None
        if certificates is not None:
            theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            theirs.load_cert_chain(certificates / CERTIFICATE, certificates / PRIVATE_KEY)
            ours = ssl.create_default_context(cafile=str(certificates / CA_CERTIFICATE))
        listener = await asyncio.start_server(scripted.accept, HOST, 0, ssl=theirs)
        port = listener.sockets[0].getsockname()[1]
        sockets = Sockets()
        url = f"{'https' if ours else 'http'}://{HOST}:{port}/prefix"
        connections = Connections(Server(url=url, tls=ours), sockets=sockets, max_body=1000)
        try:
            async with asyncio.timeout(DEADLINE):
                await story(connections, scripted)
        finally:
            connections.close()
            await sockets.close()
            await scripted.ended()
            listener.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    return scripted


async def ask(connections: Connections, method: str = "GET", body: bytes | None = None) -> Answer:
    return await connections.ask(method, "/a", {"Accept": "x"}, body, connect_seconds=5)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_requests_reuse_one_connection(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], secure: bool
) -> None:
    write_certificates(tmp_path, [HOST], now=datetime.now(UTC), lifetime=timedelta(days=1))

    async def story(connections: Connections, _: Scripted) -> None:
        for _count in range(3):
            answer = await ask(connections, "POST", b"[1]")
            assert (answer.code, answer.body) == (200, b"{}")
            assert answer.headers == {"Content-Length": "2", "Retry-After": "7"}

    served = talk([OK] * 3, story, certificates=tmp_path if secure else None, loop=loop)
    assert served.accepted == 1
    head, _, body = served.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /prefix/a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert head.endswith(b"\r\nAccept: x\r\nContent-Length: 3")
    assert body == b"[1]"


def test_a_get_is_sent_again_if_the_server_had_hung_up() -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        await ask(connections)
        assert (await ask(connections)).code == 200

    assert talk([OK, HANG_UP, OK], story).accepted == 2


@pytest.mark.parametrize(("used_before", "method"), [(True, "POST"), (False, "GET")])
def test_a_write_or_a_request_on_a_new_connection_is_not_sent_again(
    used_before: bool, method: str
) -> None:
    async def story(connections: Connections, served: Scripted) -> None:
        if used_before:
            await ask(connections)
        with pytest.raises(HungUp):
            await ask(connections, method, b"{}" if method == "POST" else None)
        assert len(served.requests) == 1 + used_before

    talk([*([OK] if used_before else []), HANG_UP, OK], story)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="told so"),
        pytest.param(OK + OK, id="it said more than it was asked"),
    ],
)
def test_a_closed_or_confused_connection_is_not_used_again(first: bytes) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        assert (await ask(connections)).code == 200
        assert (await ask(connections)).code == 200

    assert talk([first, OK], story).accepted == 2


def test_an_idle_connection_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        await ask(connections)
        monkeypatch.setattr(http, "IDLE_SECONDS", -1.0)
        await ask(connections)

    assert talk([OK, OK], story).accepted == 2


def test_the_answer_to_a_cancelled_request_is_not_read_by_another() -> None:
    async def story(connections: Connections, served: Scripted) -> None:
        asked = asyncio.create_task(ask(connections))
        while not served.requests:
            await asyncio.sleep(0.001)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (await ask(connections)).body == b"{}"

    # The first answer never gets to its end.
    assert talk([OK[:-1], OK], story).accepted == 2


def test_a_request_waiting_for_a_handshake_takes_a_free_connection() -> None:
    async def story(connections: Connections, served: Scripted) -> None:
        await asyncio.gather(*(ask(connections) for _ in range(100)))

    served = talk([OK] * 100, story)
    assert len(served.requests) == 100
    assert served.accepted < 50


def test_slow_handshakes_do_not_hold_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    async def never(_: Connections, seconds: float) -> None:
        begun.append(1)
        await asyncio.sleep(seconds)
        raise TimeoutError

    async def story(connections: Connections, _: Scripted) -> None:
        asked = [asyncio.create_task(ask(connections)) for _count in range(50)]
        while len(begun) < 50:
            await asyncio.sleep(0.01)
        for one in asked:
            one.cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in found)
        monkeypatch.undo()
        assert (await ask(connections)).code == 200, "and all turns have been given back"

    monkeypatch.setattr(Connections, "_new", never)
    monkeypatch.setattr(http, "PATIENCE", 0.01)
    talk([OK], story)


def test_early_hints_are_no_answer() -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        assert (await ask(connections)).code == 200

    talk([b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK], story)


def test_a_chunked_answer_is_joined() -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        assert (await ask(connections)).body == b'{"a":1}'

    chunked = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    talk([chunked + b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'], story)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", Broken, id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Broken, id="no length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, TooLarge, id="long"
        ),
    ],
)
def test_an_unusable_answer_is_an_error_and_closes_the_connection(
    reply: bytes, error: type[Exception]
) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        with pytest.raises(error):
            await ask(connections)
        assert (await ask(connections)).code == 200

    assert talk([reply, OK], story).accepted == 2


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1"])
def test_a_header_with_a_line_break_is_not_sent(value: str) -> None:
    async def story(connections: Connections, served: Scripted) -> None:
        with pytest.raises(ValueError, match="line break"):
            await connections.ask("GET", "/a", {"Accept": value}, None, connect_seconds=5)
        assert served.requests == []

    talk([], story)
