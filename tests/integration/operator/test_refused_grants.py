"""Grants whose pods a quota refuses: they keep no other namespace's job from its nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from di_api.names import LABEL_JOB
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, PODS, QUOTAS
from tests.fakes.kubelet import FakeKubelet
from tests.integration.conftest import fresh_namespace
from tests.integration.operator.test_allocation import PERIOD, devices, nodes, resource, runs_on
from tests.integration.operator_testbed import PRIORITY_CLASSES, Testbed, condition, job, on_testbed
from tests.waiting import SLOW_SECONDS

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
NOT_TERMINATING: Final = "NotTerminating"
"""A scope of all pods here, which the allocator can tell."""
BEST_EFFORT: Final = "BestEffort"
"""A scope of all pods here, which the allocator cannot tell: a LimitRange could add requests."""


async def limit(testbed: Testbed, namespace: str, most: int, scope: str = "") -> None:
    """Let a namespace have so many devices, and wait until the API server goes by it."""
    # Each pod has one device, and a quota of best-effort pods counts nothing but pods.
    key = "pods" if scope == BEST_EFFORT else f"requests.{resource(testbed)}"
    spec: Object = {"scopes": [scope]} if scope else {}
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {key: str(most)}, **spec}}
    if most:
        await testbed.client.patch(QUOTAS, "gpus", {"spec": {"hard": {key: str(most)}}}, namespace)
    else:
        await testbed.client.create(QUOTAS, quota, namespace)

    async def counts() -> bool:
        found = await testbed.client.get(QUOTAS, "gpus", namespace)
        return bool(((found.get("status") or {}).get("hard") or {}).get(key) == str(most))

    await testbed.until(counts, f"the quota of {namespace} to be {most}")


async def pending(testbed: Testbed, namespace: str, name: str) -> Mapping[str, Any]:
    """The condition of a job that is Pending; empty for others."""
    status = (await testbed.client.get(DIJOBS, name, namespace)).get("status") or {}
    return condition(status, "Pending") if status.get("phase") == "Pending" else {}


@asynccontextmanager
async def two_nodes(testbed: Testbed, other: str) -> AsyncIterator[None]:
    """Two nodes of 8 devices that run the pods of both namespaces: one that is bound ends only if
    a kubelet ends it."""
    async with (
        nodes(testbed, n1=8, n2=8),
        FakeKubelet(testbed.client, namespace=other, node=f"{testbed.namespace}-n1"),
        FakeKubelet(testbed.client, namespace=other, node=f"{testbed.namespace}-n2"),
    ):
        yield


async def pods(testbed: Testbed, namespace: str, *names: str) -> int:
    selector = f"{LABEL_JOB} in ({','.join(names)})"
    found, _ = await testbed.client.list(PODS, namespace, label_selector=selector)
    return len(found)


@asynccontextmanager
async def contended(testbed: Testbed, other: str, scope: str = "") -> AsyncIterator[None]:
    """A job `v` has all devices; `h1` and `h2`, which go first, ask for them in another namespace
    that may have none."""
    async with (
        two_nodes(testbed, other),
        testbed.operator(policy="goodput", scheduling_period=PERIOD, watch_namespace=None),
    ):
        await testbed.submit(job("v", devices(testbed, "learner", 16), preemptible=True))
        await testbed.until(runs_on(testbed, "v", n1=8, n2=8), "the victim to run")
        await limit(testbed, other, 0, scope)
        if scope != BEST_EFFORT:
            await knows_the_quota(testbed, other)
        for name in ("h1", "h2"):
            body = job(name, devices(testbed, "learner", 8), preemptible=True, priority="high")
            await testbed.client.create(DIJOBS, body, other)
        yield


async def knows_the_quota(testbed: Testbed, namespace: str) -> None:
    """Wait until the operator's own watch has the quota: a gang evicts no other job."""
    body = job("probe", devices(testbed, "learner", 1), scheduling={"gang": True})
    await testbed.client.create(DIJOBS, body, namespace)
    await waits_for(testbed, namespace, "probe", "QueueQuotaExceeded")
    await testbed.client.delete(DIJOBS, "probe", namespace)


async def waits_for(testbed: Testbed, namespace: str, name: str, reason: str) -> str:
    """Wait until a job is Pending for that reason; the message that goes with it."""

    found: Mapping[str, Any] = {}

    async def waits() -> bool:
        nonlocal found
        found = await pending(testbed, namespace, name)
        return found.get("reason") == reason

    await testbed.until(waits, f"{name} to be Pending: {reason}")
    return str(found["message"])


