"""What the API server refuses, what others own, and what people do to a job by hand."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import LABEL_JOB
from di_kube.resources import DIJOBS, SERVICES, Resource
from tests.integration.operator_testbed import (
    Testbed,
    condition,
    job,
    task,
    with_testbed,
)

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota")


async def set_quota(testbed: Testbed, namespace: str, pods: str) -> None:
    """Allow so many pods, and wait until the API server counts them."""
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": pods}}}
    await testbed.client.create(QUOTAS, quota, namespace)

    async def quota_counts() -> bool:
        found = await testbed.client.get(QUOTAS, "pods", namespace)
        return bool((found.get("status") or {}).get("hard"))

    await testbed.until(quota_counts, "the quota to be enforced")


@pytest.mark.proves("teams.md#a-resourcequota")
@with_testbed
async def test_a_job_over_quota_waits_and_runs_when_there_is_room(
    testbed: Testbed, namespace: str
) -> None:
    await set_quota(testbed, namespace, "2")
    async with testbed.operator():
        await testbed.submit(job("a", task(replicas=4)))

        async def waits() -> bool:
            status = await testbed.status("a")
            if status.get("phase") != "Pending":
                return False
            return bool(condition(status, "Pending")["reason"] == "QuotaExceeded")

        await testbed.until(waits, "the job to wait for quota")
        assert (await testbed.status("a"))["restarts"] == 0
        await testbed.client.patch(QUOTAS, "pods", {"spec": {"hard": {"pods": "9"}}}, namespace)
        await testbed.phase("a", "Running")
        assert testbed.created == {f"a-work-{index}": 1 for index in range(4)}
        warnings = [e for e in await testbed.events("a") if e["reason"] == "QuotaExceeded"]
        assert len(warnings) == 1


@pytest.mark.extended
@with_testbed
async def test_a_quota_for_some_pods_leaves_the_learners(testbed: Testbed, namespace: str) -> None:
    await set_quota(testbed, namespace, "2")
    collectors = {**task("collector", 6), "type": "collector"}
    learners = {**task("learner", 2), "type": "learner"}
    async with testbed.operator():
        await testbed.submit(job("a", collectors, learners))

        async def waits() -> bool:
            told = (await testbed.status("a")).get("conditions") or [{}]
            return bool(told[0].get("reason") == "QuotaExceeded")

        await testbed.until(waits, "the job to wait for quota")
        pods = sorted(await testbed.pods("a"))
        assert pods == ["a-learner-0", "a-learner-1"]


@with_testbed
async def test_a_template_the_api_server_refuses_ends_the_job_with_its_words(
    testbed: Testbed,
) -> None:
    async with testbed.operator():
        refused = job("a", task(replicas=2))
        container = refused["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container["securityContext"] = {"privileged": True, "allowPrivilegeEscalation": False}
        await testbed.submit(refused)
        status = await testbed.phase("a", "Failed")
        failed = condition(status, "Failed")
        assert failed["reason"] == "InvalidTemplate"
        assert "allowPrivilegeEscalation" in failed["message"]
        assert testbed.created == {}

        async def service_is_gone() -> bool:
            return not await testbed.service_exists("a")

        await testbed.until(service_is_gone, "the Service to go")


@pytest.mark.proves("lifecycle.md#what-is-relied-on-and-where-it-ends")
@with_testbed
async def test_a_status_wiped_by_hand_is_rebuilt_without_touching_a_pod(
    testbed: Testbed, namespace: str
) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task(replicas=2)))
        await testbed.phase("a", "Running")
        found = await testbed.job("a")
        del found["status"]
        await testbed.client.replace(DIJOBS, "a", found, namespace, subresource="status")
        status = await testbed.phase("a", "Running")
        assert status["readyReplicas"] == 2
        assert testbed.created == {"a-work-0": 1, "a-work-1": 1}


@with_testbed
async def test_an_edited_selector_of_a_jobs_service_is_put_right(
    testbed: Testbed, namespace: str
) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task()))
        await testbed.phase("a", "Running")
        before = (await testbed.client.get(SERVICES, "di-a", namespace))["spec"]
        other: Object = {"selector": {"app": "mine", LABEL_JOB: None}}
        await testbed.client.patch(SERVICES, "di-a", {"spec": other}, namespace)

        async def is_right() -> bool:
            found = await testbed.client.get(SERVICES, "di-a", namespace)
            return bool(found["spec"] == before)

        await testbed.until(is_right, "the selector to be put right")

        async def is_told() -> bool:
            return "ServiceRestored" in {each["reason"] for each in await testbed.events("a")}

        await testbed.until(is_told, "an event about it")
