"""How fast many jobs get done, ours and the bare client's by turns."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from di_api.kube.resources import DIJOBS
from tests.benchmarks import counters, processes, samples
from tests.benchmarks.field import CEILING, OPERATOR, Field
from tests.benchmarks.follower import Follower, Seen
from tests.benchmarks.samples import Spread
from tests.benchmarks.workloads import Workload, job
from tests.waiting import wait_until_async

DEADLINE = 600.0
# Stretches of a run whose rates are compared.
PARTS = 5
_QUIET_CHECKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One workload under one contestant. Times in seconds unless named otherwise."""

    contestant: str
    workload: str
    jobs: int
    pods: int
    seconds: float
    jobs_per_second: float
    pods_per_second: float
    writes: Mapping[str, float]
    """Of the contestant, a job, by verb and resource, as the API server counts them."""
    writes_per_job: float
    all_writes_per_job: float
    """With those of driver, kubelet and controllers."""
    cpu_ms_per_job: Mapping[str, float]
    busy_share: float
    """Of all processors, by everything on the machine."""
    peak_memory_mib: float
    running_seen: int
    last_job_has_its_pods: float
    create_to_pods_ms: Spread
    ready_to_running_ms: Spread
    rates: list[float]
    """Jobs finished a second in fifths of the run."""
    load_average: float


async def compare(field: Field, workload: Workload, *, rounds: int, until: float) -> list[Run]:
    """Run the workload under both by turns, in ABBA order, `rounds` times.

    After the first round, a round that would not end before `until` (of the monotonic clock) at
    the pace of the earlier ones is left out.
    """
    runs: list[Run] = []
    began = time.monotonic()
    for number in range(rounds):
        done = time.monotonic()
        if number and done + (done - began) / number > until:
            break
        order = (OPERATOR, CEILING) if number % 2 == 0 else (CEILING, OPERATOR)
        runs += [await measure(field, contestant, workload) for contestant in order]
    return runs


async def measure(field: Field, contestant: str, workload: Workload) -> Run:
    """Run the workload once, in a namespace of its own."""
    namespace = await field.namespace()
    async with (
        field.contestant(contestant, namespace, replicas=workload.replicas) as pid,
        Follower(field.client, namespace) as follower,
    ):
        await warm_up(field, namespace, follower)
        pids = {"contestant": pid, **field.pids, "driver": os.getpid()}
        before = await settled(field)
        cpu = {name: processes.cpu_seconds(each) for name, each in pids.items()}
        busy, idle = processes.machine_seconds()
        start = time.monotonic()
        created = await submit(field, namespace, workload, follower)
        await follower.until_finished(workload.jobs + 1, DEADLINE)
        end = time.monotonic()
        busy, idle = (
            now - then for now, then in zip(processes.machine_seconds(), (busy, idle), strict=True)
        )
        writes = await settled(field) - before
        cpu = {name: processes.cpu_seconds(each) - cpu[name] for name, each in pids.items()}
        return _run(
            contestant=contestant,
            workload=workload,
            start=start,
            seconds=end - start,
            created=created,
            follower=follower,
            writes=writes,
            cpu=cpu,
            busy_share=busy / (busy + idle),
            peak=processes.peak_memory_mib(pid),
        )


async def warm_up(field: Field, namespace: str, follower: Follower) -> None:
    """Let one job through: the contestant leads, its connections are open."""
    await field.client.create(DIJOBS, job("warm-000000", 4, run_for=0.0), namespace)
    await follower.until_finished(1, 60)


async def submit(
    field: Field, namespace: str, workload: Workload, follower: Follower
) -> dict[str, float]:
    """Create all jobs, no more than the window at a time; returns when each was asked for."""
    created: dict[str, float] = {}
    slots = asyncio.Semaphore(workload.window or workload.jobs)
    follower.on_finished = slots.release

    async def one(name: str) -> None:
        created[name] = time.monotonic()
        body = job(name, workload.replicas, run_for=workload.run_for)
        await field.client.create(DIJOBS, body, namespace)

    async with asyncio.TaskGroup() as group:
        for name in workload.names():
            await asyncio.wait_for(slots.acquire(), DEADLINE)
            group.create_task(one(name))
    return created


async def settled(field: Field) -> counters.Counter[counters.Request]:
    """Wait until the operator's kinds of writes have ceased: clean-up and events come last."""
    last = await counters.requests(field.client)
    quiet = 0

    async def is_quiet() -> bool:
        nonlocal last, quiet
        now = await counters.requests(field.client)
        same = counters.of_operator(now) == counters.of_operator(last)
        quiet, last = (quiet + 1 if same else 0), now
        return quiet >= _QUIET_CHECKS

    await wait_until_async(is_quiet, 120, what="the writes to cease", every=0.2)
    return last


def _run(
    *,
    contestant: str,
    workload: Workload,
    start: float,
    seconds: float,
    created: Mapping[str, float],
    follower: Follower,
    writes: counters.Counter[counters.Request],
    cpu: Mapping[str, float],
    busy_share: float,
    peak: float,
) -> Run:
    jobs = {name: follower.seen(name) for name in created}
    finished = [follower.finished[name] for name in follower.finished if name in created]
    took = finished[-1] - start
    own = counters.of_operator(writes)
    return Run(
        contestant=contestant,
        workload=workload.name,
        jobs=workload.jobs,
        pods=workload.pods,
        seconds=round(seconds, 3),
        jobs_per_second=round(workload.jobs / took, 2),
        pods_per_second=round(workload.pods / took, 1),
        writes={str(key): round(count / workload.jobs, 3) for key, count in own.items()},
        writes_per_job=round(sum(own.values()) / workload.jobs, 2),
        all_writes_per_job=round(sum(counters.writes(writes).values()) / workload.jobs, 2),
        cpu_ms_per_job={n: round(1000 * used / workload.jobs, 2) for n, used in cpu.items()},
        busy_share=round(busy_share, 3),
        peak_memory_mib=peak,
        running_seen=sum("Running" in seen.phases for seen in jobs.values()),
        last_job_has_its_pods=round(max(max(s.pods.values()) for s in jobs.values()) - start, 3),
        create_to_pods_ms=samples.spread(
            [max(seen.pods.values()) - created[name] for name, seen in jobs.items()]
        ),
        ready_to_running_ms=samples.spread(ready_to_running(jobs.values())),
        rates=samples.rates(finished, start, PARTS),
        load_average=os.getloadavg()[0],
    )


def ready_to_running(jobs: Iterable[Seen]) -> list[float]:
    """Seconds from the last pod's readiness to phase Running, for jobs seen in it.

    The two come by different watches, so that one may overtake the other by a little.
    """
    return [
        max(0.0, seen.phases["Running"] - max(seen.ready.values()))
        for seen in jobs
        if "Running" in seen.phases and seen.ready
    ]


def share(runs: Iterable[Run]) -> list[float]:
    """Our rate as a part of the bare client's, round by round."""
    by_kind: dict[str, list[float]] = {OPERATOR: [], CEILING: []}
    for run in runs:
        by_kind[run.contestant].append(run.jobs_per_second)
    return [
        round(ours / theirs, 3)
        for ours, theirs in zip(by_kind[OPERATOR], by_kind[CEILING], strict=True)
    ]


def as_json(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """The runs as they are kept."""
    return [asdict(run) for run in runs]


def say(text: str) -> None:
    """Progress, for a person who waits."""
    print(text, file=sys.stderr, flush=True)
