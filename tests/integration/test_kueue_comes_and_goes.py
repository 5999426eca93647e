"""Kueue's kinds come and go while the operator runs; what Kueue would write the test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from di_api.kube.client import KubeClient
from di_api.kube.config import KubeConfig
from di_api.kube.errors import NotFound
from di_api.kube.resources import (
    CRDS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from di_api.names import LABEL_QUEUE
from tests.integration.conftest import install_crd
from tests.integration.operator_testbed import Testbed, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
KINDS = (WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)
CORE = "a-core"


def kind(resource: Resource) -> Object:
    """A definition by which the API server takes any object of that kind."""
    names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        **({"subresources": {"status": {}}} if resource.namespaced else {}),
    }
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            # The API server guards the groups of its own project.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


@asynccontextmanager
async def served(config: KubeConfig, client: KubeClient) -> AsyncIterator[None]:
    """Kueue's kinds while the block runs."""
    for resource in KINDS:
        await install_crd(config, kind(resource))
    try:
        yield
    finally:
        for resource in KINDS:
            await client.delete(CRDS, f"{resource.plural}.{resource.group}")


def conditions(**values: bool) -> list[Object]:
    return [
        {
            "type": name,
            "status": str(value),
            "reason": "Said",
            "message": "so",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for name, value in values.items()
    ]


async def workload(testbed: Testbed, name: str = CORE) -> Object | None:
    try:
        return await testbed.client.get(WORKLOADS, name, testbed.namespace)
    except NotFound:
        return None


async def say(testbed: Testbed, flavor: str | None, **values: bool) -> None:
    """Write the status of the core as Kueue does, with a flavor if it has quota."""
    status: Object = {"conditions": conditions(**values)}
    if flavor is not None:
        assigned = {"name": "work", "count": 2, "flavors": {"cpu": flavor}}
        status["admission"] = {"clusterQueue": "main", "podSetAssignments": [assigned]}
    await testbed.client.patch(
        WORKLOADS, CORE, {"status": status}, testbed.namespace, subresource="status"
    )


async def until_said(testbed: Testbed, reason: str) -> None:
    async def is_said() -> bool:
        found = (await testbed.status("a")).get("conditions") or []
        return any(each["type"] == "Queued" and each["reason"] == reason for each in found)

    await testbed.until(is_said, f"the job to say that it is {reason}")


async def until_gone(testbed: Testbed) -> None:
    async def is_gone() -> bool:
        return await workload(testbed) is None

    await testbed.until(is_gone, "the Workload to be gone")


def test_a_job_waits_for_kueue_runs_once_it_admits_it_and_waits_again_when_it_is_taken_away(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        queued = job("a", task(replicas=2))
        queued["metadata"]["labels"] = {LABEL_QUEUE: "team"}
        async with testbed.operator(sync_period=1.0):
            await testbed.submit(queued)
            await until_said(testbed, "QueueUnavailable")
            async with served(kube_config, testbed.client):
                await _run_and_evict(testbed)
                await say(testbed, namespace, QuotaReserved=True, Admitted=True)
                await testbed.phase("a", "Running")
            # Its objects go with their kind, each once the pods are gone that it stands for.
            await testbed.until(lambda: _is_away(testbed), "Kueue's kinds to be gone")
            assert not await testbed.pods("a")
            await until_said(testbed, "QueueUnavailable")
            assert (await testbed.status("a"))["phase"] == "Pending"

    on_testbed(kube_config, namespace, body)


async def _run_and_evict(testbed: Testbed) -> None:
    await until_said(testbed, "Waiting")
    await say(testbed, testbed.namespace, QuotaReserved=True, Admitted=True)
    await until_said(testbed, "FlavorNotFound")
    assert not await testbed.pods("a")
    labels = {"nodeLabels": {"pool": "gpu"}}
    flavor = {"metadata": {"name": testbed.namespace}, "spec": labels}
    about = {"apiVersion": RESOURCE_FLAVORS.api_version, "kind": RESOURCE_FLAVORS.kind}
    await testbed.client.create(RESOURCE_FLAVORS, {**about, **flavor})
    await testbed.phase("a", "Running")
    pods = await testbed.pods("a")
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods.values()} == {"gpu"}
    await say(testbed, testbed.namespace, QuotaReserved=True, Admitted=True, Evicted=True)
    await testbed.phase("a", "Pending")

    async def is_released() -> bool:
        found = await workload(testbed)
        return found is not None and "admission" not in found["status"]

    await testbed.until(is_released, "the quota to be given back")
    assert not await testbed.pods("a")


async def _is_away(testbed: Testbed) -> bool:
    try:
        await testbed.client.list(WORKLOADS, testbed.namespace)
    except NotFound:
        return True
    return False


def test_the_quota_of_a_deleted_job_is_held_until_its_pods_are_gone(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        queued = job("a", task(replicas=2, stop_after="3"))
        queued["metadata"]["labels"] = {LABEL_QUEUE: "team"}
        async with served(kube_config, testbed.client), testbed.operator(sync_period=1.0):
            await testbed.submit(queued)
            await until_said(testbed, "Waiting")
            await say(testbed, None, QuotaReserved=True, Admitted=True)
            assigned = {"name": "work", "count": 2}
            admission = {"clusterQueue": "main", "podSetAssignments": [assigned]}
            await testbed.client.patch(
                WORKLOADS,
                CORE,
                {"status": {"admission": admission}},
                namespace,
                subresource="status",
            )
            await testbed.phase("a", "Running")
            await testbed.delete("a")

            async def is_deleted() -> bool:
                found = await workload(testbed)
                return found is not None and "deletionTimestamp" in found["metadata"]

            await testbed.until(is_deleted, "the garbage collector to have found the Workload")
            assert await testbed.pods("a")
            await until_gone(testbed)
            assert not await testbed.pods("a")

    on_testbed(kube_config, namespace, body)
