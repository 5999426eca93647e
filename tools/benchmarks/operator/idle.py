"""What the operator costs when there is nothing to do, and what it holds in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TypedDict

from tools.benchmarks import processes
from tools.benchmarks.session import DEADLINE, Session

# Every periodic duty comes round at least once: the full re-list, the lease, the bookmarks.
SYNC_PERIOD = 60.0


class IdleResult(TypedDict):
    """`calls_per_second` are the operator's requests of any verb, by its own count, and `calls`
    those of each kind in all; `cpu_share` is of one processor."""

    finished: int
    running: int
    seconds: float
    calls_per_second: float
    calls: Mapping[str, int]
    cpu_share: float
    api_server_cpu_share: float
    memory_mib: float
    peak_memory_mib: float


async def measure(trial: Session, *, running: int, seconds: float) -> IdleResult:
    """Add `running` jobs that do not end to those that have finished, and look on."""
    names = [f"endless-{number:06d}" for number in range(running)]
    await asyncio.gather(*(trial.create(name, 1, run_for=None) for name in names))
    await trial.follower.until(
        lambda: all("Running" in trial.follower.seen(name).phases for name in names),
        DEADLINE,
        what=f"{running} running jobs",
    )
    await trial.settled()
    candidate, server = trial.candidate, trial.testbed.pids["kube-apiserver"]
    calls, began = await candidate.requests(), time.monotonic()
    cpu, server_cpu = processes.cpu_seconds(candidate.pid), processes.cpu_seconds(server)
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    cpu = processes.cpu_seconds(candidate.pid) - cpu
    server_cpu = processes.cpu_seconds(server) - server_cpu
    made = await candidate.requests() - calls
    return {
        "finished": len(trial.follower.finished),
        "running": running,
        "seconds": round(took, 1),
        "calls_per_second": round(made.total() / took, 2),
        "calls": {str(key): count for key, count in made.most_common()},
        "cpu_share": round(cpu / took, 4),
        "api_server_cpu_share": round(server_cpu / took, 4),
        "memory_mib": processes.memory_mib(candidate.pid),
        "peak_memory_mib": processes.peak_memory_mib(candidate.pid),
    }
