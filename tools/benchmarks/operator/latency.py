"""How long one job waits: alone, among others, and beside a very large one."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from functools import partial
from typing import TypedDict

from tools.benchmarks import counters, samples
from tools.benchmarks.follower import Follower, Seen
from tools.benchmarks.operator.throughput import ready_to_running
from tools.benchmarks.samples import Spread
from tools.benchmarks.session import DEADLINE, Session
from tools.benchmarks.workloads import Workload

REPLICAS = 4
# Long enough for the phase Running to be a state, not a moment.
_RUN_FOR = 0.1
# Of the backlog: the API server is to have room for the operator meanwhile.
_CREATED_AT_ONCE = 8


class LatencyResult(TypedDict):
    """From the create of a job of four pods to the last pod's, and from the last pod's readiness
    to the phase Running."""

    jobs: int
    running_seen: int
    create_to_pods_ms: Spread
    ready_to_running_ms: Spread | None


class AloneResult(LatencyResult):
    """Also what one job makes the candidate write while its budget of events lasts."""

    writes: Mapping[str, float]
    writes_per_job: float


class BesideResult(TypedDict):
    """`small` are jobs of four pods that came while a large one's pods were being created."""

    replicas: int
    large_create_to_pods_s: float
    large_ready_to_running_s: float
    small: LatencyResult


class BesideManyResult(TypedDict):
    """`left` jobs of the backlog had no pod when the last small job had its pods."""

    backlog: int
    left: int
    small: LatencyResult


async def alone(trial: Session, jobs: int) -> AloneResult:
    """One job after the other."""
    created: dict[str, float] = {}
    before = await trial.settled()
    for number in range(jobs):
        name = f"alone-{number:06d}"
        created[name] = await trial.create(name, REPLICAS, run_for=_RUN_FOR)
        await trial.until_finished(name)
    writes = counters.of_operator(await trial.settled() - before)
    return {
        **_result(trial, created),
        "writes": {str(key): round(count / jobs, 3) for key, count in writes.items()},
        "writes_per_job": round(sum(writes.values()) / jobs, 2),
    }


async def among_others(trial: Session, *, rate: float, jobs: int) -> LatencyResult:
    """Jobs that come `rate` a second, however the earlier ones fare."""
    created: dict[str, float] = {}

    async def one(name: str) -> None:
        created[name] = await trial.create(name, REPLICAS, run_for=1.0)

    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(jobs):
            await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
            group.create_task(one(f"among-{number:06d}"))
    await trial.until_finished(*created)
    return _result(trial, created)


async def beside_large(trial: Session, replicas: int) -> BesideResult:
    """Small jobs one after the other, from the large job's first pod to its last.

    Each waits for the one before to have its pods, so that they do not wait for each other.
    """
    large, follower = "large-000000", trial.follower
    began = await trial.create(large, replicas, run_for=1.0)
    seen = follower.seen(large)
    await follower.until(lambda: bool(seen.pods), DEADLINE, what="the large job's first pod")
    created: dict[str, float] = {}
    while len(seen.pods) < replicas or not created:
        name = f"small-{len(created):06d}"
        created[name] = await trial.create(name, REPLICAS, run_for=_RUN_FOR)
        mine = follower.seen(name)
        await follower.until(partial(_has_pods, mine), DEADLINE, what="a small job's pods")
    await trial.until_finished(large, *created)
    return {
        "replicas": replicas,
        "large_create_to_pods_s": round(max(seen.pods.values()) - began, 3),
        "large_ready_to_running_s": round(ready_to_running([seen])[0], 3),
        "small": _result(trial, created),
    }


async def beside_many(trial: Session, backlog: int, jobs: int) -> BesideManyResult:
    """Jobs of one tenant, one after the other, while the backlog of another is worked on.

    The operator of `trial` looks after all namespaces. What is left of the backlog is not waited
    for.
    """
    testbed, neighbour = trial.testbed, await trial.testbed.namespace()
    queued = Workload(jobs=backlog, replicas=1, run_for=0.0)
    creating = asyncio.Semaphore(_CREATED_AT_ONCE)

    async def one(name: str) -> None:
        async with creating:
            await trial.create(name, queued.replicas, run_for=queued.run_for)

    async with Follower(testbed.client, neighbour) as follower:
        async with asyncio.TaskGroup() as group:
            for name in queued.names():
                group.create_task(one(name))
        beside = dataclasses.replace(trial, namespace=neighbour, follower=follower)
        created: dict[str, float] = {}
        for number in range(jobs):
            name = f"beside-{number:06d}"
            created[name] = await beside.create(name, REPLICAS, run_for=_RUN_FOR)
            mine = follower.seen(name)
            await follower.until(partial(_has_pods, mine), DEADLINE, what="a job's pods")
        left = sum(not trial.follower.seen(name).pods for name in queued.names())
        await beside.until_finished(*created)
        return {"backlog": backlog, "left": left, "small": _result(beside, created)}


def _has_pods(seen: Seen) -> bool:
    return len(seen.pods) == REPLICAS


def _result(trial: Session, created: Mapping[str, float]) -> LatencyResult:
    jobs = {name: trial.follower.seen(name) for name in created}
    running = ready_to_running(jobs.values())
    return {
        "jobs": len(jobs),
        "running_seen": sum("Running" in seen.phases for seen in jobs.values()),
        "create_to_pods_ms": samples.spread(
            [max(seen.pods.values()) - created[name] for name, seen in jobs.items()]
        ),
        "ready_to_running_ms": samples.spread(running) if running else None,
    }
