"""What a job costs the API server, and how fast its pods are there.

    python -m tests.benchmarks.writes_per_job [--kubeconfig FILE] [--output FILE] [--jobs N]

Three measurements against a real API server (a fresh control plane unless one is given), with a
fake kubelet in a process of its own and the operator as a subprocess, as in production:

- writes: one 4-pod job on an idle cluster, the operator's writes as its own
  `di_operator_api_requests_total` counts them, leases left out;
- latency: jobs one after the other, from the create's answer to the fourth pod's ADDED event;
- throughput: many jobs at once, from the first create to the last job's Succeeded.

Prints one JSON object; times in seconds. It asserts nothing: machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import socket
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from di_api.kube.cache import WatchCache
from di_api.kube.client import KubeClient
from di_api.kube.config import load_config
from di_api.kube.errors import ApiError
from di_api.kube.resources import CRDS, DIJOBS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from di_api.kube.wire import APPLY_PATCH
from di_api.names import LABEL_JOB
from di_cluster.cluster import Cluster
from tests.integration.operator_field import job, task
from tests.waiting import wait_until_async

Object = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
CRD_FILE = ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml"
WRITE_VERBS = ("POST", "PUT", "PATCH", "DELETE")
REQUESTS = re.compile(r"^di_operator_api_requests_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Follower:
    """Watches jobs and pods of one namespace and notes when what happened."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        options: dict[str, Any] = {
            "namespace": namespace,
            "clock": time.monotonic,
            "rng": random.Random(),
        }
        self._jobs = WatchCache(client, DIJOBS, **options)
        self._pods = WatchCache(client, PODS, **options)
        self._jobs.subscribe(self._on_job)
        self._pods.subscribe(self._on_pod)
        self._tasks: list[asyncio.Task[None]] = []
        self._counts: Counter[str] = Counter()
        self.four_pods: dict[str, float] = {}
        self.phases: dict[str, dict[str, float]] = {}

    async def start(self) -> None:
        for cache in (self._jobs, self._pods):
            self._tasks.append(asyncio.create_task(cache.run()))
            await cache.synced.wait()

    async def stop(self) -> None:
        for running in self._tasks:
            running.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_job(self, _: str, body: Object) -> None:
        phase = (body.get("status") or {}).get("phase")
        if phase:
            seen = self.phases.setdefault(body["metadata"]["name"], {})
            seen.setdefault(phase, time.monotonic())

    def _on_pod(self, kind: str, body: Object) -> None:
        if kind != "ADDED":
            return
        name = body["metadata"]["labels"][LABEL_JOB]
        self._counts[name] += 1
        if self._counts[name] == 4:
            self.four_pods[name] = time.monotonic()


