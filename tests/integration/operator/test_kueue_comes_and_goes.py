"""Kueue's kinds come and go while the operator runs; what Kueue would write the test writes."""

from __future__ import annotations

import pytest

from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import PODS, RESOURCE_FLAVORS, WORKLOADS
from tests.integration.operator_testbed import Testbed, with_testbed
from tests.integration.scripted_kueue import (
    queued_job,
    say,
    served,
    until_gone,
    until_released,
    workload,
)
from tests.waiting import SLOW_SECONDS

pytestmark = pytest.mark.usefixtures("crd")

CORE = "a-core"


async def until_said(testbed: Testbed, reason: str) -> None:
    async def is_said() -> bool:
        found = (await testbed.status("a")).get("conditions") or []
        return any(each["type"] == "Queued" and each["reason"] == reason for each in found)

    await testbed.until(is_said, f"the job to say that it is {reason}")


@with_testbed
async def test_a_job_waits_for_kueue_runs_once_it_admits_it_and_waits_again_when_it_is_taken_away(
    testbed: Testbed, kube_config: KubeConfig, namespace: str
) -> None:
    async with testbed.operator(sync_period=1.0):
        await testbed.submit(queued_job("a"))
        await until_said(testbed, "QueueUnavailable")
        async with served(kube_config, testbed.client):
            await _run_and_evict(testbed)
            await say(testbed, CORE, namespace, QuotaReserved=True, Admitted=True)
            await testbed.phase("a", "Running")
        # Its objects go with their kind, each once the pods are gone that it stands for.
        await testbed.until(lambda: _is_away(testbed), "Kueue's kinds to be gone")
        assert not await testbed.pods("a")
        await until_said(testbed, "QueueUnavailable")
        assert (await testbed.status("a"))["phase"] == "Pending"


async def _run_and_evict(testbed: Testbed) -> None:
    await until_said(testbed, "Waiting")
    await say(testbed, CORE, testbed.namespace, QuotaReserved=True, Admitted=True)
    await until_said(testbed, "FlavorNotFound")
    assert not await testbed.pods("a")
    labels = {"nodeLabels": {"pool": "gpu"}}
    flavor = {"metadata": {"name": testbed.namespace}, "spec": labels}
    about = {"apiVersion": RESOURCE_FLAVORS.api_version, "kind": RESOURCE_FLAVORS.kind}
    await testbed.client.create(RESOURCE_FLAVORS, {**about, **flavor})
    await testbed.phase("a", "Running")
    pods = await testbed.pods("a")
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods.values()} == {"gpu"}
    await say(testbed, CORE, testbed.namespace, QuotaReserved=True, Admitted=True, Evicted=True)
    await testbed.phase("a", "Pending")

    await until_released(testbed, CORE)
    assert not await testbed.pods("a")


async def _is_away(testbed: Testbed) -> bool:
    try:
        await testbed.client.list(WORKLOADS, testbed.namespace)
    except NotFound:
        return True
    return False


@with_testbed
async def test_the_quota_of_a_deleted_job_is_held_until_its_pods_are_gone(
    testbed: Testbed, kube_config: KubeConfig
) -> None:
    async with served(kube_config, testbed.client), testbed.operator(sync_period=1.0):
        # Longer than the garbage collector may need, which looks for new kinds twice a minute.
        await testbed.submit(queued_job("a", stop_after=2 * int(SLOW_SECONDS)))
        await until_said(testbed, "Waiting")
        await say(testbed, CORE, None, QuotaReserved=True, Admitted=True)
        await testbed.phase("a", "Running")
        await testbed.delete("a")

        async def is_deleted() -> bool:
            found = await workload(testbed, CORE)
            return found is not None and "deletionTimestamp" in found["metadata"]

        what = "the garbage collector to have found the Workload"
        await testbed.until(is_deleted, what, SLOW_SECONDS)
        pods = await testbed.pods("a")
        assert len(pods) == 2
        for pod in pods:
            assert await workload(testbed, CORE) is not None
            await testbed.client.delete(PODS, pod, testbed.namespace, grace_period_seconds=0)
        await until_gone(testbed, CORE)
        assert not await testbed.pods("a")
