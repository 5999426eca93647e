"""The phases of a whole run: each on a control plane of its own, in this order."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from di_api.spec import MAX_PODS
from tools.benchmarks import admission, creates, node
from tools.benchmarks.api_server import requests
from tools.benchmarks.operator import growth, idle, largest, latency, memory, throughput
from tools.benchmarks.operator.copies import Sample, finished_job
from tools.benchmarks.operator.throughput import Run
from tools.benchmarks.servers import coordinators, members, rest_scaling
from tools.benchmarks.session import session
from tools.benchmarks.testbed import CEILING, OPERATOR, RIVAL, control_plane
from tools.benchmarks.workloads import Workload

Results = dict[str, Any]
FOUR = Workload(jobs=200, replicas=4)
SIXTY_FOUR = Workload(jobs=100, replicas=64)
THOUSAND = Workload(jobs=1, replicas=1000)
# Five hundred under way keep the operator busy; ten thousand at once would measure how fast the
# driver creates jobs in the first tenth of the run.
MANY = Workload(jobs=10_000, replicas=1, run_for=0.0, window=500)
SIZES = (100, 1_000, 10_000)
"""Numbers of finished jobs."""
MOST = 100_000
"""The number of a phase of its own."""
_ALL_NAMESPACES = {"DI_OPERATOR_WATCH_NAMESPACE": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How a run is made. `scale` shrinks all numbers, to try the benchmarks themselves."""

    logs: Path
    scale: float = 1.0

    def count(self, full: int) -> int:
        return max(1, round(full * self.scale))

    def workload(self, full: Workload) -> Workload:
        """A job is cut in pods where there is but one, otherwise there are fewer jobs."""
        if full.jobs == 1:
            return dataclasses.replace(full, replicas=self.count(full.replicas))
        window = None if full.window is None else self.count(full.window)
        return dataclasses.replace(full, jobs=self.count(full.jobs), window=window)


async def node_alone(bench: Bench) -> Results:
    """The fake kubelet's own limit."""
    async with control_plane(bench.logs) as testbed:
        return dict(await node.measure(testbed, bench.count(2000)))


def compared(
    full: Workload, *kinds: str, rounds: int, seconds: float
) -> Callable[[Bench], Awaitable[Results]]:
    """Candidates by turns; rounds that would pass `seconds` are left out."""

    async def phase(bench: Bench) -> Results:
        async with control_plane(bench.logs) as testbed, testbed.kubelet():
            until = time.monotonic() + seconds
            order = throughput.turns(*kinds, rounds=rounds)
            runs = await throughput.compare(testbed, bench.workload(full), order=order, until=until)
        found: Results = {"runs": list(map(dataclasses.asdict, runs))}
        for kind in kinds[1:]:
            found[kind] = {
                "jobs_per_second": throughput.ratios(runs, kind, lambda run: run.jobs_per_second),
                "api_server_ms": throughput.ratios(runs, kind, throughput.api_server_ms),
            }
        return found

    return phase


async def api_requests(bench: Bench) -> Results:
    """What each kind of request costs the API server, ours beside the rival's."""
    async with control_plane(bench.logs) as testbed:
        return dict(await requests.measure(testbed, bench.logs, count=bench.count(300), rounds=3))


async def latencies(bench: Bench) -> Results:
    """One job alone under us and the rival, beside a job of a thousand pods, and at half of what we
    can do."""
    found: Results = {}
    burst = bench.workload(Workload(jobs=100, replicas=4))
    async with control_plane(bench.logs) as testbed, testbed.kubelet():
        large = bench.count(1000)
        async with session(testbed, RIVAL, replicas=latency.REPLICAS) as trial:
            found["rival_alone"] = await latency.alone(trial, bench.count(50))
        async with session(testbed, OPERATOR, replicas=latency.REPLICAS) as trial:
            found["alone"] = await latency.alone(trial, bench.count(100))
            pace = (await throughput.measure(trial, burst)).jobs_per_second
            found["rate"] = round(pace / 2, 1)
            found["among_others"] = await latency.among_others(
                trial, rate=pace / 2, jobs=bench.count(200)
            )
            found["beside_large"] = await latency.beside_large(trial, large)
    return found


async def tenants(bench: Bench) -> Results:
    """One tenant's jobs while ten thousand of another wait."""
    async with (
        control_plane(bench.logs) as testbed,
        testbed.kubelet(),
        session(testbed, OPERATOR, replicas=1, settings=_ALL_NAMESPACES) as trial,
    ):
        return dict(await latency.beside_many(trial, bench.count(10_000), bench.count(20)))


