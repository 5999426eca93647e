"""A job of the most pods there may be: created, scaled by one, ended; how long the loop is held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypedDict

from di_kube.resources import DIJOBS, PODS
from tools.benchmarks import processes
from tools.benchmarks.follower import Seen
from tools.benchmarks.operator import holds
from tools.benchmarks.session import DEADLINE, Session
from tools.benchmarks.workloads import job

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


async def measure(trial: Session, pods: int, recorded: Path) -> LargestResult:
    """Create a job of one pod fewer, scale it to `pods`, end all of them, delete it."""
    follower, seen = trial.follower, trial.follower.seen(_NAME)
    stages: dict[str, Stage] = {}

    async def create() -> None:
        await trial.create(_NAME, pods - 1, run_for=None)
        await follower.until(
            lambda: _is_there(trial, seen, pods - 1), DEADLINE, what="all but one pod"
        )
        await follower.until(lambda: "Running" in seen.phases, DEADLINE, what="a running job")

    async def scale() -> None:
        spec = {"spec": job(_NAME, pods, run_for=None)["spec"]}
        await trial.testbed.client.patch(DIJOBS, _NAME, spec, trial.namespace)
        await follower.until(lambda: _is_there(trial, seen, pods), DEADLINE, what="the last pod")
        await trial.settled()

    async def end() -> None:
        await _succeed(trial, list(seen.pods))
        await trial.until_finished(_NAME)
        await trial.settled()

    async def delete() -> None:
        await trial.testbed.client.delete(DIJOBS, _NAME, trial.namespace)
        await trial.settled()

    for stage in (create, scale, end, delete):
        stages[stage.__name__] = await _stage(trial, stage, recorded)
    return {
        "pods": pods,
        "longest_hold_ms": max(stage["longest_hold_ms"] for stage in stages.values()),
        "peak_memory_mib": processes.peak_memory_mib(trial.candidate.pid),
        "stages": stages,
    }


async def _stage(trial: Session, act: Callable[[], Awaitable[None]], recorded: Path) -> Stage:
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
        "memory_mib": processes.memory_mib(trial.candidate.pid),
    }


def _is_there(trial: Session, seen: Seen, pods: int) -> bool:
    trial.candidate.require_alive()
    return len(seen.ready) == pods


async def _succeed(trial: Session, pods: list[str]) -> None:
    """End every pod well, as its kubelet would tell."""
    todo = iter(pods)

    async def some() -> None:
        for pod in todo:
            patch = {"status": {"phase": "Succeeded"}}
            await trial.testbed.client.patch(
                PODS, pod, patch, trial.namespace, subresource="status"
            )

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(some())
