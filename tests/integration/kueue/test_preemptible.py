"""A preemptible job in a queue of Kueue: the allocator grows it within what is admitted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from di_kube.config import KubeConfig
from di_kube.resources import NODES
from tests.integration.kueue.bed import OURS, Bed, on_bed, queued_job
from tests.integration.kueue.kinds import Object

pytestmark = pytest.mark.usefixtures("admission")
_SLOW = {"stop-after": "0.3"}


@asynccontextmanager
async def allocated(bed: Bed, *, cores: int, quota: str) -> AsyncIterator[None]:
    """A node that others have no use for, a queue, and an operator whose allocator shares it."""
    testbed = bed.testbed
    kubelet = bed.node("n1", cores)

    async def is_open() -> bool:
        return not (await testbed.client.get(NODES, kubelet.node))["spec"].get("taints")

    flavor = {"nodeLabels": {OURS: testbed.namespace}}
    async with kubelet, bed.with_queues(flavor=flavor, team=quota):
        await testbed.until(is_open, "the new node to be ready")
        # A restart that costs nothing pays for one replica more.
        free = {"restart_seconds": 0}
        async with testbed.operator(policy="goodput", policy_arguments=free, scheduling_period=0.5):
            yield


def growing(name: str, bed: Bed) -> Object:
    """A job of one to six learners on nodes of the test."""
    body = queued_job(name, "team", core=2, notes=_SLOW, preemptible=True)
    work = body["spec"]["tasks"][0]
    work |= {"type": "learner", "minReplicas": 1, "maxReplicas": 6}
    work["template"]["spec"]["nodeSelector"] = {OURS: bed.testbed.namespace}
    return body


def test_the_allocator_grows_a_job_within_what_is_admitted_and_gives_it_back_to_cores(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with allocated(bed, cores=8, quota="4"):
            await bed.submit(growing("a", bed))
            # Eight cores are free on the node, and four are the team's.
            await bed.until_running(a=4)
            admitted = (await bed.testbed.phase("a", "Running"))["admitted"]
            assert admitted == {"work": 4}
            # A core of others takes the place of an extra; the allocator has the job go on smaller.
            await bed.submit(queued_job("b", "team", core=2, notes=_SLOW))
            await bed.until_running(a=2, b=2)
            await bed.finish("b")
            await bed.until_running(a=4)
        bed.usage.assert_held("team", cpu="4")

    on_bed(kube_config, namespace, body)
