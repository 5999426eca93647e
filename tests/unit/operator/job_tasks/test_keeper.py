"""What becomes of what is to be written about DIJobTasks, whatever the API server answers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from di_kube.resources import DIJOB_TASKS, DIJOBS, Resource
from di_local.api.patches import merged, patched
from di_local.api.refused import Refused
from di_operator.job_tasks.keeper import SWEEP, JobTasks, index_owner
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.process.controller import JobKey, Outdated
from di_operator.process.lease_state import NotLeading
from tests.unit.operator.job_tasks.test_job_tasks import job, pod, task

Object = dict[str, Any]
KEY = JobKey("rl", "a")


@dataclass
class Cluster:
    """An API server, and what an operator knows of it; `refuse` answers a patch of a job."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    known: dict[tuple[str, str], Object] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    woken: list[JobKey] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    refuse: Callable[[str, str], ApiError | None] = lambda verb, kind: None
    leads: bool = True
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 10

    def keeper(self) -> JobTasks:
        self.synced.set()
        return JobTasks(
            client=cast(KubeClient, self),
            found=cast(WatchCache, self),
            job=lambda key: self.known.get((DIJOBS.kind, key.name)),
            pods=lambda _: [],
            read_pod=Pod.read,
            observe_job=self.observe,
            emit=self.emit,
            wake=lambda key, _: self.woken.append(key),
            check_lease=self.check_lease,
        )

    def check_lease(self) -> None:
        if not self.leads:
            raise NotLeading("gone")

    def emit(self, _: Mapping[str, Any], event: JobEvent) -> None:
        self.events.append((str(event.reason), event.message))

    def put(self, resource: Resource, body: Object, *, seen: bool = True) -> Object:
        """Keep an object as the API server does; `seen`: the watch has brought it."""
        self.version += 1
        kept = copy.deepcopy(body)
        metadata = kept["metadata"]
        old = self.objects.get((resource.kind, metadata["name"]))
        changed = old is not None and old.get("spec") != kept.get("spec")
        metadata["resourceVersion"] = str(self.version)
        metadata["uid"] = metadata.get("uid") or f"uid-{self.version}"
        metadata["generation"] = (old or kept)["metadata"].get("generation", 1) + changed
        self.objects[resource.kind, metadata["name"]] = kept
        if seen:
            self.known[resource.kind, metadata["name"]] = kept
        return kept

    # What the operator has of its caches.
    def observe(self, body: Object) -> None:
        self.known[DIJOBS.kind, body["metadata"]["name"]] = body

    def absorb(self, body: Object) -> None:
        self.known[DIJOB_TASKS.kind, body["metadata"]["name"]] = body

    def by_index(self, _: str, value: str) -> list[Object]:
        found = [one for (kind, _), one in self.known.items() if kind == DIJOB_TASKS.kind]
        return [one for one in found if value in index_owner(one)]

    # Both a cache's, by namespace and name, and a client's, by resource and name.
    def get(self, first: Any, name: str, namespace: str = "") -> Any:
        if isinstance(first, Resource):
            return self._read(first, name)
        return self.known.get((DIJOB_TASKS.kind, name))

    async def _read(self, resource: Resource, name: str) -> Object:
        try:
            return copy.deepcopy(self.objects[resource.kind, name])
        except KeyError:
            raise NotFound(kind=resource.kind, name=name) from None

    async def create(self, resource: Resource, body: Object, _: str) -> Object:
        return self._written("create", resource, body)

    async def delete(self, resource: Resource, name: str, _: str, *, uid: str) -> None:
        self.writes.append("delete")
        assert self.objects.pop((resource.kind, name))["metadata"]["uid"] == uid

    async def patch(
        self, resource: Resource, name: str, patch: Any, _: str, **__: object
    ) -> Object:
        now = await self._read(resource, name)
        try:
            wanted = patched(now, patch) if isinstance(patch, list) else merged(now, patch)
        except Refused as error:
            raise Invalid(kind=resource.kind, name=name, message=error.message) from error
        if wanted["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]:
            raise Conflict(kind=resource.kind, name=name)
        return self._written("patch", resource, wanted)

    def _written(self, verb: str, resource: Resource, body: Object) -> Object:
        error = self.refuse(verb, resource.kind)
        if error is not None:
            raise error
        self.writes.append(f"{verb} {resource.kind}")
        return self.put(resource, body, seen=False)

    @property
    def replicas(self) -> tuple[int, int]:
        """Of the job, and of the view."""
        asked = self.objects[DIJOBS.kind, "a"]["spec"]["tasks"][0]["replicas"]
        return asked, self.objects[DIJOB_TASKS.kind, "a-collect"]["spec"]["replicas"]

    def change_job(self, **fields: int) -> None:
        """Change fields of its task."""
        changed = copy.deepcopy(self.objects[DIJOBS.kind, "a"])
        changed["spec"]["tasks"][0] |= fields
        self.put(DIJOBS, changed)

    def write(self, replicas: int) -> None:
        """Write to the job task as another client does."""
        one = self.objects[DIJOB_TASKS.kind, "a-collect"]
        self.put(DIJOB_TASKS, merged(one, {"spec": {"replicas": replicas}}))


def scaled() -> tuple[Cluster, JobTasks]:
    """A job with a view that shows it."""
    cluster = Cluster()
    cluster.put(DIJOBS, job())
    keeper = cluster.keeper()
    assert asyncio.run(keeper.reconcile(KEY)) == SWEEP
    assert cluster.replicas == (2, 2)
    cluster.writes.clear()
    return cluster, keeper


def test_creating_a_job_task_and_scaling_take_two_writes_each() -> None:
    cluster = Cluster()
    cluster.put(DIJOBS, job())
    keeper = cluster.keeper()
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.writes == ["create DIJobTask", "patch DIJobTask"]
    cluster.writes.clear()
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.writes == []
    cluster.write(6)
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.writes == ["patch DIJob", "patch DIJobTask"]
    assert (cluster.replicas, cluster.events) == ((6, 6), [])


@pytest.mark.proves("events.md#of-its-life/scalerefused")
def test_a_refused_scale_is_reported_and_reset() -> None:
    cluster, keeper = scaled()
    cluster.write(6)
    no = Forbidden(kind="DIJob", message="a policy of the house")
    cluster.refuse = lambda _, kind: no if kind == DIJOBS.kind else None
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.replicas == (2, 2)
    ((reason, message),) = cluster.events
    assert reason == "ScaleRefused"
    assert message == (
        "6 replicas, written to DIJobTask a-collect, are not possible; task collect has 2: a "
        "policy of the house"
    )


def test_a_scale_outside_the_bounds_is_reported() -> None:
    cluster, keeper = scaled()
    cluster.write(6)
    cluster.change_job(maxReplicas=4)
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.replicas == (4, 4)
    ((reason, message),) = cluster.events
    assert (reason, message.rpartition(": ")[2]) == ("ScaleRefused", "the task may have 1 to 4")


def test_a_job_with_an_unseen_change_is_read_again_and_scaled() -> None:
    cluster, keeper = scaled()
    cluster.write(6)
    cluster.put(DIJOBS, cluster.objects[DIJOBS.kind, "a"], seen=False)
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.replicas == (6, 6)


def test_a_patch_that_does_not_fit_an_unseen_change_of_the_job_is_no_refusal() -> None:
    cluster, keeper = scaled()
    marked = cluster.objects[DIJOBS.kind, "a"]
    marked = cluster.put(DIJOBS, merged(marked, {"metadata": {"annotations": {"x": "y"}}}))
    cluster.write(6)
    cluster.put(DIJOBS, merged(marked, {"metadata": {"annotations": None}}), seen=False)
    asyncio.run(keeper.reconcile(KEY))
    assert (cluster.replicas, cluster.events) == ((6, 6), [])


def test_an_unseen_scale_request_is_not_overwritten() -> None:
    cluster, keeper = scaled()
    cluster.change_job(replicas=3)
    seen = cluster.known[DIJOB_TASKS.kind, "a-collect"]
    cluster.write(6)
    cluster.known[DIJOB_TASKS.kind, "a-collect"] = seen
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.replicas == (6, 6)


def test_an_outage_loses_no_scale_request() -> None:
    cluster, keeper = scaled()
    cluster.write(6)
    cluster.refuse = lambda *_: Unavailable(kind="DIJob")
    with pytest.raises(Unavailable):
        asyncio.run(keeper.reconcile(KEY))
    cluster.refuse = lambda *_: None
    asyncio.run(keeper.reconcile(KEY))
    assert (cluster.replicas, cluster.events) == ((6, 6), [])


def test_a_job_task_deleted_unseen_is_decided_again() -> None:
    cluster, keeper = scaled()
    cluster.change_job(replicas=3)
    del cluster.objects[DIJOB_TASKS.kind, "a-collect"]
    with pytest.raises(Outdated):
        asyncio.run(keeper.reconcile(KEY))


def test_nothing_is_written_after_the_lease_is_lost() -> None:
    cluster, keeper = scaled()
    cluster.write(6)
    cluster.leads = False
    with pytest.raises(NotLeading):
        asyncio.run(keeper.reconcile(KEY))
    assert (cluster.writes, cluster.replicas) == ([], (2, 6))


@pytest.mark.proves("events.md#of-its-life/notscalable")
def test_a_foreign_object_of_that_name_is_reported_once() -> None:
    cluster = Cluster()
    cluster.put(DIJOBS, job())
    cluster.put(DIJOB_TASKS, {"metadata": {"name": "a-collect", "namespace": "rl"}, "spec": {}})
    keeper = cluster.keeper()
    for _ in range(2):
        asyncio.run(keeper.reconcile(KEY))
    assert cluster.writes == []
    assert [reason for reason, _ in cluster.events] == ["NotScalable"]


def test_the_deletion_of_a_foreign_object_of_that_name_wakes_the_job_once() -> None:
    cluster = Cluster()
    cluster.put(DIJOBS, job())
    foreign = {"metadata": {"name": "a-collect", "namespace": "rl"}, "spec": {}}
    cluster.put(DIJOB_TASKS, foreign)
    keeper = cluster.keeper()
    asyncio.run(keeper.reconcile(KEY))
    keeper.follow_task("MODIFIED", foreign)
    assert cluster.woken == []
    for _ in range(2):
        keeper.follow_task("DELETED", foreign)
    assert cluster.woken == [KEY]


def test_the_job_task_of_an_ended_job_is_deleted() -> None:
    cluster, keeper = scaled()
    ended = {**cluster.objects[DIJOBS.kind, "a"], "status": {"phase": "Succeeded"}}
    cluster.put(DIJOBS, ended)
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.writes == ["delete"]


def test_a_job_without_scalable_tasks_is_read_once_per_spec() -> None:
    cluster = Cluster()
    plain = cluster.put(DIJOBS, job(task(scalable=False)))
    keeper = cluster.keeper()
    keeper.follow_job("ADDED", plain)
    assert cluster.woken == [KEY]
    assert asyncio.run(keeper.reconcile(KEY)) is None
    keeper.follow_job("MODIFIED", cluster.put(DIJOBS, {**plain, "status": {"phase": "Starting"}}))
    keeper.follow_pod("MODIFIED", {"metadata": {"namespace": "rl", "name": "p"}})
    assert cluster.woken == [KEY]
    keeper.follow_job("MODIFIED", cluster.put(DIJOBS, {**plain, "spec": job()["spec"]}))
    assert cluster.woken == [KEY, KEY]
    asyncio.run(keeper.reconcile(KEY))
    assert cluster.replicas == (2, 2)


def test_a_pod_of_a_job_with_scalable_tasks_wakes_it() -> None:
    cluster, keeper = scaled()
    cluster.woken.clear()
    keeper.follow_pod("MODIFIED", pod("p"))
    assert cluster.woken == [KEY]
    keeper.follow_job("DELETED", cluster.objects[DIJOBS.kind, "a"])
    keeper.follow_pod("MODIFIED", pod("p"))
    assert cluster.woken == [KEY]


def test_a_failed_reconcile_is_reported() -> None:
    cluster, keeper = scaled()
    asyncio.run(keeper.report(KEY, ValueError("odd")))
    assert cluster.events == [("ReconcileFailed", "its DIJobTasks: ValueError: odd")]
