"""A job of the most pods there may be: created, scaled by one, ended; how long the loop is held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypedDict

from di_api.kube.resources import DIJOBS, PODS
from tests.benchmarks import holds, processes
from tests.benchmarks.follower import Seen
from tests.benchmarks.session import DEADLINE, Session
from tests.benchmarks.workloads import job

_NAME = "largest-000000"
_AT_ONCE = 32


class Stage(TypedDict):
    """What happened while one thing was done; `where` is the code of the longest hold."""

    seconds: float
    longest_hold_ms: float
    passed_ms: float
    holds_over_50_ms: int
    where: str
    memory_mib: float


class LargestResult(TypedDict):
    """`longest_hold_ms` is of processor time, over all stages."""

    pods: int
    longest_hold_ms: float
    peak_memory_mib: float
    stages: dict[str, Stage]


async def measure(contest: Session, pods: int, recorded: Path) -> LargestResult:
    """Create a job of one pod fewer, scale it to `pods`, end all of them, delete it."""
    follower, seen = contest.follower, contest.follower.seen(_NAME)
    stages: dict[str, Stage] = {}

    async def create() -> None:
        await contest.create(_NAME, pods - 1, run_for=None)
        await follower.until(
            lambda: _is_there(contest, seen, pods - 1), DEADLINE, what="all but one pod"
        )
        await follower.until(lambda: "Running" in seen.phases, DEADLINE, what="a running job")

    async def scale() -> None:
        spec = {"spec": job(_NAME, pods, run_for=None)["spec"]}
        await contest.testbed.client.patch(DIJOBS, _NAME, spec, contest.namespace)
        await follower.until(lambda: _is_there(contest, seen, pods), DEADLINE, what="the last pod")
        await contest.settled()

    async def end() -> None:
        await _succeed(contest, list(seen.pods))
        await contest.until_finished(_NAME)
        await contest.settled()

    async def delete() -> None:
        await contest.testbed.client.delete(DIJOBS, _NAME, contest.namespace)
        await contest.settled()

    for stage in (create, scale, end, delete):
        stages[stage.__name__] = await _stage(contest, stage, recorded)
    return {
        "pods": pods,
        "longest_hold_ms": max(stage["longest_hold_ms"] for stage in stages.values()),
        "peak_memory_mib": processes.peak_memory_mib(contest.candidate.pid),
        "stages": stages,
    }


async def _stage(contest: Session, act: Callable[[], Awaitable[None]], recorded: Path) -> Stage:
    begin = time.monotonic()
    await act()
    end = time.monotonic()
    found = holds.read(recorded)
    longest = holds.longest(found, begin, end)
    return {
        "seconds": round(end - begin, 1),
        "longest_hold_ms": round(1000 * longest.used, 1) if longest else 0.0,
        "passed_ms": round(1000 * longest.passed, 1) if longest else 0.0,
        "holds_over_50_ms": sum(begin <= one.at <= end and one.used > 0.05 for one in found),
        "where": longest.where if longest else "",
        "memory_mib": processes.memory_mib(contest.candidate.pid),
    }


def _is_there(contest: Session, seen: Seen, pods: int) -> bool:
    contest.candidate.require_alive()
    return len(seen.ready) == pods


async def _succeed(contest: Session, pods: list[str]) -> None:
    """End every pod well, as its kubelet would tell."""
    todo = iter(pods)

    async def some() -> None:
        for pod in todo:
            patch = {"status": {"phase": "Succeeded"}}
            await contest.testbed.client.patch(
                PODS, pod, patch, contest.namespace, subresource="status"
            )

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(some())
