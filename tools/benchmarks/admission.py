"""Admission latency of one webhook replica at a fixed rate.

The load is open: a request is sent when it is due, however the earlier ones fare, and its latency
counts from that moment, so that a stalled webhook cannot hide behind a waiting client.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from pathlib import Path
from typing import TypedDict

import aiohttp

from di_certs.files import CA_CERTIFICATE
from tests.integration.webhook_process import WebhookProcess, webhook_process
from tests.unit.webhook.reviews import job, review
from tools.benchmarks import processes, samples
from tools.benchmarks.samples import Spread

# What the API server keeps open to one webhook.
_CONNECTIONS = 25
_WARM_UP = 2.0


class AdmissionResult(TypedDict):
    """`rate` is in requests a second; `failures` got no allowing answer."""

    rate: int
    failures: int
    latency_ms: Spread
    cpu_ms_per_request: float


async def measure(*, rate: int, seconds: float) -> AdmissionResult:
    """Start a webhook and ask it; half of the requests mutate, half validate, as each create at
    the API server does."""
    with (
        tempfile.TemporaryDirectory() as folder,
        webhook_process(Path(folder), "127.0.0.1") as webhook,
    ):
        return await _measure(webhook, rate=rate, seconds=seconds)


async def _measure(webhook: WebhookProcess, *, rate: int, seconds: float) -> AdmissionResult:
    context = ssl.create_default_context(cafile=webhook.certificates / CA_CERTIFICATE)
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await _load(session, webhook.url, rate=rate, seconds=_WARM_UP)
        pids = processes.family(webhook.process.pid)
        cpu = sum(map(processes.cpu_seconds, pids))
        latencies, failures = await _load(session, webhook.url, rate=rate, seconds=seconds)
        cpu = sum(map(processes.cpu_seconds, pids)) - cpu
    return {
        "rate": rate,
        "failures": failures,
        "latency_ms": samples.spread(latencies),
        "cpu_ms_per_request": round(1000 * cpu / len(latencies), 3),
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
