"""The allocator beside the cluster's scheduler: volumes, refusals, ordinary pods, and drains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from di_kube.errors import NotFound
from di_kube.resources import NODES, PODS, Resource
from tests.integration.operator.test_allocation import (
    PERIOD,
    devices,
    nodes,
    resource,
    runs_on,
    where,
)
from tests.integration.operator_testbed import (
    PRIORITY_CLASSES,
    Testbed,
    condition,
    job,
    with_testbed,
)

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
STORAGE_CLASSES = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    kind="StorageClass",
    namespaced=False,
)
VOLUMES = Resource(
    group="", version="v1", plural="persistentvolumes", kind="PersistentVolume", namespaced=False
)
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)


@asynccontextmanager
async def cluster_object(testbed: Testbed, kind: Resource, **fields: Any) -> AsyncIterator[None]:
    """An object of the whole cluster, named after the namespace, for a while."""
    body = {"metadata": {"name": testbed.namespace}, **fields}
    await testbed.client.create(kind, body)
    try:
        yield
    finally:
        await testbed.client.delete(kind, testbed.namespace)


@asynccontextmanager
async def claim_of_a_volume_on(testbed: Testbed, node: str) -> AsyncIterator[None]:
    """The claim `work`, which waits for its first consumer; the only volume is one node's."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    on_node = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [f"{testbed.namespace}-{node}"],
    }
    volume = {
        "storageClassName": testbed.namespace,
        "capacity": size,
        "accessModes": modes,
        "local": {"path": "/nowhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
    }
    claim = {
        "metadata": {"name": "work"},
        "spec": {
            "storageClassName": testbed.namespace,
            "accessModes": modes,
            "resources": {"requests": size},
        },
    }
    async with (
        cluster_object(
            testbed,
            STORAGE_CLASSES,
            provisioner="kubernetes.io/no-provisioner",
            volumeBindingMode="WaitForFirstConsumer",
        ),
        cluster_object(testbed, VOLUMES, spec=volume),
    ):
        await testbed.client.create(CLAIMS, claim, testbed.namespace)
        yield


@with_testbed
async def test_a_job_runs_where_its_volume_is_that_waited_for_its_first_consumer(
    testbed: Testbed, namespace: str
) -> None:
    async with (
        nodes(testbed, n1=1, n2=2),
        claim_of_a_volume_on(testbed, "n2"),
        testbed.operator(policy="fit", scheduling_period=PERIOD),
    ):
        work = {"name": "work", "persistentVolumeClaim": {"claimName": "work"}}
        learner = devices(testbed, "learner", 1)
        # The fullest node comes first, and does not have the volume.
        await testbed.submit(job("a", learner, preemptible=True, volumes=[work]))
        await testbed.until(runs_on(testbed, "a", n2=1), "a to run beside its volume")
        claim = await testbed.client.get(CLAIMS, "work", namespace)
        assert claim["status"]["phase"] == "Bound"
        assert (await testbed.status("a"))["restarts"] == 0


def keeps_away_from(label: str, body: Object) -> Object:
    """A task whose pods go to no node with a pod of that label; only the scheduler heeds it."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": label}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    body["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    return body


async def occupy(testbed: Testbed, name: str, node: str) -> None:
    """A pod of somebody else's on a node."""
    container = {"name": "main", "image": "none"}
    body = {
        "metadata": {"name": name, "labels": {"app": "loner"}},
        "spec": {"nodeName": f"{testbed.namespace}-{node}", "containers": [container]},
    }
    await testbed.client.create(PODS, body, testbed.namespace)


@with_testbed
async def test_what_the_scheduler_refuses_is_placed_elsewhere_and_no_failure(
    testbed: Testbed,
) -> None:
    async with nodes(testbed, n1=2, n2=4), testbed.operator(policy="fit", scheduling_period=PERIOD):
        await occupy(testbed, "loner-1", "n1")
        shy = keeps_away_from("loner", devices(testbed, "learner", 2))
        await testbed.submit(job("a", shy, preemptible=True, backoffLimit=0))
        await testbed.until(runs_on(testbed, "a", n2=2), "a to run where it may")
        status = await testbed.status("a")
        assert (status["restarts"], status["reschedules"]) == (0, 1)
        message = condition(status, "Rescheduling")["message"]
        assert "didn't match pod anti-affinity rules" in message

        # Refused everywhere: it waits, instead of going round and round.
        await occupy(testbed, "loner-2", "n2")
        shy = keeps_away_from("loner", devices(testbed, "learner", 1))
        await testbed.submit(job("b", shy, preemptible=True, backoffLimit=0))

        async def is_told() -> bool:
            status = await testbed.status("b")
            if not status or status["phase"] != "Pending":
                return False
            return bool(condition(status, "Pending")["reason"] == "RefusedByScheduler")

        await testbed.until(is_told, "b to be told why it waits")
        status = await testbed.status("b")
        assert "anti-affinity rules" in condition(status, "Pending")["message"]
        assert testbed.created["b-learner-0"] == 2
        assert status["restarts"] == 0


@with_testbed
async def test_an_ordinary_pod_of_more_priority_gets_room_from_a_job(
    testbed: Testbed, namespace: str
) -> None:
    container = {"name": "main", "image": "none", "resources": {"limits": {resource(testbed): "2"}}}
    ordinary = {
        "metadata": {"name": "ordinary"},
        "spec": {"priorityClassName": namespace, "containers": [container]},
    }

    async def runs() -> bool:
        found = await testbed.client.get(PODS, "ordinary", namespace)
        return bool(found["status"]["phase"] == "Running")

    async with (
        # The scheduler ends nobody for it: the room is the allocator's to make.
        cluster_object(testbed, PRIORITY_CLASSES, value=7, preemptionPolicy="Never"),
        nodes(testbed, n1=4),
        testbed.operator(policy="fit", scheduling_period=PERIOD),
    ):
        learner = devices(testbed, "learner", 4, minReplicas=1, maxReplicas=4)
        await testbed.submit(job("a", learner, preemptible=True, backoffLimit=0))
        await testbed.until(runs_on(testbed, "a", n1=4), "a to have all")
        await testbed.client.create(PODS, ordinary, namespace)
        await testbed.until(runs, "the ordinary pod to run")
        await testbed.until(runs_on(testbed, "a", n1=2), "a to go on with the rest")
        assert (await testbed.status("a"))["restarts"] == 0


async def drain(testbed: Testbed, node: str) -> None:
    """What `kubectl drain` does: cordon the node, then evict every pod there is on it."""
    name = f"{testbed.namespace}-{node}"
    await testbed.client.patch(NODES, name, {"spec": {"unschedulable": True}})

    async def evict(pod: Object) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod["metadata"]["name"]},
        }
        with suppress(NotFound):
            await testbed.client.create(PODS, body, testbed.namespace, subresource="eviction")

    found, _ = await testbed.client.list(PODS, testbed.namespace)
    there = [pod for pod in found if pod["spec"].get("nodeName") == name]
    await asyncio.gather(*map(evict, there))


@with_testbed
async def test_a_drain_under_load_loses_no_job(testbed: Testbed) -> None:
    names = [f"job-{number}" for number in range(6)]
    async with (
        nodes(testbed, n1=9, n2=9, n3=9),
        testbed.operator(policy="fit", scheduling_period=PERIOD),
    ):
        for name in names:
            learner = devices(testbed, "learner", 3, minReplicas=1, maxReplicas=3)
            await testbed.submit(job(name, learner, preemptible=True, backoffLimit=0))
        for name in names:
            await testbed.phase(name, "Running")
        await drain(testbed, "n1")

        async def all_run_elsewhere() -> bool:
            for name in names:
                if (await testbed.status(name)).get("phase") != "Running":
                    return False
                found = await where(testbed, name)
                if not found or "n1" in found.values():
                    return False
            return True

        await testbed.until(all_run_elsewhere, "all jobs to run on the other nodes")
        status = [await testbed.status(name) for name in names]
        assert [one["restarts"] for one in status] == [0] * len(names)
