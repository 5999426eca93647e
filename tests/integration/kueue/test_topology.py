"""Jobs whose pods Kueue sends to one domain of the cluster."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from di_api.kube.config import KubeConfig
from di_operator.builders.topology import GATE
from tests.fakes.kubelet import FakeKubelet
from tests.integration.kueue.bed import Bed, on_bed, queued_job
from tests.integration.kueue.kinds import Object, topology
from tests.integration.operator_testbed import Testbed

pytestmark = pytest.mark.usefixtures("admission")
RACK = "example.com/rack"
OURS = "example.com/of"


def node(testbed: Testbed, name: str, rack: str, cpu: int) -> FakeKubelet:
    return FakeKubelet(
        testbed.client,
        namespace=testbed.namespace,
        node=f"{testbed.namespace}-{name}",
        extended={"cpu": str(cpu)},
        labels={RACK: rack, OURS: testbed.namespace},
    )


def together(**more: Object) -> Object:
    return {"scheduling": {"topology": [{"tasks": ["work"], "required": RACK, **more}]}}


def test_pods_wait_for_the_rack_that_kueue_has_room_for_all_of_them_in(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        testbed = bed.testbed
        levels = topology(namespace, RACK)
        flavor = {"nodeLabels": {OURS: namespace}, "topologyName": namespace}
        async with AsyncExitStack() as stack:
            # Of four free cores no rack has three but r2.
            for name, rack, cpu in (("n1", "r1", 2), ("n2", "r2", 2), ("n3", "r2", 2)):
                await stack.enter_async_context(node(testbed, name, rack, cpu))
            await stack.enter_async_context(bed.with_queues(levels, flavor=flavor, team="6"))
            await stack.enter_async_context(testbed.operator())
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
