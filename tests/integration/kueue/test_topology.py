"""Jobs whose pods Kueue sends to one domain of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from di_kube.config import KubeConfig
from di_operator.builders.topology import GATE
from tests.integration.kueue.bed import OURS, Bed, on_bed, queued_job
from tests.integration.kueue.kinds import Object, topology

pytestmark = pytest.mark.usefixtures("admission")
RACK = "example.com/rack"


def together(**more: Object) -> Object:
    return {"scheduling": {"topology": [{"tasks": ["work"], "required": RACK, **more}]}}


@asynccontextmanager
async def racks(bed: Bed, **flavor: str) -> AsyncIterator[None]:
    """Two racks, r1 of one node and r2 of two, with two cores a node; a queue of all six."""
    testbed = bed.testbed
    labels = {"nodeLabels": {OURS: testbed.namespace}}
    async with AsyncExitStack() as stack:
        for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r2")):
            await stack.enter_async_context(bed.node(name, 2, **{RACK: rack}))
        levels = topology(testbed.namespace, RACK)
        await stack.enter_async_context(bed.with_queues(levels, flavor=labels | flavor, team="6"))
        await stack.enter_async_context(testbed.operator())
        yield


def test_pods_wait_for_the_rack_that_kueue_has_room_for_all_of_them_in(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        testbed = bed.testbed
        async with racks(bed, topologyName=namespace):
            # No rack has three cores but r2.
            await bed.submit(queued_job("a", "team", core=3, **together()))
            await bed.until_running(a=3)
            await testbed.phase("a", "Running")
            for pod in (await testbed.pods("a")).values():
                assert pod["spec"]["nodeSelector"] == {OURS: namespace, RACK: "r2"}
                assert pod["spec"]["nodeName"] in (f"{namespace}-n2", f"{namespace}-n3")
                assert GATE not in str(pod["spec"].get("schedulingGates"))
            # Three cores are free, and no rack has them.
            await bed.submit(queued_job("b", "team", core=3, **together()))
            await bed.until_waiting("b", "topology")
            await bed.finish("a")
            await bed.until_running(b=3)

    on_bed(kube_config, namespace, body)


def test_tasks_that_belong_together_are_sent_to_one_rack(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        together = {"tasks": ["work", "rollout"], "colocate": "Tasks", "required": RACK}
        a = queued_job("a", "team", scheduling={"topology": [together]})
        (work,) = a["spec"]["tasks"]
        a["spec"]["tasks"].append({**work, "name": "rollout", "replicas": 2})
        async with racks(bed, topologyName=namespace):
            await bed.submit(a)
            await bed.testbed.phase("a", "Running")
            pods = (await bed.testbed.pods("a")).values()
            assert {pod["spec"]["nodeSelector"][RACK] for pod in pods} == {"r2"}

    on_bed(kube_config, namespace, body)


def test_what_is_only_preferred_is_spread_over_racks_where_none_has_room(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        near = {"topology": [{"tasks": ["work"], "preferred": RACK}]}
        async with racks(bed, topologyName=namespace):
            await bed.submit(queued_job("a", "team", core=5, scheduling=near))
            await bed.testbed.phase("a", "Running")
            pods = (await bed.testbed.pods("a")).values()
            assert {pod["spec"]["nodeSelector"][RACK] for pod in pods} == {"r1", "r2"}

    on_bed(kube_config, namespace, body)


def test_a_queue_without_a_topology_does_not_admit_it_and_says_so(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with racks(bed):
            await bed.submit(queued_job("a", "team", core=2, **together()))
            await bed.until_waiting("a", "Topology")
            assert await bed.running() == {}

    on_bed(kube_config, namespace, body)
