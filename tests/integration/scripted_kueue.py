"""Kueue's kinds without Kueue: what it would write a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from di_api.names import LABEL_QUEUE
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import (
    CRDS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from tests.integration.conftest import install_crd
from tests.integration.operator_testbed import Testbed, job, task

Object = dict[str, Any]
KINDS = (WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)


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
        # Workloads go last: their definition is held by the finalizer of each Workload.
        for resource in reversed(KINDS):
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


async def workload(testbed: Testbed, name: str) -> Object | None:
    try:
        return await testbed.client.get(WORKLOADS, name, testbed.namespace)
    except NotFound:
        return None


async def say(testbed: Testbed, name: str, flavor: str | None, **values: bool) -> None:
    """Write the status of a Workload as Kueue does: with quota for two pods of `work`, of a flavor
    if it has one."""
    flavors = {} if flavor is None else {"flavors": {"cpu": flavor}}
    assigned = {"name": "work", "count": 2, **flavors}
    admission = {"clusterQueue": "main", "podSetAssignments": [assigned]}
    status = {"conditions": conditions(**values), "admission": admission}
    await testbed.client.patch(
        WORKLOADS, name, {"status": status}, testbed.namespace, subresource="status"
    )


async def until_gone(testbed: Testbed, name: str) -> None:
    async def is_gone() -> bool:
        return await workload(testbed, name) is None

    await testbed.until(is_gone, f"{name} to be gone")


async def until_released(testbed: Testbed, name: str) -> None:
    async def is_released() -> bool:
        found = await workload(testbed, name)
        return found is not None and "admission" not in found.get("status", {"admission": None})

    await testbed.until(is_released, "the quota to be given back")


def queued_job(name: str, *, stop_after: int = 0) -> Object:
    """A job of two pods with a queue; they take so many seconds to stop."""
    pods = task(replicas=2, stop_after=str(stop_after))
    # They are killed at the end of this, 30 seconds by default.
    pods["template"]["spec"]["terminationGracePeriodSeconds"] = max(stop_after, 30)
    body = job(name, pods)
    body["metadata"]["labels"] = {LABEL_QUEUE: "team"}
    return body
