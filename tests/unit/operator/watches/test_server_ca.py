"""Which certificates of a Secret become the authorities that pods trust."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_certs.authority import Authority
from di_kube.errors import NotFound, Unavailable
from di_operator.certificates.pod_authorities import MAX_BYTES, ServerAuthorities
from tests.unit.operator import virtual_time
from tests.unit.operator.virtual_time import VirtualClock


def authority(name: str) -> bytes:
    return Authority.create(name, now=datetime.now(UTC), lifetime=timedelta(days=1)).certificate_pem


GOOD, OTHER = authority("good"), authority("other")
MANY = b"".join(authority(str(number)) for number in range(MAX_BYTES // len(GOOD) + 1))
Answer = bytes | Exception


class Cluster:
    """One Secret, whose every change is watched; an error is the answer to one read."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Answer] = asyncio.Queue()
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.read = asyncio.Event()
        self.running: asyncio.Task[None] | None = None
        self.current: Answer = NotFound(kind="Secret")
        self.authorities = ServerAuthorities(
            self,  # type: ignore[arg-type]  # the part of the client it uses
            namespace="di-system",
            secret="tls",
            on_change=lambda: self.told.put_nowait(self.authorities()),
            clock=VirtualClock(),
        )

    async def list(self, *_: Any, **__: Any) -> tuple[list[Any], str]:
        return [], "1"

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        while True:
            self.current = await self.answers.get()
            yield "MODIFIED", {"metadata": {"resourceVersion": "2"}}

    async def get(self, *_: Any) -> dict[str, Any]:
        self.read.set()
        if isinstance(self.current, Exception):
            raise self.current
        return {"data": {"ca.crt": base64.b64encode(self.current).decode()}}

    async def becomes(self, answer: Answer) -> None:
        self.running = self.running or asyncio.create_task(self.authorities.run())
        self.read.clear()
        self.answers.put_nowait(answer)
        await self.read.wait()


@pytest.mark.parametrize(
    "useless",
    [b"", b"\0garbage", b"-----BEGIN CERTIFICATE-----\nAAAA", MANY, NotFound(kind="Secret")],
    ids=["empty", "garbage", "cut", "too many", "deleted"],
)
@virtual_time.in_virtual_time
async def test_an_unusable_authority_keeps_the_previous_one(useless: Answer) -> None:
    cluster = Cluster()
    assert cluster.authorities() == ""
    await cluster.becomes(useless)
    assert cluster.authorities() == ""
    await cluster.becomes(GOOD)
    assert await cluster.told.get() == GOOD.decode()
    await cluster.becomes(useless)
    await cluster.becomes(GOOD)
    await cluster.becomes(b"# a comment\n" + OTHER + GOOD)
    # Neither the unusable one nor the same again is a change; and only certificates are kept.
    assert await cluster.told.get() == (OTHER + GOOD).decode()


@virtual_time.in_virtual_time
async def test_a_failed_read_of_the_secret_is_repeated() -> None:
    cluster = Cluster()
    await cluster.becomes(Unavailable(kind="Secret"))
    cluster.current = GOOD
    assert await cluster.told.get() == GOOD.decode()
