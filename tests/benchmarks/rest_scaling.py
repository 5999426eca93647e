"""How long di-server takes to acknowledge a scaling request.

    KUBECONFIG=... python -m tests.benchmarks.rest_scaling [--clients 8] [--rounds 5]

Each client scales jobs of its own up and down by turns, under an Idempotency-Key. Rounds through
di-server alternate with rounds that read and patch the same jobs directly, so that what the API
server itself takes at that moment is in the result: only the ratio is worth comparing between
machines. The CRD must be installed; a namespace is made and deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from di_api.kube.client import KubeClient
from di_api.kube.config import load_config
from di_api.kube.resources import DIJOBS, NAMESPACES
from di_api.kube.sync import SyncKubeClient
from tests.integration.di_server import Object, ServerProcess, new_job, running_server

REQUESTS = 40
"""A client and round; even, so that each round leaves the jobs as they were."""
JOBS = 4
"""A client, in turn."""
Scale = Callable[[requests.Session, Object, int], None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rounds and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="also write the result here")
    options = parser.parse_args(arguments)
    kubeconfig = Path(os.environ["KUBECONFIG"])
    namespace = f"bench-{secrets.token_hex(4)}"
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncKubeClient(config=load_config(str(kubeconfig))) as kube,
        running_server(Path(folder), kubeconfig, rate="100000", burst="100000") as server,
    ):
        kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        try:
            result = measure(
                server, kube, namespace, clients=options.clients, rounds=options.rounds
            )
            result["server_memory_mib"] = _memory_mib(server)
        finally:
            asyncio.run(_delete(kubeconfig, namespace))
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


def measure(
    server: ServerProcess, kube: SyncKubeClient, namespace: str, *, clients: int, rounds: int
) -> dict[str, Any]:
    """Alternate rounds; the first one of each kind warms up and is not counted."""
    jobs = [
        [new_job(kube, namespace, f"j{client}-{number}") for number in range(JOBS)]
        for client in range(clients)
    ]

    def through_server(session: requests.Session, job: Object, number: int) -> None:
        method = "DELETE" if number % 2 else "POST"
        key = {"Idempotency-Key": secrets.token_hex(8)}
        url = server.replicas_of(job)
        answer = session.request(method, url, json={"replicas": 1}, headers=key, timeout=30)
        answer.raise_for_status()

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
            found = _round(jobs, scale)
            if count:
                rates[name].append(len(found) / (time.monotonic() - began))
                latencies[name] += found
    result = {
        name: {**_summary(latencies[name]), "requests_per_second": _median(rates[name])}
        for name in latencies
    }
    ratio = result["di_server"]["p50_ms"] / result["direct"]["p50_ms"]
    return {"clients": clients, **result, "p50_ratio": round(ratio, 2)}


def _round(jobs: list[list[Object]], scale: Scale) -> list[float]:
    """Latencies in seconds of one round of all clients."""

    def client(mine: list[Object]) -> list[float]:
        found = []
        with requests.Session() as session:
            for number in range(REQUESTS):
                # Up and down of one job follow each other, then the next job's turn comes.
                job = mine[number // 2 % len(mine)]
                began = time.monotonic()
                scale(session, job, number)
                found.append(time.monotonic() - began)
        return found

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [each for found in pool.map(client, jobs) for each in found]


def _summary(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {
        "requests": len(seconds),
        "p50_ms": round(cuts[49] * 1000, 1),
        "p99_ms": round(cuts[98] * 1000, 1),
    }


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 1)


async def _delete(kubeconfig: Path, namespace: str) -> None:
    async with KubeClient(config=load_config(str(kubeconfig))) as kube:
        await kube.delete(NAMESPACES, namespace)


def _memory_mib(server: ServerProcess) -> float:
    """Memory of gunicorn's master and worker; what they share counts once (Pss)."""
    master = server.process.pid
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    total = 0
    for pid in (str(master), *children):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(total / 1024, 1)


if __name__ == "__main__":
    main()
