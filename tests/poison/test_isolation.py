"""Objects of any shape beside a good job: what is known and decided of it stays the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from di_api.names import ANNOTATION_RANK, API_VERSION, KIND, LABEL_JOB, LABEL_OPERATOR
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.resources import CONFIGMAPS, DIJOBS, NODES, PODS, SERVICES, Resource
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator_loop import Scheduler
from di_operator.builders.configmap import transform_configmap
from di_operator.cluster import informer_state
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.decision import Decision
from di_operator.metrics.metrics import Metrics
from di_operator.process.clock import SystemClock
from di_operator.process.controller import JobKey
from di_server.jobs.addresses import addresses
from di_server.storage import transforms
from di_server.storage.caches import BY_JOB, Caches
from di_server.storage.object_cache import ObjectCache
from tests.poison import FEW
from tests.poison.objects import (
    GOOD,
    GOOD_UID,
    NAMESPACE,
    Object,
    jobs,
    nodes,
    of_core,
    pods,
    wild,
    wild_jobs,
)
from tests.poison.test_operator import NOW, SETTINGS
from tests.waiting import wait_until_async

KEY = JobKey(NAMESPACE, GOOD)
GOOD_NODE = "good-node"


def head(name: str, uid: str, **more: Any) -> Object:
    return {"name": name, "uid": uid, "resourceVersion": "7", "generation": 1} | more


JOB: Object = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": head(GOOD, GOOD_UID, namespace=NAMESPACE, creationTimestamp="2030-01-01T00:00:00Z"),
    "spec": {
        "preemptible": True,
        "tasks": [
            {
                "type": "learner",
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "di-container", "resources": {"requests": {"cpu": "1"}}}
                        ]
                    }
                },
            }
        ],
    },
    "status": {
        "phase": "Running",
        "placement": {"learner": [GOOD_NODE]},
        "taskStatus": {"learner": {"Running": 1}},
        "startTime": "2030-01-01T00:00:00Z",
    },
}
POD: Object = {
    "metadata": head(
        f"{GOOD}-learner-0",
        "uid-pod",
        namespace=NAMESPACE,
        labels={LABEL_JOB: GOOD, LABEL_OPERATOR: "di-operator"},
        annotations={ANNOTATION_RANK: "0"},
        ownerReferences=[
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": GOOD,
                "uid": GOOD_UID,
                "controller": True,
            }
        ],
    ),
    "spec": {"nodeName": GOOD_NODE, "containers": [{"name": "di-container"}]},
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
NODE: Object = {
    "metadata": head(GOOD_NODE, "uid-node"),
    "status": {"allocatable": {"cpu": "64", "memory": "8Gi", "pods": "110"}},
}


def renamed(objects: Sequence[Object]) -> list[Object]:
    """The objects under names and UIDs of their own; the API server has no two of one."""
    for index, found in enumerate(objects):
        found["metadata"] |= {"name": f"bad-{index}", "uid": f"bad-{index}"}
    return list(objects)


class Shown:
    """What a watch shows: the objects, and then nothing more."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = objects

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[tuple[str, Object], None]:
        for found in self._objects:
            yield "ADDED", json.loads(json.dumps(found))
        end = {"k8s.io/initial-events-end": "true"}
        yield "BOOKMARK", {"metadata": {"resourceVersion": "9999999", "annotations": end}}
        await asyncio.Event().wait()


def cache_of(objects: Sequence[Object], resource: Resource, **parts: Any) -> WatchCache:
    client = cast("KubeClient", Shown(objects))
    clock = asyncio.get_running_loop().time
    return WatchCache(client, resource, clock=clock, rng=Random(1), **parts)


