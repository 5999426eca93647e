"""Jobs whose pods Kubernetes' own scheduler binds together, by its PodGroups (beta, 1.37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from di_api.spec import GangScheduler
from di_kube.config import KubeConfig
from di_kube.resources import PODS
from di_operator.builders.pod_group import KINDS
from tests.integration.conftest import api_server_with_crd, fresh_namespace
from tests.integration.operator.test_allocation import devices, nodes
from tests.integration.operator_testbed import Testbed, condition, job, with_testbed
from tests.integration.peers.test_gang_schedulers import LATER, bound, one_of_two

Object = dict[str, Any]
GANG: Final[Object] = {"scheduling": {"gangScheduler": "kubernetes"}}
GROUPS: Final = KINDS[GangScheduler.KUBERNETES].resource


@pytest.fixture(scope="module")
def kube_config() -> Iterator[KubeConfig]:
    """The administrator's access to an API server that serves PodGroups."""
    served = f"--runtime-config={GROUPS.group}/{GROUPS.version}=true"
    with api_server_with_crd("gangs", served, feature_gates=["GenericWorkload"]) as (_, config):
        yield config


@pytest.fixture
def namespace(kube_config: KubeConfig) -> Iterator[str]:
    """A fresh namespace there."""
    with fresh_namespace(kube_config) as name:
        yield name


async def minimum(testbed: Testbed, name: str) -> int:
    group = await testbed.client.get(GROUPS, name, testbed.namespace)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


async def waits(testbed: Testbed, name: str) -> None:
    """Wait until the job's condition says that the scheduler has no room for it."""

    async def is_told() -> bool:
        status = await testbed.status(name)
        if (phase := status.get("phase")) is None:
            return False
        return condition(status, phase)["reason"] in ("Unschedulable", "PodGroupPending")

    await testbed.until(is_told, f"{name} to say why it waits")


@pytest.mark.proves(
    "teams-gangs.md#gangs-of-the-cluster-s-schedulers/kubernetes",
    "cluster.md#commands/up-feature-gate-name",
)
@with_testbed
async def test_of_two_gangs_that_do_not_fit_together_one_runs_and_one_waits_whole(
    testbed: Testbed, namespace: str
) -> None:
    async with nodes(testbed, n1=2, n2=1), testbed.operator():
        first, other = await one_of_two(testbed, GANG)
        await waits(testbed, other)
        # A third place is free: a scheduler of single pods would have given it away.
        assert await bound(testbed, other) == []
        for pod in await testbed.pods(first):
            await testbed.kubelet.finish(namespace, pod)
        await testbed.phase(other, "Running")


@with_testbed
async def test_a_group_follows_stages_and_replicas(testbed: Testbed, namespace: str) -> None:
    async with nodes(testbed, n1=5), testbed.operator():
        learner = devices(testbed, "learner", 2)
        learner["template"]["metadata"]["annotations"]["fake/ready-after"] = LATER
        collector = devices(testbed, "collector", 2) | {"dependsOn": ["learner"]}
        await testbed.submit(job("grows", learner, collector, **GANG))

        async def is_first_stage() -> bool:
            return len(await bound(testbed, "grows")) == 2 == await minimum(testbed, "grows")

        await testbed.until(is_first_stage, "the first stage to be bound")
        for name in await testbed.pods("grows"):
            await testbed.kubelet.make_ready(namespace, name)

        async def is_second_stage() -> bool:
            return len(await bound(testbed, "grows")) == 4 == await minimum(testbed, "grows")

        await testbed.until(is_second_stage, "the second stage to be bound")
        await testbed.phase("grows", "Running")

        await testbed.patch("grows", {"tasks": [learner, collector | {"replicas": 4}]})
        await waits(testbed, "grows")
        # There is room for one more, and none for two.
        assert len(await bound(testbed, "grows")) == 4
        await testbed.patch("grows", {"tasks": [learner, collector | {"replicas": 3}]})

        async def is_small_enough() -> bool:
            return len(await bound(testbed, "grows")) == 5 == await minimum(testbed, "grows")

        await testbed.until(is_small_enough, "the smaller group to be bound")
        await testbed.phase("grows", "Running")

        pod = "grows-collector-0"
        uid = (await testbed.pods("grows"))[pod]["metadata"]["uid"]
        await testbed.client.delete(PODS, pod, namespace)

        async def is_made_again() -> bool:
            found = (await testbed.pods("grows")).get(pod)
            return found is not None and found["metadata"]["uid"] != uid

        await testbed.until(is_made_again, "the pod to be made again")
        await testbed.until(is_small_enough, "it to be bound")
