"""What finished jobs cost the operator and `di list`, by their number."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TypedDict

from di_kube.resources import PODS
from tests.ports import held_port
from tests.waiting import wait_until_async
from tools.benchmarks import processes
from tools.benchmarks.operator.copies import DEADLINE, Copies, Sample, served

_POLLS = 2
_SYNC_PERIOD = 5
"""Seconds; the poll of a real operator comes every minute."""


class MemoryResult(TypedDict):
    """`filled_seconds` is from the start of the process until it was ready, `filled_cpu_seconds`
    its processor time until then. Memory was looked at then, and at its peak after two polls;
    `poll_cpu_seconds` is the processor time of a poll. `list_cpu_seconds` and `list_mib` are of
    one `di list`."""

    jobs: int
    pods: int
    filled_seconds: float
    filled_cpu_seconds: float
    filled_mib: float
    peak_mib: float
    poll_cpu_seconds: float
    list_cpu_seconds: float
    list_mib: float


async def measure(sample: Sample, copies: int, folder: Path) -> MemoryResult:
    """Show an operator, and `di list`, so many copies of a job; `folder` is made."""
    with held_port() as port:
        async with served(sample, copies, folder) as shown:
            load, began = shown.load, time.monotonic()
            async with shown.operator(
                "operator", port, elects=False, sync_period=_SYNC_PERIOD
            ) as child:
                await shown.until_ready(port)
                filled, memory = time.monotonic() - began, processes.memory_mib(child.pid)
                cpu = processes.cpu_seconds(child.pid)
                await wait_until_async(
                    lambda: load.lists[PODS.plural] >= _POLLS, DEADLINE, what="two polls"
                )
                # The last page is out, but not yet compared with the cache.
                await asyncio.sleep(_SYNC_PERIOD)
                polled = processes.cpu_seconds(child.pid) - cpu
                polls = load.lists[PODS.plural]
                peak = processes.peak_memory_mib(child.pid)
            listed = await _listed(shown)
    return {
        "jobs": copies,
        "pods": copies * len(sample.pods),
        "filled_seconds": round(filled, 2),
        "filled_cpu_seconds": round(cpu, 2),
        "filled_mib": memory,
        "peak_mib": peak,
        "poll_cpu_seconds": round(polled / polls, 3),
        "list_cpu_seconds": listed["cpu_seconds"],
        "list_mib": listed["peak_mib"],
    }


async def _listed(shown: Copies) -> dict[str, float]:
    """Run `di list` of all namespaces; returns its processor time and its peak memory."""
    program, used = str(Path(sys.executable).with_name("di")), shown.folder / "list.json"
    with (shown.folder / "list.txt").open("wb") as output:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tools.benchmarks.used", str(used)),
            *(program, "list", "--all-namespaces"),
            env={**os.environ, "KUBECONFIG": str(shown.kubeconfig)},
            stdout=output,
        )
        if await child.wait():
            raise RuntimeError(f"di list failed, see {shown.folder}/list.txt")
    found: dict[str, float] = json.loads(used.read_text())
    return found
