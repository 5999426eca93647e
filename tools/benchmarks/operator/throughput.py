"""Throughput and cost of many jobs, with the candidates measured by turns."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tools.benchmarks import counters, processes, samples
from tools.benchmarks.counters import Request
from tools.benchmarks.follower import Seen
from tools.benchmarks.samples import Spread
from tools.benchmarks.session import Session, session
from tools.benchmarks.testbed import OPERATOR, Testbed
from tools.benchmarks.workloads import Workload

CANDIDATE, API_SERVER, DRIVER = "candidate", "kube-apiserver", "driver"
PARTS = 10
"""Stretches of a run whose rates are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One workload under one candidate. Times in seconds unless named otherwise."""

    candidate: str
    workload: str
    jobs: int
    pods: int
    seconds: float
    jobs_per_second: float
    pods_per_second: float
    writes: Mapping[str, float]
    """Of the candidate, a job, by verb and resource, as the API server counts them."""
    writes_per_job: float
    all_writes: Mapping[str, float]
    """With those of driver, kubelet and controllers."""
    cpu_ms_per_job: Mapping[str, float]
    strangers: float
    """Part of the machine's processor time that was used by nobody of ours."""
    peak_memory_mib: float
    memory_mib: Sequence[float]
    """At the end of each tenth of the run."""
    rates: Sequence[float]
    """Jobs finished a second in each tenth."""
    running_seen: int
    last_job_has_its_pods: float
    create_to_pods_ms: Spread
    ready_to_running_ms: Spread | None
    """None if no job was seen Running."""
    load_average: float


def turns(*kinds: str, rounds: int) -> list[str]:
    """The order of candidates. It turns round each time: a control plane slows down as it fills."""
    return [kind for number in range(rounds) for kind in kinds[:: -1 if number % 2 else 1]]


async def compare(
    testbed: Testbed, workload: Workload, *, order: Sequence[str], until: float = math.inf
) -> list[Run]:
    """Run the workload under one candidate after the other.

    Once all had their turn, a run that would not end before `until` (of the monotonic clock) at
    the pace of the earlier ones is left out, with those that would follow it.
    """
    runs: list[Run] = []
    began = time.monotonic()
    for kind in order:
        now = time.monotonic()
        if len(runs) >= len(set(order)) and now + (now - began) / len(runs) > until:
            break
        async with session(testbed, kind, replicas=workload.replicas) as trial:
            runs.append(await measure(trial, workload))
    return runs


async def measure(trial: Session, workload: Workload) -> Run:
    """Run the workload once."""
    pid = trial.candidate.pid
    pids = {CANDIDATE: pid, **trial.testbed.pids, DRIVER: os.getpid()}
    before = await trial.settled()
    usage = _Usage(pids)
    start = time.monotonic()
    async with _memory(trial, workload) as memory:
        created = await trial.submit(workload)
        await trial.until_finished(*created)
    seconds = time.monotonic() - start
    strangers = usage.strangers()
    writes = await trial.settled() - before
    trial.candidate.require_alive()
    follower = trial.follower
    jobs = {name: follower.seen(name) for name in created}
    finished = [moment for name, moment in follower.finished.items() if name in created]
    running = ready_to_running(jobs.values())
    own = counters.of_operator(writes)
    return Run(
        candidate=trial.kind,
        workload=workload.title,
        jobs=workload.jobs,
        pods=workload.pods,
        seconds=round(seconds, 3),
        jobs_per_second=round(workload.jobs / (finished[-1] - start), 4),
        pods_per_second=round(workload.pods / (finished[-1] - start), 1),
        writes=_per_job(own, workload),
        writes_per_job=round(sum(own.values()) / workload.jobs, 2),
        all_writes=_per_job(counters.writes(writes), workload),
        # Clean-up and events count, though the last job had succeeded before them.
        cpu_ms_per_job={
            name: round(1000 * used / workload.jobs, 2) for name, used in usage.cpu().items()
        },
        strangers=round(strangers, 3),
        peak_memory_mib=processes.peak_memory_mib(pid),
        memory_mib=memory,
        rates=samples.rates(finished, start, PARTS),
        running_seen=sum("Running" in seen.phases for seen in jobs.values()),
        last_job_has_its_pods=round(max(max(s.pods.values()) for s in jobs.values()) - start, 3),
        create_to_pods_ms=samples.spread(
            [max(seen.pods.values()) - created[name] for name, seen in jobs.items()]
        ),
        ready_to_running_ms=samples.spread(running) if running else None,
        load_average=round(os.getloadavg()[0], 1),
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


def api_server_ms(run: Run) -> float:
    """Processor time of the API server a job, in milliseconds."""
    return run.cpu_ms_per_job[API_SERVER]


def ratios(runs: Sequence[Run], other: str, value: Callable[[Run], float]) -> list[float]:
    """Our value as a part of another candidate's, for each round that both had a turn in."""
    size = len({run.candidate for run in runs})
    found = []
    for at in range(0, len(runs), size):
        values = {run.candidate: value(run) for run in runs[at : at + size]}
        if OPERATOR in values and other in values:
            found.append(round(values[OPERATOR] / values[other], 3))
    return found


class _Usage:
    """Processor time since its making."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = {name: processes.cpu_seconds(pid) for name, pid in pids.items()}
        self._machine = processes.machine_seconds()

    def cpu(self) -> dict[str, float]:
        """Seconds of each process."""
        return {
            name: processes.cpu_seconds(pid) - self._before[name]
            for name, pid in self._pids.items()
        }

    def strangers(self) -> float:
        """What other processes had, as a part of all processors' time."""
        now = processes.machine_seconds()
        busy, idle = (end - begin for end, begin in zip(now, self._machine, strict=True))
        return max(0.0, busy - sum(self.cpu().values())) / max(busy + idle, 1e-9)


@asynccontextmanager
async def _memory(trial: Session, workload: Workload) -> AsyncIterator[list[float]]:
    """Note the candidate's memory whenever another tenth of the jobs has finished."""
    found: list[float] = []
    already = len(trial.follower.finished)

    async def sample() -> None:
        for part in range(1, PARTS + 1):
            wanted = already + workload.jobs * part // PARTS
            while len(trial.follower.finished) < wanted:
                await asyncio.sleep(0.05)
            found.append(processes.memory_mib(trial.candidate.pid))

    async with asyncio.TaskGroup() as group:
        group.create_task(sample())
        yield found


def _per_job(writes: Mapping[Request, int], workload: Workload) -> dict[str, float]:
    return {str(key): round(count / workload.jobs, 3) for key, count in writes.items()}
