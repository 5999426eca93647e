"""Since when reports can come, by what the API server says of itself and of di-server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from di_kube.errors import ApiError, NotFound, Unavailable
from di_kube.resources import DEPLOYMENTS, DIJOBS
from di_operator.cluster.server_presence import PATIENCE, PERIOD, RETRY, ServerPresence
from tests.unit.operator.virtual_time import VirtualClock, in_virtual_time

READY: dict[str, Any] = {"status": {"readyReplicas": 1}}
AWAY = Unavailable(kind="Deployment", reason="Timeout")
NOT_THERE: list[dict[str, Any] | ApiError] = [
    AWAY,
    NotFound(kind="Deployment"),
    {"status": {}},
    {},
]


class Cluster:
    """The answer to every question, and what was asked."""

    def __init__(self, deployment: str | None = "di-server") -> None:
        self.answer: dict[str, Any] | ApiError = READY
        self.asked: list[Any] = []
        self.duty: asyncio.Task[None] | None = None
        self.clock = VirtualClock()
        self.presence = ServerPresence(
            self,  # type: ignore[arg-type]  # the part of the client it uses
            namespace="di-system",
            deployment=deployment,
            watched="rl",
            clock=self.clock,
        )

    async def get(self, *asked: Any) -> dict[str, Any]:
        return self._answer(asked)

    async def list(self, *asked: Any, **_: Any) -> tuple[list[Any], str]:
        self._answer(asked)
        return [], "1"

    def _answer(self, asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    def since(self) -> float | None:
        """Seconds after the beginning."""
        found = self.presence()
        return None if found is None else (found - self.clock.wall) / timedelta(seconds=1)


async def watched(deployment: str | None = "s") -> Cluster:
    cluster = Cluster(deployment)
    assert cluster.since() is None
    cluster.duty = asyncio.create_task(cluster.presence.run())
    # Between two questions, so that both have their order.
    await cluster.clock.sleep(1)
    return cluster


@in_virtual_time
async def test_reports_count_from_the_start_of_the_replica() -> None:
    cluster = await watched()
    assert cluster.since() == 0
    await cluster.clock.sleep(10 * PERIOD)
    assert cluster.since() == 0
    assert cluster.asked[-1] == (DEPLOYMENTS, "s", "di-system")


@in_virtual_time
async def test_reports_count_from_the_end_of_an_outage() -> None:
    cluster = await watched()
    for down in NOT_THERE:
        cluster.answer = down
        await cluster.clock.sleep(PATIENCE + PERIOD)
        assert cluster.since() is None
        await cluster.clock.sleep(400)
        cluster.answer = READY
        await cluster.clock.sleep(PERIOD)
        back = cluster.since()
        assert back is not None
        assert 0 <= cluster.clock.monotonic() - back <= PERIOD


@in_virtual_time
async def test_a_short_failure_is_not_an_outage() -> None:
    cluster = await watched()
    # Until just before the next check: then the last answer is the oldest.
    await cluster.clock.sleep(PERIOD - 1.1)
    cluster.answer = AWAY
    await cluster.clock.sleep(PATIENCE - PERIOD - RETRY - 0.5)
    cluster.answer = READY
    await cluster.clock.sleep(2 * PERIOD)
    assert cluster.since() == 0


@in_virtual_time
async def test_only_the_api_server_is_checked_for_an_external_server() -> None:
    cluster = await watched(deployment=None)
    assert cluster.asked == [(DIJOBS, "rl")]
    assert cluster.since() == 0
    cluster.answer = AWAY
    await cluster.clock.sleep(PATIENCE + PERIOD)
    assert cluster.since() is None
