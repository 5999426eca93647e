"""The allocator at work: jobs share nodes, wait for room, and give it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import NODES
from di_operator.allocator.registry import PolicyError
from tests.fakes.kubelet import FakeKubelet
from tests.integration.operator_field import Field, condition, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
PERIOD = 1.0


def resource(field: Field) -> str:
    """A device that only the nodes of this test have."""
    return f"example.org/{field.namespace}"


def devices(field: Field, kind: str, replicas: int, **bounds: int) -> Object:
    """A task whose replicas take a device each."""
    body = task(kind, replicas, stop_after="0.2") | bounds
    if kind in ("learner", "collector"):
        body["type"] = kind
    spec = body["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {resource(field): "1"}}
    spec["terminationGracePeriodSeconds"] = 5
    return body


@asynccontextmanager
async def nodes(field: Field, **room: int) -> AsyncIterator[None]:
    """Nodes with so many devices each, named after the namespace."""
    async with AsyncExitStack() as stack:
        for name, count in room.items():
            await stack.enter_async_context(node(field, name, count))

        async def are_open() -> bool:
            found = [await field.client.get(NODES, f"{field.namespace}-{name}") for name in room]
            return not any(each["spec"].get("taints") for each in found)

        # A node is born tainted as not ready, until the node controller has seen that it is.
        await field.until(are_open, "the taints of new nodes to go")
        yield


def node(field: Field, name: str, count: int) -> FakeKubelet:
    return FakeKubelet(
        field.client,
        namespace=field.namespace,
        node=f"{field.namespace}-{name}",
        extended={resource(field): str(count)},
    )


async def where(field: Field, name: str) -> dict[str, str]:
    """The node of each pod of a job that is not ending."""
    return {
        pod: body["spec"].get("nodeName", "").removeprefix(f"{field.namespace}-")
        for pod, body in (await field.pods(name)).items()
        if "deletionTimestamp" not in body["metadata"]
    }


def runs_on(field: Field, name: str, **wanted: int) -> Callable[[], Awaitable[bool]]:
    """Whether a job is Running with so many pods on each node."""

    async def check() -> bool:
        if (await field.status(name)).get("phase") != "Running":
            return False
        return Counter((await where(field, name)).values()) == wanted

    return check


def test_two_jobs_share_a_third_waits_and_a_node_goes(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with (
            nodes(field, n1=4, n2=4),
            field.operator(policy="fit", scheduling_period=PERIOD),
        ):
            await field.submit(job("a", devices(field, "learner", 4), preemptible=True))
            await field.until(runs_on(field, "a", n1=4), "a to have a node of its own")
            await field.submit(job("b", devices(field, "learner", 3), preemptible=True))
            await field.until(runs_on(field, "b", n2=3), "b to have the other")
            status = await field.status("a")
            assert status["allocation"] == [f"{namespace}-n1"] * 4
            await field.phase("a", "Running")
            assert field.phases["a"][-2:] == ["Starting", "Running"]

            # Two of its four could run, but it needs three.
            await field.submit(
                job(
                    "c",
                    devices(field, "learner", 4, minReplicas=3, maxReplicas=4),
                    preemptible=True,
                )
            )
            status = await field.phase("c", "Pending")
            assert condition(status, "Pending")["reason"] == "WaitingForNodes"
            assert await field.pods("c") == {}

            for pod in await field.pods("b"):
                await field.kubelet.finish(namespace, pod)
            await field.phase("b", "Succeeded")
            await field.until(runs_on(field, "c", n2=4), "c to have b's node", 20)
            assert await where(field, "a") == {f"a-learner-{n}": "n1" for n in range(4)}

            await field.client.delete(NODES, f"{namespace}-n1")
            status = await field.phase("a", "Pending")
            assert status["reschedules"] == 1
            async with node(field, "n3", 4):
                await field.until(runs_on(field, "a", n3=4), "a to run on a new node", 20)
                assert (await field.status("a"))["restarts"] == 0
                assert (await field.status("c"))["reschedules"] == 0

    on_field(kube_config, namespace, body)


def test_what_never_fits_is_said_at_once_and_blocks_nobody(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with (
            nodes(field, n1=2, n2=1),
            field.operator(policy="fit", scheduling_period=PERIOD),
        ):
            await field.submit(job("large", devices(field, "learner", 8), preemptible=True))

            async def is_explained() -> bool:
                status = await field.status("large")
                return bool(status) and (condition(status, "Pending")["reason"] == "Unschedulable")

            await field.until(is_explained, "the reason")
            message = condition(await field.status("large"), "Pending")["message"]
            assert "task learner needs 8 replicas, there is room for 3" in message
            assert resource(field) in message
            await field.submit(job("small", devices(field, "learner", 2), preemptible=True))
            await field.until(runs_on(field, "small", n1=1, n2=1), "small to run")

    on_field(kube_config, namespace, body)


def test_a_gang_starts_whole_or_not_at_all(kube_config: KubeConfig, namespace: str) -> None:
    async def body(field: Field) -> None:
        gang: Object = {"scheduling": {"gang": True}}
        async with (
            nodes(field, n1=3),
            field.operator(policy="fit", scheduling_period=PERIOD),
        ):
            await field.submit(job("first", devices(field, "learner", 2), **gang))
            await field.phase("first", "Running")
            await field.submit(job("second", devices(field, "learner", 2), **gang))
            status = await field.phase("second", "Pending")
            assert condition(status, "Pending")["reason"] == "WaitingForNodes"
            assert await field.pods("second") == {}

            for pod in await field.pods("first"):
                await field.kubelet.finish(namespace, pod)
            await field.phase("second", "Running", deadline=20)
            assert field.created == Counter(
                [f"{name}-learner-{n}" for name in ("first", "second") for n in range(2)]
            )

    on_field(kube_config, namespace, body)


def test_room_is_given_when_the_pods_of_a_deleted_job_are_gone(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with (
            nodes(field, n1=2),
            field.operator(policy="fit", scheduling_period=PERIOD),
        ):
            slow = devices(field, "learner", 2)
            slow["template"]["metadata"]["annotations"]["fake/stop-after"] = "2"
            await field.submit(job("a", slow, preemptible=True))
            await field.until(runs_on(field, "a", n1=2), "a to run")
            await field.submit(job("b", devices(field, "learner", 2), preemptible=True))
            await field.phase("b", "Pending")
            await field.delete("a")
            together = []

            async def b_runs() -> bool:
                both = [await field.pods("b"), await field.pods("a")]
                together.append(all(both))
                return await runs_on(field, "b", n1=2)()

            # The garbage collector looks for new kinds of owners twice a minute.
            await field.until(b_runs, "b to run", 90)
            assert not any(together)

    on_field(kube_config, namespace, body)


def test_a_new_leader_leaves_every_job_where_it_is(kube_config: KubeConfig, namespace: str) -> None:
    async def body(field: Field) -> None:
        settings: Object = {"policy": "fit", "scheduling_period": PERIOD}
        async with nodes(field, n1=2, n2=2):
            async with field.operator(**settings):
                await field.submit(
                    job(
                        "a",
                        devices(field, "learner", 1),
                        devices(field, "collector", 2, minReplicas=1, maxReplicas=2),
                        preemptible=True,
                    )
                )
                await field.phase("a", "Running")
                before = {name: p["metadata"]["uid"] for name, p in (await field.pods("a")).items()}
                placement = (await field.status("a"))["placement"]
            async with field.operator("two", **settings):
                await field.submit(job("b", devices(field, "learner", 1), preemptible=True))
                await field.phase("b", "Running")
                after = {name: p["metadata"]["uid"] for name, p in (await field.pods("a")).items()}
                assert after == before
                status = await field.status("a")
                assert (status["placement"], status["reschedules"]) == (placement, 0)

    on_field(kube_config, namespace, body)


def test_a_policy_that_does_not_exist_stops_the_operator_at_its_start(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        with pytest.raises(PolicyError, match="did you mean goodput"):
            async with field.operator(policy="godput"):
                raise AssertionError("it started")

    on_field(kube_config, namespace, body)
