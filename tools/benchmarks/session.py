"""One candidate at work in a namespace of its own, with a follower that watches it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.waiting import wait_until_async
from tools.benchmarks import counters
from tools.benchmarks.counters import Request
from tools.benchmarks.follower import Follower
from tools.benchmarks.testbed import JOB_TYPES, Candidate, Testbed
from tools.benchmarks.workloads import Workload

DEADLINE = 900.0
"""Seconds; no run takes as long on any machine that is of use."""
_WARM_UP = "warm-000000"
_QUIET_CHECKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a measurement needs to know."""

    testbed: Testbed
    kind: str
    candidate: Candidate
    namespace: str
    follower: Follower

    async def submit(self, workload: Workload) -> dict[str, float]:
        """Create all jobs, no more than the window at a time; returns when each was asked for."""
        created: dict[str, float] = {}
        slots = asyncio.Semaphore(workload.window or workload.jobs)
        self.follower.on_finished = slots.release

        async def one(name: str) -> None:
            created[name] = await self.create(name, workload.replicas, run_for=workload.run_for)

        async with asyncio.TaskGroup() as group:
            for name in workload.names():
                await asyncio.wait_for(slots.acquire(), DEADLINE)
                group.create_task(one(name))
        return created

    async def create(self, name: str, replicas: int, *, run_for: float | None) -> float:
        """Create one job; returns the moment it was asked for."""
        moment = time.monotonic()
        job_type = JOB_TYPES[self.kind]
        body = job_type.manifest(name, replicas, run_for)
        await self.testbed.client.create(job_type.resource, body, self.namespace)
        return moment

    async def until_finished(self, *names: str) -> None:
        """Wait until these jobs have finished.

        Raises:
            RuntimeError: the candidate has died.
        """

        def have_finished() -> bool:
            self.candidate.require_alive()
            return all(name in self.follower.finished for name in names)

        await self.follower.until(have_finished, DEADLINE, what=f"{len(names)} jobs to finish")

    async def settled(self) -> Counter[Request]:
        """Wait until an operator's kinds of writes have ceased: clean-up and events come last.

        Returns the API server's count of requests then.
        """
        last = await counters.requests(self.testbed.client)
        quiet = 0

        async def is_quiet() -> bool:
            nonlocal last, quiet
            now = await counters.requests(self.testbed.client)
            same = counters.of_operator(now) == counters.of_operator(last)
            quiet, last = (quiet + 1 if same else 0), now
            return quiet >= _QUIET_CHECKS

        await wait_until_async(is_quiet, DEADLINE, what="the writes to cease", every=0.2)
        return last


@asynccontextmanager
async def session(
    testbed: Testbed,
    kind: str,
    *,
    replicas: int,
    holds: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Session]:
    """Start a candidate and let one job through: it leads, its connections are open."""
    namespace = await testbed.namespace()
    async with (
        testbed.candidate(
            kind,
            namespace,
            replicas=replicas,
            holds=holds,
            settings=settings,
        ) as candidate,
        Follower(testbed.client, namespace, job_type=JOB_TYPES[kind]) as follower,
    ):
        found = Session(
            testbed=testbed,
            kind=kind,
            candidate=candidate,
            namespace=namespace,
            follower=follower,
        )
        await found.create(_WARM_UP, 4, run_for=0.0)
        await found.until_finished(_WARM_UP)
        yield found
        candidate.require_alive()
