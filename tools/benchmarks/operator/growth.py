"""A failover, and the page of jobs, among many jobs that have ended.

Two operators have filled caches. The one that leads is killed, so that it releases nothing: the
other one takes the Lease when it expires, reads what there is once more, and decides again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

import aiohttp

from di_kube.resources import PODS
from tests.ports import held_port
from tests.waiting import wait_until_async
from tools.benchmarks import processes
from tools.benchmarks.operator.copies import DEADLINE, Copies, Sample, served

_LEASE = "di-operator"
_PAGES = 3
_REST = 10.0
"""The time between two looks at the page, of the time that a look takes."""
_UNFINISHED = b"Reading the cluster"
"""The page says so until it has all that it shows."""
_EVERY = 0.05
"""Seconds between two looks at what is waited for."""


class GrowthResult(TypedDict):
    """Seconds from the end of the leader until the other one holds the Lease, and until it decides
    again; the processor time of the other one meanwhile and its memory before.

    `page_seconds` are from the start of `di dashboard` until it has answered with the list of
    jobs, `page_again_seconds` of a later answer.
    """

    jobs: int
    pods: int
    lease_seconds: float
    failover_seconds: float
    failover_cpu_seconds: float
    standby_mib: float
    page_seconds: float
    page_again_seconds: float
    page_kib: float
    page_cpu_seconds: float
    page_mib: float


async def measure(sample: Sample, copies: int, folder: Path) -> GrowthResult:
    """Kill a leader among so many copies of a job, then show the page of jobs; `folder` is made."""
    async with served(sample, copies, folder) as shown:
        return {
            "jobs": copies,
            "pods": copies * len(sample.pods),
            **await _failover(shown),  # type: ignore[typeddict-item]  # its other half follows
            **await _page(shown),
        }


async def _failover(shown: Copies) -> dict[str, float]:
    load, holders = shown.load, shown.load.leases.holders
    with held_port() as first, held_port() as second:
        async with shown.operator("first", first, elects=True) as leader:
            await shown.until_ready(first)
            await wait_until_async(
                lambda: holders.get(_LEASE) == "first", DEADLINE, what="a leader", every=_EVERY
            )
            async with shown.operator("second", second, elects=True) as standby:
                await shown.until_ready(second)
                memory = processes.memory_mib(standby.pid)
                # A poll of the leader that is under way would count for the other one.
                leader.kill()
                await leader.wait()
                killed, polls = time.monotonic(), load.lists[PODS.plural]
                cpu = processes.cpu_seconds(standby.pid)
                await wait_until_async(
                    lambda: holders[_LEASE] == "second",
                    DEADLINE,
                    what="another leader",
                    every=_EVERY,
                )
                lease = time.monotonic() - killed
                await wait_until_async(
                    lambda: load.lists[PODS.plural] > polls,
                    DEADLINE,
                    what="its first comparison",
                    every=_EVERY,
                )
                return {
                    "lease_seconds": round(lease, 2),
                    "failover_seconds": round(time.monotonic() - killed, 2),
                    "failover_cpu_seconds": round(processes.cpu_seconds(standby.pid) - cpu, 2),
                    "standby_mib": memory,
                }


async def _page(shown: Copies) -> dict[str, float]:
    began = time.monotonic()
    jar = aiohttp.CookieJar(unsafe=True)
    async with _dashboard(shown) as (url, pid), aiohttp.ClientSession(cookie_jar=jar) as http:
        # The answer to the address with the token leads to the list of jobs.
        home = url.partition("?")[0]
        since = time.monotonic()
        page = await _read(http, url)
        async with asyncio.timeout(DEADLINE):
            while _UNFINISHED in page:
                # Each look costs the page what it needs to read the cluster.
                await asyncio.sleep(max(_EVERY, _REST * (time.monotonic() - since)))
                since = time.monotonic()
                page = await _read(http, home)
        first = time.monotonic() - began
        again = []
        for _ in range(_PAGES):
            since = time.monotonic()
            page = await _read(http, home)
            again.append(time.monotonic() - since)
        return {
            "page_seconds": round(first, 2),
            "page_again_seconds": round(min(again), 3),
            "page_kib": round(len(page) / 1024, 1),
            "page_cpu_seconds": round(processes.cpu_seconds(pid), 2),
            "page_mib": processes.peak_memory_mib(pid),
        }


@asynccontextmanager
async def _dashboard(shown: Copies) -> AsyncIterator[tuple[str, int]]:
    """Run `di dashboard` until the block ends: its address with the token, and its PID."""
    words = ("dashboard", "--no-browser", "--history", "none", "-n", shown.namespace)
    child = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("di")),
        *words,
        env={**os.environ, "KUBECONFIG": str(shown.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert child.stdout is not None, "it is a pipe"
        line = await asyncio.wait_for(child.stdout.readline(), DEADLINE)
        yield line.decode().strip().rpartition(" ")[2], child.pid
    finally:
        child.terminate()
        await child.wait()


async def _read(http: aiohttp.ClientSession, url: str) -> bytes:
    """Return a page."""
    async with http.get(url, timeout=aiohttp.ClientTimeout(total=DEADLINE)) as answer:
        answer.raise_for_status()
        return await answer.read()
