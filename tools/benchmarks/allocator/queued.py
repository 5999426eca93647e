"""Many jobs in a queue of Kueue: how long they wait for admission, and whether the quota holds.

    python -m tools.benchmarks.allocator.queued [--jobs 200] [--extras 10] [--seconds 60]
        [--cpu 800]

Jobs of one replica and some extras, each pod of one core, are created evenly over some seconds; the
quota is for all cores, and for some of the extras. When all of it is used, a job of more priority
asks for an eighth of it at once. Operator, Kueue and a fake kubelet are processes of their own.
Prints the figures and keeps JSON in out/bench/queued.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from di_api.names import LABEL_JOB
from di_kube.cache import DELETED, WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, WORKLOADS, Resource
from tests.following import following
from tests.integration.conftest import fresh_namespace
from tests.integration.kueue.bed import queued_job
from tests.integration.kueue.installation import installed, kueue_api_server
from tests.integration.kueue.kinds import (
    PREEMPTING,
    Object,
    cluster_queue,
    is_admitted,
    local_queue,
    resource_flavor,
)
from tests.integration.kueue.process import KueueProcess
from tests.integration.kueue.quota import Usage, watched_usage
from tests.ports import held_port
from tests.waiting import wait_until_async
from tools.benchmarks import processes, samples
from tools.benchmarks.processes import ROOT
from tools.benchmarks.samples import Spread

OUT = ROOT / "out/bench"
_QUEUE = "team"
_DEADLINE = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much of what."""

    jobs: int
    extras: int
    seconds: float
    cpu: int


@dataclass(slots=True)
class Seen:
    """When things were seen, by a monotonic clock."""

    created: dict[str, float] = field(default_factory=dict)
    admitted: dict[str, float] = field(default_factory=dict)
    """Workloads that are now, with the moment of their admission."""
    running: dict[str, float] = field(default_factory=dict)
    quota: int = 0
    used: float | None = None
    """When nothing of the quota was free for the first time."""

    def workload(self, kind: str, body: Object) -> None:
        name = body["metadata"]["name"]
        if kind != DELETED and is_admitted(body):
            self.admitted.setdefault(name, time.monotonic())
            if self.used is None and len(self.admitted) >= self.quota:
                self.used = time.monotonic()
        else:
            self.admitted.pop(name, None)

    def job(self, kind: str, body: Object) -> None:
        if kind != DELETED and (body.get("status") or {}).get("phase") == "Running":
            self.running.setdefault(body["metadata"]["name"], time.monotonic())


async def measure(
    config: KubeConfig, kubeconfig: Path, namespace: str, kueue: KueueProcess, options: Options
) -> dict[str, Any]:
    """Run all of it once."""
    flavor, queue, seen = "default", f"queue-{namespace}", Seen(quota=options.cpu)
    queues = [
        resource_flavor(flavor),
        cluster_queue(queue, {flavor: {"cpu": str(options.cpu)}}, preemption=PREEMPTING),
        local_queue(_QUEUE, queue, namespace),
    ]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(config=config, timeout=60))
        await stack.enter_async_context(installed(client, *queues))
        kubelet = [sys.executable, "-m", "tests.fakes.kubelet", str(kubeconfig)]
        logs = OUT / "logs/queued"
        await stack.enter_async_context(processes.running(kubelet, log=logs / "kubelet.log"))
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "DI_OPERATOR_NAMESPACE": namespace,
            "DI_OPERATOR_WATCH_NAMESPACE": namespace,
            # On a machine that others keep busy its lease would be lost.
            "DI_OPERATOR_LEADER_ELECT": "0",
            "DI_OPERATOR_HEALTH_BIND": f"127.0.0.1:{stack.enter_context(held_port())}",
        }
        operator = await stack.enter_async_context(
            processes.running(
                [str(Path(sys.executable).with_name("di-operator"))],
                log=logs / "operator.log",
                environment=environment,
            )
        )
        usage = await stack.enter_async_context(
            watched_usage(client, namespace, lambda pod: [_group(pod)])
        )
        await stack.enter_async_context(_followed(client, WORKLOADS, namespace, seen.workload))
        await stack.enter_async_context(_followed(client, DIJOBS, namespace, seen.job))
        before = [processes.cpu_seconds(pid) for pid in (operator.pid, kueue.pid)]
        first = await _fill(client, namespace, seen, options)
        spent = [
            round(processes.cpu_seconds(pid) - earlier, 1)
            for pid, earlier in zip((operator.pid, kueue.pid), before, strict=True)
        ]
        taken = await _preempt(client, namespace, seen, options)
        return {
            "options": {slot: getattr(options, slot) for slot in Options.__slots__},
            **first,
            "operator_cpu_seconds": spent[0],
            "kueue_cpu_seconds": spent[1],
            "preemption": taken,
            "quota": {"cpu": options.cpu, "peak_of_pods": str(usage.peak["all", "cpu"])},
            "sums_looked_at": len(usage.changes),
            "held": _held(usage, options),
        }