@asynccontextmanager
async def running(*caches: WatchCache) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        await wait_until_async(
            lambda: all(cache.synced.is_set() or cache.stats.errors for cache in caches),
            what="the watches",
        )
        assert not any(cache.stats.errors for cache in caches)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def decided(
    some_jobs: Sequence[Object],
    some_pods: Sequence[Object],
    others: Sequence[Object],
    some_nodes: Sequence[Object],
    rest: Sequence[Object],
) -> Decision:
    """What the operator wants for the good job, its allocator at work on all of them."""
    indexes = {informer_state.INDEX_JOB: informer_state.index_job}
    phases = {informer_state.INDEX_PHASE: informer_state.index_phase}
    caches = {
        DIJOBS: cache_of(
            [*some_jobs, JOB], DIJOBS, transform=informer_state.transform_job, indexes=phases
        ),
        PODS: cache_of(
            [*some_pods, POD], PODS, transform=informer_state.transform_pod, indexes=indexes
        ),
        SERVICES: cache_of(rest, SERVICES, transform=informer_state.transform, indexes=indexes),
        CONFIGMAPS: cache_of(rest, CONFIGMAPS, transform=transform_configmap, indexes=indexes),
    }
    node_cache = cache_of([*some_nodes, NODE], NODES, transform=informer_state.transform_node)
    other_cache = cache_of(others, PODS, transform=informer_state.transform_other_pod)
    seen = informer_state.InformerState(
        caches=caches, wake=lambda *_: None, read_pod=PodCache(size=8)
    )
    specs, metrics = SpecCache(size=64), Metrics()
    metrics.jobs(lambda: caches[DIJOBS].tally(informer_state.INDEX_PHASE))
    scheduler = Scheduler(
        policy=GoodputPolicy(),
        caches={DIJOBS: caches[DIJOBS], PODS: caches[PODS]},
        nodes=node_cache,
        others=other_cache,
        read_spec=specs,
        wake=lambda *_: None,
        period=60.0,
        clock=SystemClock(),
        observer=metrics,
    )
    async with running(*caches.values(), node_cache, other_cache):
        allocator = asyncio.create_task(scheduler.run())
        job = seen.job(KEY)
        assert job is not None
        try:
            await wait_until_async(
                lambda: allocator.done() or scheduler.grant(job).placement,
                what="the allocator's word on the good job",
            )
            assert not allocator.done(), allocator.exception()
        finally:
            allocator.cancel()
            await asyncio.gather(allocator, return_exceptions=True)
        assert b"di_jobs" in metrics.render()
        snapshot = read_snapshot(
            job,
            Sources(
                pods=seen.pods(KEY),
                services=seen.services(KEY),
                configmaps=seen.configmaps(KEY),
                grant=scheduler.grant(job),
            ),
            read=specs.examine,
        )
        return decide(snapshot, NOW, SETTINGS)


ALONE: list[Decision] = []


@FEW
@given(
    some_jobs=st.lists(jobs() | wild_jobs(), max_size=2),
    some_pods=st.lists(pods() | wild(pods()), max_size=2),
    others=st.lists(pods() | wild(pods()), max_size=2),
    some_nodes=st.lists(nodes() | wild(nodes()), max_size=2),
    rest=st.lists(of_core("Service") | wild(of_core("ConfigMap")), max_size=3),
)
def test_the_operator_reconciles_a_good_job_beside_odd_objects(
    some_jobs: list[Object],
    some_pods: list[Object],
    others: list[Object],
    some_nodes: list[Object],
    rest: list[Object],
) -> None:
    if not ALONE:
        ALONE.append(asyncio.run(decided([], [], [], [], [])))
    poisonous = map(renamed, (some_jobs, some_pods, others, some_nodes, rest))
    assert asyncio.run(decided(*poisonous)) == ALONE[0]


@FEW
@given(
    some_jobs=st.lists(jobs() | wild_jobs(), max_size=2),
    some_pods=st.lists(pods() | wild(pods()), max_size=2),
    some_nodes=st.lists(nodes() | wild(nodes()), max_size=2),
    configs=st.lists(wild(of_core("AggregatorConfig")), max_size=3),
)
def test_the_server_answers_for_a_good_job_beside_odd_objects(
    some_jobs: list[Object],
    some_pods: list[Object],
    some_nodes: list[Object],
    configs: list[Object],
) -> None:
    async def scenario() -> None:
        kept = Caches()
        caches = [
            cache_of([*renamed(some_jobs), JOB], DIJOBS, transform=transforms.transform_job),
            cache_of([*renamed(some_pods), POD], PODS, transform=transforms.transform_pod),
            cache_of(renamed(some_nodes), NODES, transform=transforms.transform_node),
            cache_of(renamed(configs), CONFIGMAPS, transform=transforms.transform_config),
        ]
        stores: list[ObjectCache[Any]] = [kept.jobs, kept.pods, kept.nodes, kept.configs]
        for cache, store in zip(caches, stores, strict=True):
            cache.subscribe(store.on_event)
        async with running(*caches):
            for store in stores:
                store.mark_synced()
            found = kept.jobs.get(NAMESPACE, GOOD)
            assert found is not None
            listed = addresses(found.raw, kept.pods.by_index(BY_JOB, (NAMESPACE, GOOD)))
            assert listed == ["10.0.0.1:22270"]
            for cache, store in zip(caches, stores, strict=True):
                assert len(store) + store.unreadable == len(cache)

    asyncio.run(scenario())
