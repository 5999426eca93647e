"""Packed objects read like the ones they were made of, and what is kept of many jobs is small."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.names import (
    ANNOTATION_RANK,
    ANNOTATION_TASK_REPLICAS,
    API_VERSION,
    KIND,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_POD_NAME,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.packed import Packed
from di_kube.pages import Version
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, Resource
from di_operator.cluster.informer_state import (
    INDEX_JOB,
    INDEX_PHASE,
    InformerState,
    index_job,
    index_phase,
    transform_job,
    transform_pod,
)
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.process.controller import JobKey

Object = dict[str, Any]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["metadata", "spec", "status", "data"])


@given(st.dictionaries(FIELDS, JSON))
def test_a_packed_object_reads_like_the_one_it_was_made_of(body: Object) -> None:
    packed = Packed(body, packed=("spec", "status"))
    assert dict(packed) == body
    assert packed == body
    assert (list(packed), len(packed)) == (list(body), len(body))
    for field in ("metadata", "spec", "none"):
        assert packed.get(field) == body.get(field)
        assert (field in packed) == (field in body)


def test_each_read_of_a_packed_field_is_a_copy() -> None:
    packed = Packed({"spec": {"tasks": []}}, packed=("spec",))
    packed["spec"]["tasks"].append("x")
    assert packed["spec"] == {"tasks": []}


def test_a_field_nested_too_deeply_is_kept_unpacked() -> None:
    body: Object = {"spec": {}}
    for _ in range(500):
        body["spec"] = {"x": body["spec"]}
    assert Packed(body, packed=("spec",))["spec"] is body["spec"]


def test_the_metadata_of_a_job_is_not_packed() -> None:
    metadata = {"name": "a", "namespace": "ns", "managedFields": [{}]}
    kept = transform_job({"metadata": metadata, "spec": {"tasks": []}, "status": {"phase": "x"}})
    assert kept["metadata"] is kept["metadata"]
    assert kept == {
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"tasks": []},
        "status": {"phase": "x"},
    }
    assert kept["spec"] is not kept["spec"]
    assert list(index_phase(kept)) == ["x"]


# Bytes: 8,380 on Python 3.11. Not packed it is 17,300, with the packed texts held twice 10,000.
JOBS, REPLICAS = 400, 5
MOST_OF_A_JOB = 9500
TIME = "2030-01-01T00:00:00Z"


def job(number: int) -> Object:
    container = {
        "name": "di-container",
        "image": "registry.example/train:1.0",
        "command": ["/bin/sh", "-c", f"exec train --seed {number}"],
        "env": [{"name": f"PART_{index}", "value": f"{number}/{index}"} for index in range(10)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": f"Job{kind}",
            "message": f"job {number} is {kind}",
            "lastUpdateTime": TIME,
            "lastTransitionTime": TIME,
            "observedGeneration": 1,
        }
        for kind in ("Pending", "Starting", "Running", "Succeeded")
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": head(f"job-{number:06}", f"{number:08}-0000-4000-8000-{0:012}"),
        "spec": {
            "tasks": [
                {
                    "name": "collector",
                    "type": "collector",
                    "replicas": REPLICAS,
                    "template": template,
                }
            ]
        },
        "status": {
            "phase": "Succeeded",
            "conditions": conditions,
            "taskStatus": {"collector": {"Succeeded": REPLICAS}},
            "startTime": TIME,
            "completionTimestamp": TIME,
        },
    }


def pod(number: int) -> Object:
    owner, rank = job(number // REPLICAS)["metadata"], number % REPLICAS
    name = f"{owner['name']}-collector-{rank}"
    labels = {
        LABEL_JOB: owner["name"],
        LABEL_OPERATOR: OPERATOR_NAME,
        LABEL_TASK_NAME: "collector",
        LABEL_POD_NAME: name,
    }
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": owner["name"]}
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": TIME, "containerID": name}
    return {
        "metadata": {
            **head(name, f"{number:08}-0000-4000-8000-{1:012}"),
            "labels": labels,
            "annotations": {
                ANNOTATION_RANK: str(rank),
                ANNOTATION_TASK_REPLICAS: str(REPLICAS),
            },
            "ownerReferences": [{**reference, "uid": owner["uid"], "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "di-container", "image": "i"}]},
        "status": {
            "phase": "Succeeded",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}],
            "containerStatuses": [{"name": "di-container", "state": {"terminated": ended}}],
        },
    }


def head(name: str, uid: str) -> Object:
    return {
        "name": name,
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": "1000",
        "creationTimestamp": TIME,
        "generation": 1,
        "managedFields": [{"manager": name}],
    }


class Server:
    """Shows so many objects, each created again at every read, as by a parser."""

    def __init__(self) -> None:
        self.polls = 0

    async def list_versions(
        self, resource: Resource, *_: Any, transform: Callable[[Version], Any], **__: Any
    ) -> tuple[list[Any], str]:
        self.polls += 1
        heads = (each["metadata"] for each in objects(resource))
        kept = ("name", "namespace", "resourceVersion")
        return [transform(Version(**{key: head[key] for key in kept})) for head in heads], "1000"

    async def watch(
        self, resource: Resource, *_: Any, **__: Any
    ) -> AsyncGenerator[tuple[str, Object], None]:
        for found in objects(resource):
            yield "ADDED", found
        end = {"k8s.io/initial-events-end": "true"}
        yield "BOOKMARK", {"metadata": {"resourceVersion": "1000", "annotations": end}}
        await asyncio.Event().wait()


def objects(resource: Resource) -> Iterator[Object]:
    make, copies = {DIJOBS: (job, JOBS), PODS: (pod, JOBS * REPLICAS)}.get(resource, (job, 0))
    for number in range(copies):
        yield json.loads(json.dumps(make(number)))


def caches_of(server: Server) -> dict[Resource, WatchCache]:
    transforms = {DIJOBS: transform_job, PODS: transform_pod}
    indexes = {DIJOBS: {INDEX_PHASE: index_phase}}
    return {
        resource: WatchCache(
            cast(KubeClient, server),
            resource,
            transform=transforms.get(resource),
            indexes=indexes.get(resource, {INDEX_JOB: index_job}),
            clock=lambda: 0.0,
            rng=Random(1),
        )
        for resource in (DIJOBS, PODS, SERVICES, CONFIGMAPS)
    }


async def kept_bytes(looks: int) -> float:
    """What is kept of one job with its pods after so many polls with a look at every job."""
    server = Server()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    caches = caches_of(server)
    informers = InformerState(caches=caches, wake=lambda *_: None, read_pod=PodCache(size=8))
    watches = [asyncio.create_task(cache.run()) for cache in caches.values()]
    try:
        for cache in caches.values():
            await cache.synced.wait()
        for _ in range(looks):
            for cache in caches.values():
                await cache.relist()
            for number in range(JOBS):
                key = JobKey("ns", f"job-{number:06}")
                found = informers.job(key)
                assert found is not None
                assert len(list(informers.pods(key))) == REPLICAS
                assert dict(found) == {**job(number), "metadata": found["metadata"]}
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        for watch in watches:
            watch.cancel()
        for watch in watches:
            with suppress(asyncio.CancelledError):
                await watch
    assert server.polls == looks * len(caches)
    return (after - before) / JOBS


@pytest.mark.extended
@pytest.mark.parametrize("looks", [0, 2])
def test_a_job_with_its_pods_takes_little_memory(looks: int) -> None:
    asyncio.run(kept_bytes(0))  # what is made once for all
    assert asyncio.run(kept_bytes(looks)) < MOST_OF_A_JOB
