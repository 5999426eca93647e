"""What the drain of a node may take of a job, by Kubernetes' own evictions."""

from __future__ import annotations

import pytest

from di_kube.errors import ApiError
from di_kube.resources import PODS
from di_operator.builders.disruption_budget import BUDGETS
from tests.integration.operator_testbed import Testbed, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")


async def evict(testbed: Testbed, pod: str) -> int:
    """The status that the API server answers, 201 for yes."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": testbed.namespace},
    }
    try:
        await testbed.client.create(PODS, body, testbed.namespace, subresource="eviction")
    except ApiError as error:
        return error.code or 0
    return 201


@pytest.mark.proves("operations.md#drains-of-nodes", "dijob.md#spec-tasks/maxunavailable")
@with_testbed
async def test_an_eviction_takes_as_many_pods_as_the_task_allows(
    testbed: Testbed, namespace: str
) -> None:
    async def allows(count: int) -> bool:
        budget = await testbed.client.get(BUDGETS, "a-work", namespace)
        status = budget.get("status") or {}
        is_current = status.get("observedGeneration") == budget["metadata"]["generation"]
        return is_current and status.get("disruptionsAllowed") == count

    async with testbed.operator():
        await testbed.submit(job("a", {**task(replicas=2), "maxUnavailable": 0}))
        await testbed.phase("a", "Running")
        await testbed.until(lambda: allows(0), "the budget to be reckoned")
        assert await evict(testbed, "a-work-0") == 429
        assert "deletionTimestamp" not in (await testbed.pods("a"))["a-work-0"]["metadata"]

        await testbed.submit(job("b", {**task(replicas=2), "maxUnavailable": 1}))
        await testbed.phase("b", "Running")

        async def is_taken() -> bool:
            return await evict(testbed, "b-work-0") == 201

        await testbed.until(is_taken, "one of them to be evicted")
