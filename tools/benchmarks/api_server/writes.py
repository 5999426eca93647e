"""What a write of a job costs the API server: its processor time, by the size of the job.

    python -m tools.benchmarks.api_server.writes [--policy FILE] [--definition FILE]

A fresh control plane, nothing else running. Jobs of four tasks get writes of their status and of a
task's replicas, one after the other, in ROUNDS rounds by turns; no one watches them. A further job
has a data set with the leases of a thousand workers, each write changes one of them. Prints a line
for each job and kind of write: milliseconds a write, median of the rounds. `--definition` is
another CRD, such as that of an earlier version, `--policy` a file with policies that are installed
once the jobs exist. `--only` chooses jobs by variables, such as `--only 16`.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from di_api.names import API_VERSION, KIND
from di_api.status.shards import LEASES_FIELD, lease_text
from di_cluster.cluster import Cluster
from di_cluster.commands import run
from di_kube.client import KubeClient
from di_kube.config import load_config
from di_kube.resources import DIJOBS, NAMESPACES
from di_kube.wire import JSON_PATCH
from tests.failures.clusters import running
from tests.integration.conftest import CRD_FILE, install_crd
from tools.benchmarks.processes import cpu_seconds

TASKS: Final = 4
VARIABLES: Final = {16: 100, 10_000: 8}
"""Environment variables of a job, and the writes of one round."""
LEASES: Final = 1000
LEASE_WRITES: Final = 30
ROUNDS: Final = 3
PLACE: Final = "writes"
_IN_CONTAINER: Final = 1000
_POLICY_SECONDS: Final = 5.0


def job(variables: int) -> dict[str, Any]:
    """A job of TASKS tasks that have so many variables together."""
    spec = {"tasks": [_task(f"task-{number}", variables // TASKS) for number in range(TASKS)]}
    name = f"variables-{variables}"
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def _task(name: str, variables: int) -> dict[str, Any]:
    containers = [
        {
            "name": f"container-{first}" if first else "di-container",
            "image": "busybox",
            "env": [
                {"name": f"V{number}", "value": "1"}
                for number in range(first, min(first + _IN_CONTAINER, variables))
            ],
        }
        for first in range(0, variables, _IN_CONTAINER)
    ]
    return {
        "type": "none",
        "name": name,
        "replicas": 1,
        "template": {"spec": {"containers": containers}},
    }


def leases(first: int, count: int) -> dict[str, Any]:
    """The status of a job whose LEASES workers have 64 shards each, from the first range on."""
    found = {
        f"worker-{number % LEASES}": lease_text(
            until="2026-01-01T00:01:00Z",
            pod=f"{number % LEASES:08x}",
            shards=f"{64 * number}-{64 * number + 63}",
        )
        for number in range(first, first + count)
    }
    return {"status": {"shards": {"prompts": {LEASES_FIELD: found}}}}


async def measured_leases(client: KubeClient, pid: int) -> list[float]:
    """Milliseconds of the process for a write that changes one of LEASES leases, by round."""
    name = "leases"
    await client.create(DIJOBS, {**job(16), "metadata": {"name": name}}, PLACE)
    await client.patch(DIJOBS, name, leases(0, LEASES), PLACE, subresource="status")
    found = []
    for turn in range(ROUNDS):
        before = cpu_seconds(pid)
        for number in range(LEASE_WRITES):
            body = leases(LEASES + turn * LEASE_WRITES + number, 1)
            await client.patch(DIJOBS, name, body, PLACE, subresource="status")
        found.append((cpu_seconds(pid) - before) * 1000 / LEASE_WRITES)
    return found


async def measured(
    client: KubeClient, pid: int, chosen: Mapping[int, int]
) -> dict[tuple[int, str], list[float]]:
    """Milliseconds of the process a write, by variables and kind of write, one for each round."""
    found: dict[tuple[int, str], list[float]] = {}
    for turn in range(ROUNDS):
        for variables, writes in chosen.items():
            name = f"variables-{variables}"
            for kind in ("status", "replicas"):
                before = cpu_seconds(pid)
                for number in range(writes):
                    if kind == "status":
                        body = {"status": {"phase": "Running", "restarts": turn * writes + number}}
                        await client.patch(DIJOBS, name, body, PLACE, subresource="status")
                    else:
                        path = "/spec/tasks/0/replicas"
                        change = [{"op": "replace", "path": path, "value": 1 + number % 2}]
                        await client.patch(DIJOBS, name, change, PLACE, content_type=JSON_PATCH)
                spent = (cpu_seconds(pid) - before) * 1000 / writes
                found.setdefault((variables, kind), []).append(spent)
    return found


def main() -> None:
    """Measure, and print a line for each job and kind of write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--definition", type=Path, default=CRD_FILE)
    parser.add_argument("--policy", type=Path)
    parser.add_argument("--only", type=int, choices=VARIABLES, nargs="*", default=[*VARIABLES])
    options = parser.parse_args()
    chosen = {variables: VARIABLES[variables] for variables in options.only}
    with running(Cluster(f"writes-{secrets.token_hex(3)}", profile="control-plane")) as cluster:
        config = load_config(str(cluster.kubeconfig))
        asyncio.run(install_crd(config, yaml.safe_load(options.definition.read_text())))
        (pid,) = (each.pid for each in cluster.status() if each.name == "kube-apiserver")
        assert pid is not None

        async def measure() -> tuple[dict[tuple[int, str], list[float]], list[float]]:
            async with KubeClient(config=config, timeout=60) as client:
                await client.create(NAMESPACES, {"metadata": {"name": PLACE}})
                for variables in chosen:
                    await client.create(DIJOBS, job(variables), PLACE)
                if options.policy:
                    kubectl = (cluster.binary("kubectl"), f"--kubeconfig={cluster.kubeconfig}")
                    run([*kubectl, "apply", "-f", options.policy], seconds=60)
                    await asyncio.sleep(_POLICY_SECONDS)
                return await measured(client, pid, chosen), await measured_leases(client, pid)

        by_variables, by_leases = asyncio.run(measure())
        for (variables, kind), spent in by_variables.items():
            print(f"{variables} variables, {kind}: {median(spent):.1f} ms")
        print(f"{LEASES} leases, status: {median(by_leases):.1f} ms")


if __name__ == "__main__":
    main()
