"""How long di-server takes to acknowledge a scaling request, and how long its pod takes to be
there.

Each client scales jobs of its own up and down by turns, under an Idempotency-Key. Rounds through
di-server alternate with rounds that read and patch the same jobs directly, so that what the API
server itself takes at that moment is in the result: only the ratio is worth comparing between
machines. Clients first send one request after the other, which uses all processors: their latency
is that of a queue. Then they send `RATE` requests a second in all, and latency counts from when a
request was due. No operator looks after those jobs; the pods are measured afterwards, one at a
time.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypedDict

import requests

from di_kube.config import load_config
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from tests.integration.di_server import Object, ServerProcess, new_job, read_job, running_server
from tools.benchmarks import processes, samples
from tools.benchmarks.follower import Seen
from tools.benchmarks.samples import Spread
from tools.benchmarks.session import DEADLINE, Session, session
from tools.benchmarks.testbed import OPERATOR, Testbed

CLIENTS = 8
REQUESTS = 40
"""A client and round; even, so that each round leaves the jobs as they were."""
JOBS = 4
"""A client, in turn."""
RATE = 16
"""Requests a second of all clients, where they are paced."""
Scale = Callable[[requests.Session, Object, int], None]


class RestResult(TypedDict):
    """`direct` are the same changes without di-server, `p50_ratio` is against them."""

    clients: int
    acknowledged_ms: Spread
    direct_ms: Spread
    p50_ratio: float
    p99_ratio: float
    paced_rate: int
    """Requests a second of all clients, for `paced_ms` and `paced_direct_ms`."""
    paced_ms: Spread
    paced_direct_ms: Spread
    requests_per_second: float
    direct_per_second: float
    pods_there_ms: Spread
    server_memory_mib: float


async def measure(testbed: Testbed, *, rounds: int, scalings: int) -> RestResult:
    """Alternate `rounds` rounds of each kind, then watch the pods of `scalings` requests come."""
    config = load_config(str(testbed.kubeconfig))
    namespace = await testbed.namespace()
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncKubeClient(config=config) as kube,
        running_server(
            Path(folder),
            testbed.kubeconfig,
            rate="100000",
            burst="100000",
            default_max_replicas="4096",
        ) as server,
    ):
        found, rates = await asyncio.to_thread(_alternate, server, kube, namespace, rounds)
        paced, _ = await asyncio.to_thread(
            _alternate, server, kube, namespace, rounds, pause=CLIENTS / RATE
        )
        async with session(testbed, OPERATOR, replicas=4) as trial:
            there = await _pods_there(trial, kube, server, scalings)
        memory = sum(map(processes.shared_memory_mib, processes.family(server.process.pid)))
    acknowledged, direct = samples.spread(found["di_server"]), samples.spread(found["direct"])
    return {
        "clients": CLIENTS,
        "acknowledged_ms": acknowledged,
        "direct_ms": direct,
        "p50_ratio": round(acknowledged["p50"] / direct["p50"], 2),
        "p99_ratio": round(acknowledged["p99"] / direct["p99"], 2),
        "paced_rate": RATE,
        "paced_ms": samples.spread(paced["di_server"]),
        "paced_direct_ms": samples.spread(paced["direct"]),
        "requests_per_second": samples.median(rates["di_server"], 1),
        "direct_per_second": samples.median(rates["direct"], 1),
        "pods_there_ms": samples.spread(there),
        "server_memory_mib": round(memory, 1),
    }


def _alternate(
    server: ServerProcess, kube: SyncKubeClient, namespace: str, rounds: int, *, pause: float = 0.0
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Latencies in seconds and rates of the rounds; the first of each kind is not counted.

    A client's requests are due every `pause` seconds; 0: each follows the one before.
    """
    prefix = "p" if pause else "j"
    jobs = [
        [new_job(kube, namespace, f"{prefix}{client}-{number}") for number in range(JOBS)]
        for client in range(CLIENTS)
    ]

    def through_server(http: requests.Session, job: Object, number: int) -> None:
        _scale(http, server, job, "DELETE" if number % 2 else "POST")

    def directly(_: requests.Session, job: Object, number: int) -> None:
        name, where = job["metadata"]["name"], job["metadata"]["namespace"]
        version = kube.get(DIJOBS, name, where)["metadata"]["resourceVersion"]
        operations = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/tasks/1/replicas", "value": 2 + (number + 1) % 2},
        ]
        kube.patch(DIJOBS, name, operations, where, content_type="application/json-patch+json")

    latencies: dict[str, list[float]] = {"di_server": [], "direct": []}
    rates: dict[str, list[float]] = {"di_server": [], "direct": []}
    for count in range(rounds + 1):
        for name, scale in (("di_server", through_server), ("direct", directly)):
            began = time.monotonic()
            found = _round(jobs, scale, pause)
            if count:
                rates[name].append(len(found) / (time.monotonic() - began))
                latencies[name] += found
    return latencies, rates


def _round(jobs: list[list[Object]], scale: Scale, pause: float) -> list[float]:
    """Latencies in seconds of one round of all clients, which begin one after the other."""
    start = time.monotonic()

    def client(which: int) -> list[float]:
        mine, found = jobs[which], []
        with requests.Session() as http:
            for number in range(REQUESTS):
                # Up and down of one job follow each other, then the next job's turn comes.
                job = mine[number // 2 % len(mine)]
                due = start + (number + which / len(jobs)) * pause
                if pause:
                    time.sleep(max(0.0, due - time.monotonic()))
                began = due if pause else time.monotonic()
                scale(http, job, number)
                found.append(time.monotonic() - began)
        return found

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [each for found in pool.map(client, range(len(jobs))) for each in found]


async def _pods_there(
    trial: Session, kube: SyncKubeClient, server: ServerProcess, scalings: int
) -> list[float]:
    """Seconds from each request for one more replica to the sight of its pod."""
    name, follower = "growing-000000", trial.follower
    await trial.create(name, 4, run_for=None)
    seen = follower.seen(name)
    await follower.until(lambda: "Running" in seen.phases, DEADLINE, what="a running job")
    job = await asyncio.to_thread(
        read_job, kube, {"metadata": {"name": name, "namespace": trial.namespace}}
    )
    found = []
    with requests.Session() as http:
        for count in range(5, 5 + scalings):
            began = time.monotonic()
            await asyncio.to_thread(_scale, http, server, job, "POST")
            await follower.until(partial(_has_pods, seen, count), DEADLINE, what=f"pod {count}")
            found.append(max(seen.pods.values()) - began)
    return found


def _has_pods(seen: Seen, count: int) -> bool:
    return len(seen.pods) == count


def _scale(http: requests.Session, server: ServerProcess, job: Object, method: str) -> None:
    """Ask for one replica more (POST) or fewer (DELETE)."""
    key = {"Idempotency-Key": secrets.token_hex(8)}
    url = server.replicas_of(job)
    http.request(method, url, json={"replicas": 1}, headers=key, timeout=60).raise_for_status()