class Replica:
    """The operator's process and what it tells about itself."""

    def __init__(self, child: Process, port: int) -> None:
        self.pid = child.pid
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self._session = aiohttp.ClientSession()

    async def close(self) -> None:
        await self._session.close()

    async def writes(self) -> Counter[str]:
        """Writes the operator has made so far, by verb and resource; not those to its Lease."""
        async with self._session.get(self._metrics) as answer:
            text = await answer.text()
        writes: Counter[str] = Counter()
        for found in REQUESTS.finditer(text):
            labels = dict(LABEL.findall(found["labels"]))
            if labels["verb"] in WRITE_VERBS and labels["plural"] != "leases":
                writes[f"{labels['verb']} {labels['plural']}"] += int(float(found["value"]))
        return writes

    async def settled(self) -> Counter[str]:
        """Wait until no write has been made for a second: events and clean-up come last."""
        last, since = await self.writes(), time.monotonic()

        async def is_quiet() -> bool:
            nonlocal last, since
            now = await self.writes()
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since >= 1

        await wait_until_async(is_quiet, 120, what="the writes to cease", every=0.1)
        return last

    def cpu_seconds(self) -> float:
        """Processor time so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return round(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024, 1)


async def measure_writes(
    client: KubeClient, namespace: str, follower: Follower, operator: Replica
) -> Object:
    await client.create(DIJOBS, job("warm", task(replicas=4, run_for="0.5")), namespace)
    await finished(follower, ["warm"])
    before = await operator.settled()
    await client.create(
        DIJOBS,
        job("one", task("learn", run_for="2"), task("collect", 3, run_for="2")),
        namespace,
    )
    await finished(follower, ["one"])
    writes = await operator.settled() - before
    return {"total": sum(writes.values()), "by_kind": dict(sorted(writes.items()))}


async def measure_latency(
    client: KubeClient, namespace: str, follower: Follower, jobs: int
) -> Object:
    created: dict[str, float] = {}
    for number in range(jobs):
        name = f"l{number}"
        created[name] = time.monotonic()
        await client.create(DIJOBS, job(name, task(replicas=4, run_for="0")), namespace)
        await finished(follower, [name])
    times = sorted(follower.four_pods[name] - start for name, start in created.items())
    return {
        "jobs": jobs,
        "p50": round(statistics.median(times), 4),
        "p99": round(times[min(len(times) - 1, int(len(times) * 0.99))], 4),
        "maximum": round(times[-1], 4),
    }


async def measure_throughput(
    client: KubeClient, namespace: str, follower: Follower, jobs: int, operator: Replica
) -> Object:
    names = [f"t{number}" for number in range(jobs)]
    before, busy = await operator.settled(), operator.cpu_seconds()
    start = time.monotonic()
    await asyncio.gather(
        *(
            client.create(DIJOBS, job(name, task(replicas=4, run_for="1")), namespace)
            for name in names
        )
    )
    await finished(follower, names, deadline=300)
    took, busy = time.monotonic() - start, operator.cpu_seconds() - busy
    ends = sorted(follower.phases[name]["Succeeded"] - start for name in names)
    writes = await operator.settled() - before
    return {
        "jobs": jobs,
        "seconds": round(took, 3),
        "jobs_per_second": round(jobs / ends[-1], 2),
        "last_job_has_its_pods": round(max(follower.four_pods[n] for n in names) - start, 3),
        "running_seen": sum("Running" in follower.phases[name] for name in names),
        "writes_per_job": round(writes.total() / jobs, 2),
        "operator_cpu_ms_per_job": round(1000 * busy / jobs, 2),
    }


async def finished(follower: Follower, names: list[str], deadline: float = 60) -> None:
    await wait_until_async(
        lambda: all("Succeeded" in follower.phases.get(name, ()) for name in names),
        deadline,
        what=f"{len(names)} jobs to succeed",
    )


@asynccontextmanager
async def process(*command: str, **environment: str) -> AsyncIterator[Process]:
    child = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        await asyncio.wait_for(child.wait(), 20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def measure(kubeconfig: Path, *, latency_jobs: int, burst_jobs: int) -> Object:
    namespace = f"bench-{secrets.token_hex(3)}"
    async with KubeClient(config=load_config(str(kubeconfig))) as client:
        await prepare(client, namespace)
        follower = Follower(client, namespace)
        await follower.start()
        command = str(Path(sys.executable).with_name("di-operator"))
        port = free_port()
        settings = {
            "KUBECONFIG": str(kubeconfig),
            "DI_OPERATOR_NAMESPACE": namespace,
            "DI_OPERATOR_WATCH_NAMESPACE": namespace,
            "DI_OPERATOR_HEALTH_BIND": f"127.0.0.1:{port}",
            "DI_OPERATOR_IDENTITY": "benchmark",
        }
        kubelet = (sys.executable, "-m", "tests.fakes.kubelet", str(kubeconfig))
        try:
            async with process(*kubelet), process(command, **settings) as child:
                operator = Replica(child, port)
                arguments = client, namespace, follower
                result = {
                    "writes_of_one_job": await measure_writes(*arguments, operator),
                    "latency": await measure_latency(*arguments, latency_jobs),
                    "throughput": await measure_throughput(*arguments, burst_jobs, operator),
                    "operator_rss_mb": operator.memory_mb(),
                    "load_average": os.getloadavg()[0],
                }
                await operator.close()
        finally:
            await follower.stop()
            await client.delete(NAMESPACES, namespace)
        return result


async def prepare(client: KubeClient, namespace: str) -> None:
    body = yaml.safe_load(CRD_FILE.read_text())
    await client.patch(
        CRDS,
        body["metadata"]["name"],
        body,
        content_type=APPLY_PATCH,
        field_manager="benchmark",
        force=True,
    )
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})

    async def is_ready() -> bool:
        try:
            await client.get(SERVICE_ACCOUNTS, "default", namespace)
            await client.list(DIJOBS, namespace)
        except ApiError:
            return False
        return True

    await wait_until_async(is_ready, 30, what="the namespace and the CRD")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kubeconfig", type=Path, help="default: a control plane of its own")
    parser.add_argument("--output", type=Path, help="default: standard output")
    parser.add_argument("--latency-jobs", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=200, help="jobs of the burst")
    options = parser.parse_args()
    counts = {"latency_jobs": options.latency_jobs, "burst_jobs": options.jobs}
    if options.kubeconfig is not None:
        result = asyncio.run(measure(options.kubeconfig, **counts))
    else:
        cluster = Cluster(f"bench-{secrets.token_hex(3)}", profile="control-plane")
        try:
            cluster.up()
            result = asyncio.run(measure(cluster.kubeconfig, **counts))
        finally:
            cluster.down(purge=True)
    text = json.dumps(result, indent=2)
    if options.output is not None:
        options.output.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
