"""What the fake kubelet can do alone, so that no other figure is its doing."""

from __future__ import annotations

import asyncio
import time
from typing import TypedDict

from di_api.names import LABEL_JOB
from di_kube.resources import PODS
from tools.benchmarks import processes, workloads
from tools.benchmarks.follower import Follower
from tools.benchmarks.testbed import Testbed

_JOB = "none"
_DEADLINE = 300.0


class NodeResult(TypedDict):
    """`pods_per_second` is from bound to ready; `cpu_pods_per_second` is what one processor of
    its own would let it do, were the API server free of cost."""

    pods: int
    pods_per_second: float
    cpu_ms_per_pod: float
    cpu_pods_per_second: float


async def measure(testbed: Testbed, pods: int) -> NodeResult:
    """Let a kubelet that has just started bring `pods` waiting pods to readiness."""
    namespace = await testbed.namespace()
    template = workloads.job("any", 1, run_for=None)["spec"]["tasks"][0]["template"]
    async with Follower(testbed.client, namespace) as follower:
        bodies = (
            {
                "metadata": {"name": f"waiting-{number:06d}", "labels": {LABEL_JOB: _JOB}},
                "spec": template["spec"],
            }
            for number in range(pods)
        )
        await asyncio.gather(*(testbed.client.create(PODS, body, namespace) for body in bodies))
        ready = follower.seen(_JOB).ready
        async with testbed.kubelet() as child:
            await follower.until(lambda: bool(ready), _DEADLINE, what="the first pod")
            began, cpu = time.monotonic(), processes.cpu_seconds(child.pid)
            first = len(ready)
            await follower.until(lambda: len(ready) == pods, _DEADLINE, what="all pods")
            seconds = max(ready.values()) - began
            cpu = (processes.cpu_seconds(child.pid) - cpu) / (pods - first)
    return {
        "pods": pods,
        "pods_per_second": round((pods - first) / seconds, 1),
        "cpu_ms_per_pod": round(1000 * cpu, 3),
        "cpu_pods_per_second": round(1 / cpu, 1),
    }
