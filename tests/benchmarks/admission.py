"""Admission latency of one webhook replica at a fixed rate.

    python -m tests.benchmarks.admission [--rate 200] [--seconds 15] [--output FILE]

The load is open: a request is sent when it is due, however the earlier ones fare, and its latency
counts from that moment, so that a stalled webhook cannot hide behind a waiting client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import ssl
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from di_certs.files import CA_CERTIFICATE
from tests.integration.webhook_process import WebhookProcess, webhook_process
from tests.unit.webhook.reviews import job, review

# What the API server keeps open to one webhook.
CONNECTIONS = 25
WARM_UP = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the load and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--output", type=Path, help="also write the result here")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        webhook_process(Path(folder), "127.0.0.1") as webhook,
    ):
        result = asyncio.run(measure(webhook, rate=options.rate, seconds=options.seconds))
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


async def measure(webhook: WebhookProcess, *, rate: int, seconds: float) -> dict[str, Any]:
    """Half of the requests mutate, half validate, as each create at the API server does."""
    context = ssl.create_default_context(cafile=webhook.certificates / CA_CERTIFICATE)
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=context)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await _load(session, webhook.url, rate=rate, seconds=WARM_UP)
        cpu = _cpu_seconds(webhook.process.pid)
        latencies, failures = await _load(session, webhook.url, rate=rate, seconds=seconds)
        cpu = _cpu_seconds(webhook.process.pid) - cpu
    ordered = sorted(latencies)
    return {
        "benchmark": "admission",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "rate": rate,
        "seconds": seconds,
        "requests": len(latencies) + failures,
        "failures": failures,
        "p50_ms": round(1000 * statistics.median(ordered), 2),
        "p90_ms": round(1000 * ordered[int(len(ordered) * 0.9)], 2),
        "p99_ms": round(1000 * ordered[int(len(ordered) * 0.99)], 2),
        "max_ms": round(1000 * ordered[-1], 2),
        "webhook_cpu_ms_per_request": round(1000 * cpu / len(ordered), 3),
    }


async def _load(
    session: aiohttp.ClientSession, url: str, *, rate: int, seconds: float
) -> tuple[list[float], int]:
    body = review(job())
    latencies: list[float] = []
    failures = 0

    async def one(path: str, due: float) -> None:
        nonlocal failures
        try:
            async with session.post(url + path, data=body) as answer:
                allowed = (await answer.json())["response"]["allowed"]
        except (aiohttp.ClientError, TimeoutError, KeyError):
            allowed = False
        if allowed:
            latencies.append(time.perf_counter() - due)
        else:
            failures += 1

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one("/mutate" if number % 2 else "/validate", due))
    return latencies, failures


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    total = 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in (pid, *map(int, children)):
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


if __name__ == "__main__":
    main()
