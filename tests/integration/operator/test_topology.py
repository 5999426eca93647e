"""Pods that the cluster's own scheduler puts near each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.fakes.kubelet import FakeKubelet
from tests.integration.operator.test_allocation import devices, resource, where
from tests.integration.operator_testbed import Object, Testbed, condition, job, with_testbed

pytestmark = pytest.mark.usefixtures("crd")
RACK = "example.com/rack"
EXAMPLE = Path(__file__).parents[3] / "examples/topology/job.yaml"


@asynccontextmanager
async def racks(testbed: Testbed, **nodes: int) -> AsyncIterator[None]:
    """Nodes with so many devices each; the first letter of a name is that of its rack."""
    async with AsyncExitStack() as stack:
        for name, count in nodes.items():
            each = FakeKubelet(
                testbed.client,
                namespace=testbed.namespace,
                node=f"{testbed.namespace}-{name}",
                extended={resource(testbed): str(count)},
                labels={RACK: f"{testbed.namespace}-{name[0]}"},
            )
            await stack.enter_async_context(each)
        yield


def near(colocate: str, *tasks: str, mode: str = "required") -> Object:
    return {"scheduling": {"topology": [{"tasks": [*tasks], "colocate": colocate, mode: RACK}]}}


async def racks_of(testbed: Testbed, name: str) -> dict[str, str]:
    return {pod: node[:1] for pod, node in (await where(testbed, name)).items()}


@pytest.mark.proves("teams.md#topology/tasks", "teams.md#feature-by-feature/topology")
@with_testbed
async def test_tasks_are_together_in_one_rack_and_wait_where_none_has_room(
    testbed: Testbed,
) -> None:
    async with racks(testbed, a1=2, a2=2, b1=2, b2=2), testbed.operator():
        together = near("Tasks", "learner", "rollout")
        for name in ("first", "second"):
            tasks = devices(testbed, "learner", 1), devices(testbed, "rollout", 3)
            await testbed.submit(job(name, *tasks, **together))
            await testbed.phase(name, "Running")
        found = [set((await racks_of(testbed, name)).values()) for name in ("first", "second")]
        assert sorted(map(sorted, found)) == [["a"], ["b"]]
        async with racks(testbed, c1=1, d1=1):
            pair = devices(testbed, "work", 2)
            await testbed.submit(job("third", pair, **near("Task", "work")))

            async def waits() -> bool:
                status = await testbed.status("third")
                if (phase := status.get("phase")) is None:
                    return False
                return bool(condition(status, phase)["reason"] == "Unschedulable")

            await testbed.until(waits, "the third to say that no rack has room for both")


@with_testbed
async def test_the_example_runs_on_one_node(testbed: Testbed) -> None:
    async with racks(testbed, a1=0, b1=0, c1=0), testbed.operator():
        await testbed.submit(yaml.safe_load(EXAMPLE.read_text()))
        await testbed.phase("topology", "Running")
        found = await where(testbed, "topology")
        assert [len(found), len(set(found.values()))] == [3, 1]


@pytest.mark.proves("teams.md#topology/replica")
@with_testbed
async def test_the_pods_of_each_replica_are_in_one_rack(testbed: Testbed) -> None:
    async with racks(testbed, a1=4, a2=4, b1=4, b2=4), testbed.operator():
        rollout = devices(testbed, "rollout", 4) | {"podsPerReplica": 2}
        await testbed.submit(job("a", rollout, **near("Replica", "rollout")))
        await testbed.phase("a", "Running")
        racks_of_replicas: dict[str, set[str]] = {}
        for pod, rack in (await racks_of(testbed, "a")).items():
            racks_of_replicas.setdefault(pod.split("-")[2], set()).add(rack)
        assert [len(found) for found in racks_of_replicas.values()] == [1] * 4


@pytest.mark.proves("dijob.md#spec/preferred")
@with_testbed
async def test_what_is_preferred_runs_in_several_racks_where_one_has_no_room(
    testbed: Testbed,
) -> None:
    async with racks(testbed, a1=1, b1=1), testbed.operator():
        near_if = near("Task", "rollout", mode="preferred")
        await testbed.submit(job("a", devices(testbed, "rollout", 2), **near_if))
        await testbed.phase("a", "Running")
        assert set((await racks_of(testbed, "a")).values()) == {"a", "b"}