@pytest.mark.parametrize("scope", ["", NOT_TERMINATING], ids=["all-pods", "with-a-scope"])
def test_two_jobs_over_their_quota_evict_no_job_of_another_namespace(
    kube_config: KubeConfig, namespace: str, scope: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with contended(testbed, other, scope):
            for name in ("h1", "h2"):
                message = await waits_for(testbed, other, name, "QueueQuotaExceeded")
                assert "(ResourceQuota gpus)" in message
            status = await testbed.status("v")
            assert (status["phase"], status["reschedules"]) == ("Running", 0)

            await limit(testbed, other, 8, scope)

            async def has_pods() -> bool:
                return await pods(testbed, other, "h1", "h2") == 8

            await testbed.until(has_pods, "one of the two to get the nodes that it may have")

    with fresh_namespace(kube_config) as other:
        on_testbed(kube_config, namespace, body)


def test_a_grant_that_a_quota_refuses_goes_back_to_the_job_it_was_taken_from(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with contended(testbed, other, BEST_EFFORT):
            await given_back(testbed, other)

    with fresh_namespace(kube_config) as other:
        on_testbed(kube_config, namespace, body)


@pytest.mark.extended  # The delays between the tries are real: some minutes.
def test_one_of_two_refused_jobs_gets_its_nodes_at_a_later_try(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with contended(testbed, other, BEST_EFFORT):
            await given_back(testbed, other)
            await limit(testbed, other, 8, BEST_EFFORT)

            async def has_pods() -> bool:
                # Of the quota, which is enough for one, both may get a part at first.
                return 8 in [await pods(testbed, other, name) for name in ("h1", "h2")]

            # The two may refuse each other several times, with twice the delay each time.
            await testbed.until(has_pods, "one of the two to get its nodes", SLOW_SECONDS)

    with fresh_namespace(kube_config) as other:
        on_testbed(kube_config, namespace, body)


async def given_back(testbed: Testbed, other: str) -> None:
    """Wait until both jobs have been refused, and the one that has run before runs again."""
    for name in ("h1", "h2"):
        message = await waits_for(testbed, other, name, "GrantWithdrawn")
        assert "exceeded quota: gpus" in message
    await testbed.until(runs_on(testbed, "v", n1=8, n2=8), "the victim to run again")
    assert await pods(testbed, other, "h1", "h2") == 0


@pytest.mark.parametrize("gang", [False, True], ids=["preemptible", "gang"])
def test_a_job_whose_pods_no_quota_would_refuse_evicts_no_other(
    kube_config: KubeConfig, namespace: str, gang: bool
) -> None:
    kind = {"scheduling": {"gang": True}} if gang else {"preemptible": True}

    async def body(testbed: Testbed) -> None:
        async with (
            nodes(testbed, n1=8, n2=8),
            testbed.operator(policy="goodput", scheduling_period=PERIOD),
        ):
            await testbed.submit(job("v", devices(testbed, "learner", 16), preemptible=True))
            await testbed.until(runs_on(testbed, "v", n1=8, n2=8), "the victim to run")
            learners = devices(testbed, "learner", 8)
            learners["template"]["spec"]["priorityClassName"] = missing
            await testbed.submit(job("h", learners, priority="high", **kind))
            message = await waits_for(testbed, namespace, "h", "GrantWithdrawn")
            assert f"no PriorityClass with name {missing} was found" in message

            async def is_tried_again() -> bool:
                return await pending(testbed, namespace, "h") != first

            first = await pending(testbed, namespace, "h")
            await testbed.until(is_tried_again, "the job to be tried again")
            status = await testbed.status("v")
            assert (status["phase"], status["reschedules"]) == ("Running", 0)

            await testbed.client.create(
                PRIORITY_CLASSES, {"metadata": {"name": missing}, "value": 1}
            )
            if gang:
                # With this policy a gang waits for what is free.
                await testbed.client.delete(DIJOBS, "v", namespace)
            # It is tried again at once, because its spec is another.
            patch = {"spec": {"tasks": [{**learners, "replicas": 7, "minReplicas": 7}]}}
            await testbed.client.patch(DIJOBS, "h", patch, namespace)

            async def has_pods() -> bool:
                return await pods(testbed, namespace, "h") == 7

            try:
                await testbed.until(has_pods, "the corrected job to get its nodes")
            finally:
                await testbed.client.delete(PRIORITY_CLASSES, missing)

    missing = f"{namespace}-gangs" if gang else f"{namespace}-jobs"
    on_testbed(kube_config, namespace, body)