async def _fill(client: KubeClient, namespace: str, seen: Seen, options: Options) -> dict[str, Any]:
    """Create all jobs, and wait until nothing of the quota is left."""
    start = time.monotonic()
    names = [f"job-{number:04d}" for number in range(options.jobs)]
    for number, name in enumerate(names):
        due = start + number * options.seconds / options.jobs
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        seen.created[name] = time.monotonic()
        body = queued_job(name, _QUEUE, extras=options.extras)
        await client.create(DIJOBS, body, namespace)
    last = time.monotonic()
    full = min(options.cpu, options.jobs * (1 + options.extras))
    await wait_until_async(
        lambda: len(seen.admitted) >= full and len(seen.running) >= options.jobs,
        _DEADLINE,
        what=f"{full} Workloads to be admitted",
    )
    cores = {name: seen.admitted[f"{name}-core"] for name in names}
    # Once nothing of the quota is free, extras have to make room for a core.
    used = seen.used or last
    waits: dict[bool, list[float]] = {True: [], False: []}
    for name, moment in cores.items():
        waits[seen.created[name] < used].append(moment - seen.created[name])
    return {
        "core_admitted_while_quota_was_free_ms": _spread(waits[True]),
        "core_admitted_by_eviction_of_extras_ms": _spread(waits[False]),
        "job_running_ms": samples.spread(
            [seen.running[name] - seen.created[name] for name in names]
        ),
        "admitted": len(seen.admitted),
        "full_after_last_create_seconds": round(max(seen.admitted.values()) - last, 1),
        "full_seconds": round(max(seen.admitted.values()) - start, 1),
    }


async def _preempt(
    client: KubeClient, namespace: str, seen: Seen, options: Options
) -> dict[str, Any]:
    """Ask for an eighth of the quota with more priority; extras make way."""
    count, start = options.cpu // 8, time.monotonic()
    await client.create(
        DIJOBS, queued_job("urgent", _QUEUE, core=count, priority="high"), namespace
    )
    await wait_until_async(
        lambda: "urgent" in seen.running, _DEADLINE, what="the urgent job to run"
    )
    cores = sum(name.endswith("-core") for name in seen.admitted)
    return {
        "pods": count,
        "admitted_ms": round(1000 * (seen.admitted["urgent-core"] - start)),
        "running_ms": round(1000 * (seen.running["urgent"] - start)),
        "cores_that_kept_their_quota": cores - 1,
    }


def _spread(seconds: list[float]) -> Spread | None:
    return samples.spread(seconds) if seconds else None


def _held(usage: Usage, options: Options) -> bool:
    return all(sum_ <= options.cpu for _, _, name, sum_ in usage.changes if name == "cpu")


def _group(pod: Object) -> str:
    return "all" if LABEL_JOB in (pod["metadata"].get("labels") or {}) else "others"


@asynccontextmanager
async def _followed(
    client: KubeClient, resource: Resource, namespace: str, callback: Any
) -> AsyncIterator[None]:
    cache = WatchCache(
        client, resource, namespace=namespace, clock=time.monotonic, rng=random.Random()
    )
    cache.subscribe(callback)
    async with following(cache):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--extras", type=int, default=10, help="of each job")
    parser.add_argument("--seconds", type=float, default=60, help="in which they are created")
    parser.add_argument("--cpu", type=int, default=800, help="of the quota; a core a pod")
    options = Options(**vars(parser.parse_args()))
    logs = OUT / "logs/queued"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with (
        kueue_api_server("bench", logs / "kueue") as server,
        fresh_namespace(server.config) as namespace,
    ):
        found = asyncio.run(
            measure(server.config, server.cluster.kubeconfig, namespace, server.kueue, options)
        )
    text = json.dumps(found, indent=2)
    (OUT / "queued.json").write_text(f"{text}\n")
    print(text)


if __name__ == "__main__":
    main()
