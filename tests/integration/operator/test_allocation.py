"""The allocator at work: jobs share nodes, wait for room, and give it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from di_kube.resources import DIJOBS, NODES, PODS
from di_operator.allocator.forecast.cluster_snapshot import look_at
from di_operator.allocator.forecast.hypothetical_job import Trial
from di_operator.allocator.forecast.what_if import Surroundings
from di_operator.allocator.policies.registry import load_policy
from di_operator.builders.pinning import Binding
from tests.fakes.kubelet import FakeKubelet
from tests.integration.operator_testbed import Testbed, condition, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
PERIOD = 1.0


def resource(testbed: Testbed) -> str:
    """A device that only the nodes of this test have."""
    return f"example.org/{testbed.namespace}"


def devices(testbed: Testbed, kind: str, replicas: int, **bounds: int) -> Object:
    """A task whose replicas take a device each."""
    body = task(kind, replicas, stop_after="0.2") | bounds
    if kind in ("learner", "collector"):
        body["type"] = kind
    spec = body["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {resource(testbed): "1"}}
    spec["terminationGracePeriodSeconds"] = 5
    return body


@asynccontextmanager
async def nodes(testbed: Testbed, **room: int) -> AsyncIterator[None]:
    """Nodes with so many devices each, named after the namespace."""
    async with AsyncExitStack() as stack:
        for name, count in room.items():
            await stack.enter_async_context(node(testbed, name, count))

        async def are_open() -> bool:
            found = [
                await testbed.client.get(NODES, f"{testbed.namespace}-{name}") for name in room
            ]
            return not any(each["spec"].get("taints") for each in found)

        # A node is born tainted as not ready, until the node controller has seen that it is.
        await testbed.until(are_open, "the taints of new nodes to go")
        yield


def node(testbed: Testbed, name: str, count: int) -> FakeKubelet:
    return FakeKubelet(
        testbed.client,
        namespace=testbed.namespace,
        node=f"{testbed.namespace}-{name}",
        extended={resource(testbed): str(count)},
    )


async def where(testbed: Testbed, name: str) -> dict[str, str]:
    """The node of each pod of a job that is not ending."""
    return {
        pod: body["spec"].get("nodeName", "").removeprefix(f"{testbed.namespace}-")
        for pod, body in (await testbed.pods(name)).items()
        if "deletionTimestamp" not in body["metadata"]
    }


def runs_on(testbed: Testbed, name: str, **wanted: int) -> Callable[[], Awaitable[bool]]:
    """Whether a job is Running with so many pods on each node."""

    async def check() -> bool:
        if (await testbed.status(name)).get("phase") != "Running":
            return False
        return Counter((await where(testbed, name)).values()) == wanted

    return check


async def surroundings(testbed: Testbed) -> Surroundings:
    """The cluster as somebody sees it who lists everything."""
    nodes, jobs, pods = [(await testbed.client.list(each))[0] for each in (NODES, DIJOBS, PODS)]
    policy, now = load_policy("fit", {}), datetime.now(UTC)
    return look_at(jobs=jobs, nodes=nodes, pods=pods, policy=policy, now=now)


def trial(testbed: Testbed, manifest: Object) -> Trial:
    return Trial.of(manifest, namespace=testbed.namespace, now=datetime.now(UTC), taken=set())


@pytest.mark.proves("lifecycle.md#pods-that-cannot-run/for-too-little-free-capacity-and-the")
@with_testbed
async def test_pods_behind_others_wait_and_too_large_jobs_do_not(
    testbed: Testbed, namespace: str
) -> None:
    def has_reason(name: str, reason: str) -> Callable[[], Awaitable[bool]]:
        async def check() -> bool:
            status = await testbed.status(name)
            return status.get("phase") == "Starting" and (
                condition(status, "Starting")["reason"] == reason
            )

        return check

    async with nodes(testbed, n1=2), testbed.operator(policy="fit", scheduling_period=PERIOD):
        await testbed.submit(job("first", devices(testbed, "learner", 2)))
        await testbed.until(runs_on(testbed, "first", n1=2), "the first job to run")
        await testbed.submit(job("behind", devices(testbed, "learner", 1)))
        await testbed.submit(job("large", devices(testbed, "learner", 3)))
        await testbed.until(has_reason("behind", "WaitingForNodes"), "a job to wait for nodes")
        await testbed.until(has_reason("large", "Unschedulable"), "a job to be too large")
        await testbed.delete("large")
        await testbed.delete("first")
        await testbed.until(runs_on(testbed, "behind", n1=1), "the waiting job to run")
        waits = await testbed.has_events("behind", "WaitingForNodes")
        assert {each["type"] for each in waits} == {"Normal"}


@with_testbed
async def test_two_jobs_share_a_third_waits_and_a_node_goes(
    testbed: Testbed, namespace: str
) -> None:
    async with nodes(testbed, n1=4, n2=4), testbed.operator(policy="fit", scheduling_period=PERIOD):
        await testbed.submit(job("a", devices(testbed, "learner", 4), preemptible=True))
        await testbed.until(runs_on(testbed, "a", n1=4), "a to have a node of its own")
        assert all("affinity" in pod["spec"] for pod in (await testbed.pods("a")).values())
        b = job("b", devices(testbed, "learner", 3), preemptible=True)
        foretold = (await surroundings(testbed)).forecast(trial(testbed, b)).at_once
        assert [*foretold] == [f"{namespace}-n2"] * 3
        await testbed.submit(b)
        await testbed.until(runs_on(testbed, "b", n2=3), "b to have the other")
        status = await testbed.status("a")
        assert status["allocation"] == [f"{namespace}-n1"] * 4
        await testbed.phase("a", "Running")
        assert testbed.phases["a"][-2:] == ["Starting", "Running"]

        # Two of its four could run, but it needs three.
        c = job("c", devices(testbed, "learner", 4, minReplicas=3, maxReplicas=4), preemptible=True)
        cluster, b_uid = (await surroundings(testbed), (await testbed.job("b"))["metadata"]["uid"])
        assert not cluster.forecast(trial(testbed, c)).starts
        assert cluster.first_end(trial(testbed, c), [b_uid]) == b_uid
        await testbed.submit(c)
        status = await testbed.phase("c", "Pending")
        assert condition(status, "Pending")["reason"] == "WaitingForNodes"
        assert await testbed.pods("c") == {}

        for pod in await testbed.pods("b"):
            await testbed.kubelet.finish(namespace, pod)
        await testbed.phase("b", "Succeeded")
        await testbed.until(runs_on(testbed, "c", n2=4), "c to have b's node")
        assert await where(testbed, "a") == {f"a-learner-{n}": "n1" for n in range(4)}

        await testbed.client.delete(NODES, f"{namespace}-n1")
        status = await testbed.phase("a", "Pending")
        assert status["reschedules"] == 1
        async with node(testbed, "n3", 4):
            await testbed.until(runs_on(testbed, "a", n3=4), "a to run on a new node")
            assert (await testbed.status("a"))["restarts"] == 0
            assert (await testbed.status("c"))["reschedules"] == 0


@with_testbed
async def test_what_never_fits_is_said_at_once_and_blocks_nobody(testbed: Testbed) -> None:
    async with (
        nodes(testbed, n1=2, n2=1),
        testbed.operator(policy="fit", scheduling_period=PERIOD, binding=Binding.DIRECT),
    ):
        await testbed.submit(job("large", devices(testbed, "learner", 8), preemptible=True))

        async def is_explained() -> bool:
            status = await testbed.status("large")
            return bool(status) and (condition(status, "Pending")["reason"] == "Unschedulable")

        await testbed.until(is_explained, "the reason")
        message = condition(await testbed.status("large"), "Pending")["message"]
        assert "task learner needs 8 replicas, there is room for 3" in message
        assert resource(testbed) in message
        await testbed.submit(job("small", devices(testbed, "learner", 2), preemptible=True))
        await testbed.until(runs_on(testbed, "small", n1=1, n2=1), "small to run")
        assert not any("affinity" in pod["spec"] for pod in (await testbed.pods("small")).values())


@with_testbed
async def test_a_gang_starts_whole_or_not_at_all(testbed: Testbed, namespace: str) -> None:
    gang: Object = {"scheduling": {"gang": True}}
    async with nodes(testbed, n1=3), testbed.operator(policy="fit", scheduling_period=PERIOD):
        await testbed.submit(job("first", devices(testbed, "learner", 2), **gang))
        await testbed.phase("first", "Running")
        await testbed.submit(job("second", devices(testbed, "learner", 2), **gang))
        status = await testbed.phase("second", "Pending")
        assert condition(status, "Pending")["reason"] == "WaitingForNodes"
        assert await testbed.pods("second") == {}

        for pod in await testbed.pods("first"):
            await testbed.kubelet.finish(namespace, pod)
        await testbed.phase("second", "Running")
        assert testbed.created == Counter(
            [f"{name}-learner-{n}" for name in ("first", "second") for n in range(2)]
        )


@with_testbed
async def test_a_new_leader_leaves_every_job_where_it_is(testbed: Testbed) -> None:
    settings: Object = {"policy": "fit", "scheduling_period": PERIOD}
    async with nodes(testbed, n1=2, n2=2):
        async with testbed.operator(**settings):
            await testbed.submit(
                job(
                    "a",
                    devices(testbed, "learner", 1),
                    devices(testbed, "collector", 2, minReplicas=1, maxReplicas=2),
                    preemptible=True,
                )
            )
            await testbed.phase("a", "Running")
            before = {name: p["metadata"]["uid"] for name, p in (await testbed.pods("a")).items()}
            placement = (await testbed.status("a"))["placement"]
        async with testbed.operator("two", **settings):
            await testbed.submit(job("b", devices(testbed, "learner", 1), preemptible=True))
            await testbed.phase("b", "Running")
            after = {name: p["metadata"]["uid"] for name, p in (await testbed.pods("a")).items()}
            assert after == before
            status = await testbed.status("a")
            assert (status["placement"], status["reschedules"]) == (placement, 0)


@pytest.mark.proves("events.md#of-its-life/oomlimit")
@with_testbed
async def test_memory_grows_no_further_than_a_node_has_it(testbed: Testbed) -> None:
    """The nodes of the tests have 100 TiB each."""

    async with nodes(testbed, n1=1), testbed.operator(policy="fit"):
        work = devices(testbed, "work", 1)
        oom = {"run-for": "0.1", "exit-code": "137", "reason": "OOMKilled"}
        notes = {f"fake/{key}": value for key, value in oom.items()}
        work["template"]["metadata"]["annotations"] |= notes
        (container,) = work["template"]["spec"]["containers"]
        container["resources"]["limits"]["memory"] = "30Ti"
        rules = [{"onReasons": ["OOMKilled"], "growMemory": {"factor": 2}}]
        await testbed.submit(job("a", work, failurePolicy={"rules": rules}))
        status = await testbed.phase("a", "Failed")
        failed = condition(status, "Failed")
        assert failed["reason"] == "OOMLimit"
        words = "was OOM-killed with 60Ti of memory, and the largest node has 100Ti"
        assert words in failed["message"]


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-stays-pending")
@with_testbed
async def test_a_namespace_has_no_more_than_its_quota_and_a_job_says_that_it_waits_for_it(
    testbed: Testbed, namespace: str
) -> None:
    queues = {namespace: {"quota": {resource(testbed): 3}}}
    async with (
        nodes(testbed, n1=8),
        testbed.operator(
            policy="fit", scheduling_period=PERIOD, policy_arguments={"queues": queues}
        ),
    ):
        await testbed.submit(job("a", devices(testbed, "learner", 2), preemptible=True))
        await testbed.until(runs_on(testbed, "a", n1=2), "a to run")
        await testbed.submit(job("b", devices(testbed, "learner", 2), preemptible=True))

        async def is_told() -> bool:
            status = await testbed.status("b")
            reasons = [each["reason"] for each in status.get("conditions") or ()]
            return "QueueQuotaExceeded" in reasons

        await testbed.until(is_told, "b to be told of the quota")
        found = condition(await testbed.status("b"), "Pending")
        assert found["message"] == (
            f"the quota of namespace {namespace}: it has 2 of its 3 {resource(testbed)}, "
            "and the job needs 2"
        )
        assert await testbed.pods("b") == {}

        for pod in await testbed.pods("a"):
            await testbed.kubelet.finish(namespace, pod)
        await testbed.phase("a", "Succeeded")
        await testbed.until(runs_on(testbed, "b", n1=2), "b to run in its place")
