"""The head of an answer and its body in one packet, and nothing held back for longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from typing_extensions import override

from di_service.serving.lingering import LingeringTransport

HEAD, BODY = b"HTTP/1.1 200 OK\r\n\r\n", b"{}"


class Wire(asyncio.Transport):
    """Remembers what was done to it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[bytes | str] = []

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.done.append(bytes(data))

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        self.done.append("end")

    @override
    def is_closing(self) -> bool:
        return False

    @override
    def resume_reading(self) -> None: ...

    @override
    def close(self) -> None:
        self.done.append("close")

    @override
    def abort(self) -> None:
        self.done.append("abort")


def seen(act: Callable[[LingeringTransport], None], *, turns: int = 0) -> list[bytes | str]:
    """What reaches the wire of what is done, and of `turns` of the loop after it."""

    async def main() -> list[bytes | str]:
        wire = Wire()
        loop = asyncio.get_running_loop()
        transport = LingeringTransport(wire, loop=loop, write_seconds=60)
        act(transport)
        for _ in range(turns):
            await asyncio.sleep(0)
        transport.ended()
        return list(wire.done)

    return asyncio.run(main())


def write(*parts: bytes) -> Callable[[LingeringTransport], None]:
    """Write one after the other."""

    def act(transport: LingeringTransport) -> None:
        for part in parts:
            transport.write(part)

    return act


def test_head_and_body_are_one_packet() -> None:
    assert seen(write(HEAD, BODY)) == [HEAD + BODY]
    assert seen(write(HEAD, BODY), turns=2) == [HEAD + BODY]


def test_two_answers_are_two_packets() -> None:
    assert seen(write(HEAD, BODY, HEAD, BODY)) == [HEAD + BODY, HEAD + BODY]


def test_a_head_alone_is_sent_at_the_next_turn_of_the_loop() -> None:
    assert seen(write(HEAD)) == []
    assert seen(write(HEAD), turns=1) == [HEAD]


def test_a_long_write_is_sent_at_once() -> None:
    long = b"x" * 65536
    assert seen(write(long)) == [long]
    assert seen(write(HEAD, long, long)) == [HEAD + long, long]


@pytest.mark.parametrize(("end", "then"), [("close", "end"), ("close_now", "close")])
def test_a_held_head_is_sent_before_the_end(end: str, then: str) -> None:
    def act(transport: LingeringTransport) -> None:
        transport.write(HEAD)
        getattr(transport, end)()
        transport.write(BODY)

    assert seen(act, turns=2) == [HEAD, then]


def test_an_abort_sends_nothing_more() -> None:
    def act(transport: LingeringTransport) -> None:
        transport.write(HEAD)
        transport.abort()

    assert seen(act, turns=2) == ["abort"]
