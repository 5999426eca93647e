"""The key of jobs' secrets: made once, read by every leader after."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from di_kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unavailable
from di_operator.job_secrets.key import FORBIDDEN_TIMES, KEY_BYTES, SecretKey
from tests.unit.operator.virtual_time import VirtualClock, in_virtual_time

NAME = "di-job-secrets"
ONE, TWO = b"1" * KEY_BYTES, b"2" * KEY_BYTES


class Cluster:
    """One Secret, and refusals of the next requests."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.refusals: list[ApiError] = []
        self.requests = 0

    async def get(self, _resource: object, name: str, namespace: str) -> dict[str, Any]:
        self._refuse()
        if self.secret is None:
            raise NotFound(kind="Secret", code=404)
        assert (name, namespace) == (NAME, "di-system")
        return self.secret

    async def create(self, _resource: object, body: dict[str, Any], namespace: str) -> None:
        self._refuse()
        if self.secret is not None:
            raise AlreadyExists(kind="Secret", code=409)
        assert body["metadata"]["namespace"] == namespace
        self.secret = body

    def _refuse(self) -> None:
        self.requests += 1
        if self.refusals:
            raise self.refusals.pop(0)

    def reader(self, fresh: bytes = ONE) -> SecretKey:
        return SecretKey(
            self,  # type: ignore[arg-type]  # the part of the client it uses
            namespace="di-system",
            secret=NAME,
            clock=VirtualClock(),
            fresh=lambda: fresh,
        )


async def read(reader: SecretKey) -> bytes | None:
    running = asyncio.create_task(reader.run())
    found = await reader()
    assert not running.done(), "a part of the leader that ends, ends the leader"
    running.cancel()
    await asyncio.wait([running])
    return found


@in_virtual_time
async def test_the_first_leader_makes_the_key_and_later_ones_read_it() -> None:
    cluster = Cluster()
    assert [await read(cluster.reader(ONE)), await read(cluster.reader(TWO))] == [ONE, ONE]


@in_virtual_time
async def test_a_key_that_another_replica_made_meanwhile_is_taken() -> None:
    cluster = Cluster()
    first = cluster.reader(TWO)
    await read(first)
    # Its read came before.
    cluster.refusals = [NotFound(kind="Secret", code=404)]
    assert await read(cluster.reader(ONE)) == TWO


@in_virtual_time
async def test_no_job_is_decided_while_the_api_server_is_away() -> None:
    cluster = Cluster()
    cluster.refusals = [Unavailable(kind="Secret", code=503)] * 100
    assert await read(cluster.reader()) == ONE
    assert cluster.requests == 102


@in_virtual_time
async def test_without_the_right_jobs_go_on_without_a_secret() -> None:
    cluster = Cluster()
    cluster.refusals = [Forbidden(kind="Secret", code=403)] * 1000
    assert await read(cluster.reader()) is None
    assert cluster.requests == FORBIDDEN_TIMES


@in_virtual_time
async def test_a_right_that_comes_a_moment_late_is_waited_for() -> None:
    cluster = Cluster()
    cluster.refusals = [Forbidden(kind="Secret", code=403)] * (FORBIDDEN_TIMES - 1)
    assert await read(cluster.reader()) == ONE


@pytest.mark.parametrize("data", [{}, {"key": "!"}, {"key": base64.b64encode(b"short").decode()}])
@in_virtual_time
async def test_a_secret_that_holds_no_key_is_left_alone(data: dict[str, str]) -> None:
    cluster = Cluster()
    cluster.secret = {"data": data}
    assert await read(cluster.reader()) is None
    assert cluster.secret == {"data": data}
