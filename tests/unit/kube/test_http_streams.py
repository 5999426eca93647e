"""Answers that are read as they come, from a server that says what the test has written down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from typing_extensions import override

from di_certs.files import write_certificates
from di_kube import http
from di_kube.http import Broken, Connections, HungUp, Stream
from tests.unit.kube.test_http import HOST, OK, Scripted, ask, talk

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def opened(connections: Connections) -> AbstractAsyncContextManager[Stream]:
    return connections.stream("/a", {"Accept": "x"}, connect_seconds=5, seconds=5)


async def body_of(connections: Connections, **how: float) -> bytes:
    async with opened(connections) as stream:
        assert stream.code == 200
        return b"".join([part async for part in stream.parts(**how)])


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_stream_has_a_connection_of_its_own_that_ends_with_it(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], secure: bool
) -> None:
    write_certificates(tmp_path, [HOST], now=datetime.now(UTC), lifetime=timedelta(days=1))

    async def story(connections: Connections, served: Scripted) -> None:
        await ask(connections)
        async with opened(connections) as stream:
            assert await anext(stream.parts()) == b'{"a'
            await ask(connections)
        assert stream.is_lost
        assert served.accepted == 2

    replies = [OK, HEAD + b'3\r\n{"a\r\n', OK]
    served = talk(replies, story, certificates=tmp_path if secure else None, loop=loop)
    assert served.requests[1].startswith(b"GET /prefix/a HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(HEAD + b'3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n', id="chunks"),
        pytest.param(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}', id="length"),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD + b'7\r\n{"a":1}\r\n0\r\n\r\n', id="hints"
        ),
    ],
)
def test_a_stream_is_read_to_its_end(reply: bytes) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        assert await body_of(connections) == b'{"a":1}'

    talk([reply], story)


class _HangsUp(Scripted):
    """Hangs up after each reply."""

    @override
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._replies.pop(0))
        writer.close()


def test_without_a_length_a_stream_ends_with_its_connection() -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        assert await body_of(connections) == b"all"

    talk([b"HTTP/1.1 200 OK\r\n\r\nall"], story, server=_HangsUp)


@pytest.mark.parametrize(
    ("reply", "error"), [(HEAD + b"3\r\nabc\r\n", HungUp), (HEAD + b"x\r\n", Broken)]
)
def test_a_stream_that_is_cut_is_an_error_after_what_came(
    reply: bytes, error: type[Exception]
) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        with pytest.raises(error):
            await body_of(connections)

    talk([reply], story, server=_HangsUp)


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-OpenSSH\r\n\r\n"])
def test_a_stream_without_an_answer_is_an_error(reply: bytes) -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        with pytest.raises(Broken):
            await body_of(connections)

    talk([reply], story, server=_HangsUp)


def test_a_silent_stream_times_out() -> None:
    async def story(connections: Connections, _: Scripted) -> None:
        with pytest.raises(TimeoutError):
            await body_of(connections, silence=0.01)

    talk([HEAD + b"3\r\nabc\r\n"], story)


def test_no_more_is_received_than_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_AHEAD", 5)
    told: list[str] = []
    transport: Any = SimpleNamespace(
        pause_reading=lambda: told.append("pause"),
        resume_reading=lambda: told.append("resume"),
        is_closing=lambda: False,
    )

    async def main() -> Sequence[str]:
        stream = Stream(set())
        stream.connection_made(transport)
        stream.data_received(HEAD + b"5\r\nabcde\r\n")
        assert told == []
        stream.data_received(b"1\r\nf\r\n")
        assert told == ["pause"]
        assert await anext(stream.parts()) == b"abcdef"
        return told

    assert asyncio.run(main()) == ["pause", "resume"]
