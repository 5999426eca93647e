"""Clients that hold on to a service instead of using it, one kind each.

Each function is one connection's life: it returns when the service ends the connection, and is
called again at once, so that an attack is as many connections as it was asked to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.synchronize import Event
from types import MappingProxyType
from typing import Final

from tools.hostile.reviews import worst_reviews
from tools.hostile.target import Target, request

_PAUSE: Final = 0.05
"""Seconds between two connections of one attacker: it is to hold on, not to flood."""
_TRICKLE: Final = 0.25
_ONE_WRITE: Final = 64 * 1024
REVIEW_BYTES: Final = 960_000
"""Of each body: many of them fit into what a webhook keeps at a time."""


@dataclass(slots=True)
class Attacker:
    """What one connection needs to know."""

    target: Target
    source: str | None
    tls: ssl.SSLContext | None
    on_open: Callable[[], None]

    async def connect(
        self, *, encrypted: bool = True, limit: int = 2**16
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.on_open()
        return await self.target.connect(
            self.source, tls=self.tls if encrypted else None, limit=limit
        )


Attack = Callable[[Attacker], Awaitable[None]]


async def silent(attacker: Attacker) -> None:
    """Opens a connection and says nothing, not even hello."""
    reader, writer = await attacker.connect(encrypted=False)
    await _until_closed(reader, writer)


async def idle(attacker: Attacker) -> None:
    """Shakes hands and says nothing more."""
    reader, writer = await attacker.connect()
    await _until_closed(reader, writer)


async def six_bytes(attacker: Attacker) -> None:
    """Sends the first six bytes of a request, also where a handshake is due."""
    reader, writer = await attacker.connect(encrypted=False)
    writer.write(attacker.target.request[:6])
    await _until_closed(reader, writer)


async def partial_handshake(attacker: Attacker) -> None:
    """Sends half of a ClientHello."""
    reader, writer = await attacker.connect(encrypted=False)
    hello = client_hello()
    writer.write(hello[: len(hello) // 2])
    await _until_closed(reader, writer)


async def half_request(attacker: Attacker) -> None:
    """Sends all of a request but its last byte; of one without a body, half of its head."""
    reader, writer = await attacker.connect()
    whole = attacker.target.request
    body = len(whole) > len(attacker.target.head)
    writer.write(whole[:-1] if body else whole[: len(whole) // 2])
    await _until_closed(reader, writer)


async def trickle(attacker: Attacker) -> None:
    """Sends a request byte by byte."""
    reader, writer = await attacker.connect()
    with _cut_at_the_end(writer):
        for byte in attacker.target.request:
            writer.write(bytes([byte]))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TRICKLE):
                    if not await reader.read(4096):
                        return


async def never_reading(attacker: Attacker) -> None:
    """Asks again and again on one connection and reads no answer."""
    _, writer = await attacker.connect(limit=1)
    with _cut_at_the_end(writer):
        while True:
            writer.write(attacker.target.request)
            await writer.drain()
            await asyncio.sleep(0.01)


async def pipelining(attacker: Attacker) -> None:
    """Sends as many requests as go into one write, again and again, and reads no answer."""
    _, writer = await attacker.connect(limit=1)
    one = attacker.target.request
    with _cut_at_the_end(writer):
        while True:
            writer.write(one * max(2, _ONE_WRITE // len(one)))
            await writer.drain()
            await asyncio.sleep(0.01)


async def bogus_token(attacker: Attacker) -> None:
    """Shows a bearer token that nobody gave out, another one each time."""
    reader, writer = await attacker.connect()
    line, _, rest = attacker.target.request.partition(b"\r\n")
    token = b"Authorization: Bearer " + secrets.token_urlsafe(32).encode()
    writer.write(b"\r\n".join((line, b"Connection: close", token, rest)))
    await _until_closed(reader, writer)


async def reviews(attacker: Attacker) -> None:
    """Sends one of the most expensive reviews after the other, and reads each answer."""
    reader, writer = await attacker.connect()
    path = attacker.target.path
    bodies = list(expensive_bodies())
    with _cut_at_the_end(writer):
        for body in random.sample(bodies, len(bodies)):
            writer.write(request("POST", path, body=body))
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
            await reader.readexactly(int(fields[b"content-length"]))
            if fields.get(b"connection") == b"close":
                return


@cache
def expensive_bodies(size: int = REVIEW_BYTES) -> tuple[bytes, ...]:
    """All of `worst_reviews`."""
    return tuple(body for _, body in worst_reviews(size))


async def busy(_: Attacker) -> None:
    """Connects to nobody and computes: what its share of the processor alone costs the others."""
    until = time.monotonic() + _TRICKLE
    while time.monotonic() < until:
        await asyncio.sleep(0)


KINDS: Final = MappingProxyType(
    {
        "busy": busy,
        "silent": silent,
        "six-bytes": six_bytes,
        "idle": idle,
        "partial-handshake": partial_handshake,
        "half-request": half_request,
        "trickle": trickle,
        "never-reading": never_reading,
        "pipelining": pipelining,
        "bogus-token": bogus_token,
        "reviews": reviews,
    }
)
ONLY_REVIEWS: Final = frozenset({"reviews"})
"""Kinds that only a webhook can be asked."""
ONLY_TLS: Final = frozenset({"partial-handshake"})
AT_NOBODY: Final = frozenset({"busy"})
"""Beside these good clients see a machine that works on something else."""


def goes_with(kind: str, target: Target) -> bool:
    """Whether a target can be attacked in a way of that kind."""
    if kind in ONLY_TLS and not target.tls:
        return False
    return kind not in ONLY_REVIEWS or target.is_webhook


@dataclass(slots=True)
class Tally:
    """How an attack went."""

    opened: int = 0
    """Connections that the service ended or refused, and those of the end."""
    faults: dict[str, int] = field(default_factory=dict)
    """Their ends by error."""


def _nothing() -> None:
    pass  # a lambda could not be given to another process


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large an attack is."""

    connections: int
    seconds: float
    source: str | None = None
    """The address that it comes from."""
    on_open: Callable[[], None] = _nothing
    """Called before each connection."""


async def attack(kind: str, target: Target, plan: Plan) -> Tally:
    """Hold connections of a kind for some seconds."""
    tally = Tally()
    attacker = Attacker(target, plan.source, target.tls_context(), plan.on_open)
    live = KINDS[kind]

    async def keep_on() -> None:
        while True:
            tally.opened += 1
            try:
                await live(attacker)
            except (OSError, EOFError) as error:
                name = type(error).__name__
                tally.faults[name] = tally.faults.get(name, 0) + 1
            await asyncio.sleep(_PAUSE)

    tasks = [asyncio.create_task(keep_on()) for _ in range(plan.connections)]
    try:
        await asyncio.sleep(plan.seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The loop closes sockets one turn after it was told to.
        await asyncio.sleep(0)
    return tally


def run(began: Event, kind: str, target: Target, plan: Plan) -> None:
    """Attack, as a process of its own; `began` is set when it starts."""
    if kind in ONLY_REVIEWS:
        expensive_bodies()  # takes longer than a measurement
    # What asyncio says of connections that end under it is what an attack is made of.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    # On a machine that all share they are not to take what the service needs to run at all.
    os.nice(10)
    began.set()
    asyncio.run(attack(kind, target, plan))


@contextlib.contextmanager
def _cut_at_the_end(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.transport.abort()


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with _cut_at_the_end(writer):
        while await reader.read(4096):
            pass


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
