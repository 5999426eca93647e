"""Bodies that are read as they come: what is kept of them, and which are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from di_kube import streams, wire
from di_kube.errors import Unavailable
from di_kube.resources import PODS
from di_kube.wire import Target

TARGET = Target(PODS, "ns", "a")
EVENT = b'{"type": "ADDED", "object": {"metadata": {"name": "%d"}}}'


def answer(*chunks: bytes) -> Any:
    async def iterate(**_: float) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return SimpleNamespace(parts=iterate)


async def names(*chunks: bytes) -> list[str]:
    found = streams.events(answer(*chunks), TARGET, 1)
    return [body["metadata"]["name"] async for _, body in found]


def test_events_are_lines_wherever_the_stream_is_cut_into_chunks() -> None:
    stream = b"\n".join(EVENT % number for number in range(120)) + b"\n\n"
    expected = [str(number) for number in range(120)]
    assert asyncio.run(names(stream)) == expected
    assert asyncio.run(names(*(stream[at : at + 7] for at in range(0, len(stream), 7)))) == expected


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (EVENT % 1 + b"\n" + EVENT % 2, "the stream ends inside an event"),
        (b"x" * 101, "an event is larger than 100 bytes"),
    ],
)
def test_a_stream_that_is_no_list_of_bounded_events_is_cut(
    stream: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", 100)
    with pytest.raises(Unavailable, match=message):
        asyncio.run(names(stream))


def test_a_body_is_read_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BODY", 10)
    assert asyncio.run(streams.read_bounded(answer(b"12345", b"67890"), TARGET, 1)) == b"1234567890"
    with pytest.raises(Unavailable, match="the answer is larger than 10 bytes"):
        asyncio.run(streams.read_bounded(answer(b"12345", b"678901"), TARGET, 1))


@pytest.mark.parametrize(("most", "expected"), [(4, b"6789"), (100, b"0123456789"), (0, b"")])
def test_the_end_of_a_stream_is_kept(most: int, expected: bytes) -> None:
    tail = streams.Tail(most)
    for chunk in (b"012", b"3456", b"789"):
        tail.take(chunk)
    assert tail.read() == expected
