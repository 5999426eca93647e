"""How di-server keeps up with coordinators: many that poll, and one that asks for a hundred.

Polling is an open load, as for admission: a request is sent when it is due, however the earlier
ones fare, and its latency counts from that moment. One di-server answers on connections that are
kept, one a coordinator, as DI-engine's clients do. Creating is done twice: while nobody else asks
and while all others poll; no operator looks after those jobs.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

import aiohttp

from di_api.coordinated import coordinator_name, replica_name
from di_api.spec import Role
from di_kube.config import load_config
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from di_kube.wire import JSON_PATCH
from tests.integration.di_server import (
    Object,
    ServerProcess,
    new_coordinated_job,
    read_job,
    running_server,
)
from tools.benchmarks import processes, samples
from tools.benchmarks.follower import Seen
from tools.benchmarks.samples import Spread
from tools.benchmarks.session import DEADLINE, Session, session
from tools.benchmarks.testbed import OPERATOR, Testbed

COORDINATORS = 64
REPLICAS = 32
"""Collectors of each of them."""
RATE = 500
ASKED = 100
"""Collectors asked for at once."""
_WARM_UP = 2.0
_LISTED = "successfully get replicas"


class CoordinatorResult(TypedDict):
    """`rate` is in requests a second; `failures` got another answer than their list."""

    coordinators: int
    rate: int
    failures: int
    list_ms: Spread
    cpu_ms_per_list: float
    create_ms: Spread
    create_directly_ms: Spread
    """The same patches sent to the API server itself."""
    create_beside_lists_ms: Spread
    created_pods_ms: Spread
    server_memory_mib: float


async def measure(
    testbed: Testbed, *, rate: int, seconds: float, creates: int, grows: int
) -> CoordinatorResult:
    """Poll at `rate` for `seconds`, create `creates` times alone and as often beside polling, then
    watch the pods of `grows` requests come."""
    config = load_config(str(testbed.kubeconfig))
    namespace = await testbed.namespace()
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncKubeClient(config=config) as kube,
        running_server(Path(folder), testbed.kubeconfig, rate="100000", burst="100000") as server,
    ):
        jobs = [
            await asyncio.to_thread(new_coordinated_job, kube, namespace, f"led-{number}")
            for number in range(COORDINATORS)
        ]
        async with _Load(server, jobs) as load:
            for job in jobs:
                await load.create(job, REPLICAS)
            await load.poll(rate=rate, seconds=_WARM_UP)
            pids = processes.family(server.process.pid)
            cpu = sum(map(processes.cpu_seconds, pids))
            listed = await load.poll(rate=rate, seconds=seconds)
            cpu = sum(map(processes.cpu_seconds, pids)) - cpu
            alone = await load.ups_and_downs(creates)
            directly = await asyncio.to_thread(_directly, kube, jobs, creates)
            polling = asyncio.create_task(load.poll(rate=rate, seconds=seconds))
            beside = await load.ups_and_downs(creates)
            await polling
            memory = sum(map(processes.shared_memory_mib, pids))
            async with session(testbed, OPERATOR, replicas=ASKED) as trial:
                there = await _pods_there(trial, kube, load, grows)
    return {
        "coordinators": COORDINATORS,
        "rate": rate,
        "failures": load.failures,
        "list_ms": samples.spread(listed),
        "cpu_ms_per_list": round(1000 * cpu / len(listed), 3),
        "create_ms": samples.spread(alone),
        "create_directly_ms": samples.spread(directly),
        "create_beside_lists_ms": samples.spread(beside),
        "created_pods_ms": samples.spread(there),
        "server_memory_mib": round(memory, 1),
    }


class _Load:
    """Clients of one server."""

    def __init__(self, server: ServerProcess, jobs: Sequence[Object]) -> None:
        self._url = f"{server.url}/v1alpha1/replicas"
        self._jobs = jobs
        self.failures = 0

    async def __aenter__(self) -> _Load:
        connector = aiohttp.TCPConnector(limit=COORDINATORS)
        timeout = aiohttp.ClientTimeout(total=30)
        self._http = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def poll(self, *, rate: int, seconds: float) -> list[float]:
        """Latencies in seconds of lists, from when they were due."""
        latencies: list[float] = []

        async def one(job: Object, due: float) -> None:
            try:
                async with self._http.get(self._url, params=_names(job), data=b"{}") as answer:
                    found = await answer.json()
                good = found["message"] == _LISTED and len(found["data"]["collectors"]) >= REPLICAS
            except (aiohttp.ClientError, TimeoutError, KeyError):
                good = False
            latencies.append(time.perf_counter() - due)
            self.failures += not good

        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(one(self._jobs[number % len(self._jobs)], due))
        return latencies

    async def ups_and_downs(self, count: int) -> list[float]:
        """Latencies in seconds of requests for ASKED more, one at a time."""
        found = []
        for number in range(count):
            job = self._jobs[number % len(self._jobs)]
            began = time.perf_counter()
            await self.create(job, ASKED)
            found.append(time.perf_counter() - began)
            await self._send("DELETE", job, ASKED)
        return found

    async def create(self, job: Object, count: int) -> None:
        """Ask for more collectors; raises for any refusal."""
        await self._send("POST", job, count)

    async def _send(self, method: str, job: Object, count: int) -> None:
        body = {**_names(job), "collectors": {"replicas": count, "cpus": 1}}
        async with self._http.request(method, self._url, json=body) as answer:
            answer.raise_for_status()
            assert len((await answer.json())["data"]["collectors"]) == count


def _directly(kube: SyncKubeClient, jobs: Sequence[Object], count: int) -> list[float]:
    """Latencies in seconds of writing what a request for ASKED more writes."""
    found = []
    for number in range(count):
        job = read_job(kube, jobs[number % len(jobs)])
        name, where = job["metadata"]["name"], job["metadata"]["namespace"]
        before = job["spec"]["coordinated"]["replicas"]
        more = [
            {**before[0], "name": replica_name(name, Role.COLLECTOR, f"{index:05}")}
            for index in range(ASKED)
        ]
        version = {"op": "replace", "path": "/metadata/resourceVersion"}
        replicas = {"op": "add", "path": "/spec/coordinated/replicas"}
        patch = [
            {**version, "value": job["metadata"]["resourceVersion"]},
            {**replicas, "value": before + more},
        ]
        began = time.perf_counter()
        kube.patch(DIJOBS, name, patch, where, content_type=JSON_PATCH)
        found.append(time.perf_counter() - began)
        kube.patch(DIJOBS, name, [{**replicas, "value": before}], where, content_type=JSON_PATCH)
    return found


async def _pods_there(trial: Session, kube: SyncKubeClient, load: _Load, grows: int) -> list[float]:
    """Seconds from each request for ASKED replicas to the sight of the last of their pods.

    One at a time: what follows from a hundred pods (endpoints, bindings, statuses) is three times
    as many writes again, and has ceased before the next request.
    """
    found = []
    for number in range(grows):
        name, follower = f"growing-{number:06}", trial.follower
        seen = follower.seen(name)
        job = await asyncio.to_thread(new_coordinated_job, kube, trial.namespace, name)
        await follower.until(partial(_has_pods, seen, 1), DEADLINE, what="a coordinator")
        await trial.settled()
        began = time.monotonic()
        await load.create(job, ASKED)
        await follower.until(partial(_has_pods, seen, 1 + ASKED), DEADLINE, what="its collectors")
        found.append(max(seen.pods.values()) - began)
    return found


def _has_pods(seen: Seen, count: int) -> bool:
    return len(seen.pods) >= count


def _names(job: Object) -> dict[str, str]:
    metadata = job["metadata"]
    return {
        "namespace": metadata["namespace"],
        "coordinator": coordinator_name(metadata["name"]),
    }