async def many_jobs(bench: Bench) -> Results:
    """Ten thousand jobs, then nothing but ten thousand finished jobs and a thousand that run."""
    many = bench.workload(MANY)
    # Each has a control plane of its own: jobs that have ended stay, and the second candidate would
    # run beside those of the first.
    async with (
        control_plane(bench.logs) as testbed,
        testbed.kubelet(),
        session(testbed, CEILING, replicas=1) as trial,
    ):
        ceiling = await throughput.measure(trial, many)
    async with (
        control_plane(bench.logs) as testbed,
        testbed.kubelet(),
        session(testbed, OPERATOR, replicas=1) as trial,
    ):
        ours = await throughput.measure(trial, many)
        rest = await idle.measure(
            trial,
            running=bench.count(1000),
            seconds=idle.SYNC_PERIOD * min(1.0, 10 * bench.scale),
        )
    runs: list[Run] = [ours, ceiling]
    return {
        "runs": list(map(dataclasses.asdict, runs)),
        CEILING: {"jobs_per_second": [round(ours.jobs_per_second / ceiling.jobs_per_second, 3)]},
        "idle": rest,
    }


async def largest_job(bench: Bench) -> Results:
    """The largest job there may be, and for how long the operator's loop is held by it."""
    async with control_plane(bench.logs) as testbed, testbed.kubelet():
        recorded, pods = bench.logs / "holds.jsonl", bench.count(MAX_PODS)
        async with session(testbed, OPERATOR, replicas=pods, holds=recorded) as trial:
            return dict(await largest.measure(trial, pods, recorded))


def among(
    measured: Callable[[Sample, int, Path], Awaitable[Mapping[str, Any]]],
    *sizes: int,
    replicas: int,
) -> Callable[[Bench], Awaitable[Results]]:
    """The measurement among so many copies of one finished job, size by size."""

    async def phase(bench: Bench) -> Results:
        async with control_plane(bench.logs) as testbed, testbed.kubelet():
            sample = await finished_job(testbed, replicas)
            found = []
            for size in map(bench.count, sizes):
                folder = bench.logs / f"load-{size}"
                found.append(await measured(sample, size, folder))
                # A later size may fail on a busy machine.
                (folder / "result.json").write_text(json.dumps(found[-1]))
        return {"sizes": found}

    return phase


async def admissions(bench: Bench) -> Results:
    """The webhook at 200 requests a second."""
    return dict(await admission.measure(rate=200, seconds=15 * min(1.0, 3 * bench.scale)))


async def created(bench: Bench) -> Results:
    """Jobs created with and without the webhook."""
    async with control_plane(bench.logs) as testbed:
        number = bench.count(200)
        return dict(await creates.measure(testbed, creates=number, burst=number))


async def rest(bench: Bench) -> Results:
    """di-server and the operator behind it."""
    async with control_plane(bench.logs) as testbed, testbed.kubelet():
        return dict(
            await rest_scaling.measure(testbed, rounds=bench.count(5), scalings=bench.count(40))
        )


async def coordinated(bench: Bench) -> Results:
    """di-server under 64 coordinators, and the operator behind it."""
    async with control_plane(bench.logs) as testbed, testbed.kubelet():
        return dict(
            await coordinators.measure(
                testbed,
                rate=coordinators.RATE,
                seconds=20 * min(1.0, 3 * bench.scale),
                creates=bench.count(200),
                grows=bench.count(20),
            )
        )


async def boards(bench: Bench) -> Results:
    """Three di-servers and the members of one job; nobody looks after it."""
    async with control_plane(bench.logs) as testbed:
        return dict(
            await members.measure(
                testbed, members=bench.count(members.MEMBERS), rounds=bench.count(10)
            )
        )


PHASES: Mapping[str, Callable[[Bench], Awaitable[Results]]] = {
    "node": node_alone,
    "jobs_of_4": compared(FOUR, OPERATOR, RIVAL, CEILING, rounds=5, seconds=600),
    "requests": api_requests,
    "jobs_of_64": compared(SIXTY_FOUR, OPERATOR, CEILING, rounds=1, seconds=120),
    "job_of_1000": compared(THOUSAND, OPERATOR, CEILING, rounds=2, seconds=60),
    "job_of_4096": largest_job,
    "latency": latencies,
    "tenants": tenants,
    "many_jobs": many_jobs,
    "memory": among(memory.measure, *SIZES, replicas=5),
    "memory_100000": among(memory.measure, MOST, replicas=2),
    "growth": among(growth.measure, *SIZES, replicas=5),
    "growth_100000": among(growth.measure, MOST, replicas=2),
    "admission": admissions,
    "creates": created,
    "rest_scaling": rest,
    "coordinators": coordinated,
    "members": boards,
}


async def run(bench: Bench, names: list[str], results: Results, save: Callable[[], None]) -> None:
    """Run phases and put what they found into `results`, saved after each."""
    for name in names:
        began = time.monotonic()
        load = os.getloadavg()[0]
        print(f"== {name}", file=sys.stderr, flush=True)
        found = await PHASES[name](dataclasses.replace(bench, logs=bench.logs / name))
        took = round(time.monotonic() - began, 1)
        results[name] = {
            **found,
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": took,
            "load_average_before": round(load, 1),
        }
        print(f"== {name}: {took} s", file=sys.stderr, flush=True)
        save()


def machine() -> Results:
    """What the numbers hold for."""
    return {
        "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def load(path: Path) -> Results:
    """Results kept earlier; none if there are none."""
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    return found
