"""What is known of the cluster: own writes at once, deletions hidden, wakes only for news."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from di_api.names import (
    ANNOTATION_RANK,
    LABEL_JOB,
    LABEL_TASK_NAME,
)
from di_kube.cache import WatchCache
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, WORKLOADS, Resource
from di_operator.cluster.informer_state import (
    AHEAD_MAX,
    AHEAD_MIN,
    SETTLE_MAX,
    SETTLE_PER_POD,
    InformerState,
    index_job,
    transform_pod,
)
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.lifecycle.observed.pods import Pod
from di_operator.process.controller import JobKey
from tests.unit.operator.bodies import Object, controlled, pod

KEY = JobKey("ns", "a")


class Cache:
    """What a watch cache does, without a watch; tests deliver its events."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self._tell: list[Callable[[str, Object], None]] = []

    def subscribe(self, callback: Callable[[str, Object], None]) -> None:
        self._tell.append(callback)

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get((namespace, name))

    def items(self) -> list[Object]:
        return list(self.objects.values())

    def by_index(self, index: str, value: str) -> list[Object]:
        return [body for body in self.objects.values() if value in index_job(body)]

    def count(self, index: str, value: str) -> int:
        return len(self.by_index(index, value))

    def absorb(self, body: Object) -> None:
        self.deliver("MODIFIED", body)

    def absorb_list(self, bodies: list[Object], version: str) -> bool:
        for body in bodies:
            self.absorb(body)
        return True

    def deliver(self, kind: str, body: Object) -> None:
        key = body["metadata"]["namespace"], body["metadata"]["name"]
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = body
        for tell in self._tell:
            tell(kind, body)


class Bench:
    def __init__(self, remembered: int = 8) -> None:
        self.caches = {resource: Cache() for resource in (DIJOBS, PODS, SERVICES, CONFIGMAPS)}
        self.woken: list[tuple[JobKey, float]] = []
        self.read_pod = PodCache(size=remembered)
        self.informers = InformerState(
            caches=self.caches,  # type: ignore[arg-type]  # the part of a cache it uses
            wake=lambda key, delay: self.woken.append((key, delay)),
            read_pod=self.read_pod,
        )


def test_a_pod_is_parsed_once_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod("a-work-0"))
    bench.informers.observe(PODS, pod("a-work-1"))
    monkeypatch.delattr(Pod, "read")
    pods = [bench.read_pod(raw) for raw in bench.informers.pods(KEY)]
    assert [each.name for each in pods] == ["a-work-0", "a-work-1"]


def test_a_pod_event_wakes_the_job_named_by_its_label() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod())
    bench.caches[SERVICES].deliver("DELETED", pod("di-a"))
    bench.caches[DIJOBS].deliver("ADDED", pod("b", None))
    assert bench.woken == [(KEY, 0.0), (KEY, 0.0), (JobKey("ns", "b"), 0.0)]


@pytest.mark.parametrize("label", ["a", "b", None])
def test_a_pod_belongs_to_the_job_that_controls_it(label: str | None) -> None:
    bench = Bench()
    body = controlled("a-work-0", "a", label)
    bench.caches[PODS].deliver("MODIFIED", body)
    assert list(bench.informers.pods(KEY)) == [body]
    assert {key.name for key, _ in bench.woken} == {"a", label or "a"}


def test_an_object_without_a_job_wakes_no_job() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod(job=None))
    assert bench.woken == []


def test_an_own_write_is_known_at_once_and_wakes_no_job() -> None:
    bench = Bench()
    bench.informers.observe(PODS, pod())
    assert [one["metadata"]["name"] for one in bench.informers.pods(KEY)] == ["a-work-0"]
    assert bench.woken == []
    bench.caches[PODS].deliver("MODIFIED", at("Running", "a-work-0"))
    assert bench.woken == [(KEY, 0.0)]


def test_an_object_met_by_a_create_wakes_its_job() -> None:
    """Its event may be behind, and then changes nothing in the cache."""
    bench = Bench()
    bench.informers.observe(PODS, pod(), is_news=True)
    assert bench.woken == [(KEY, 0.0)]
    bench.informers.observe(PODS, pod("a-work-1"))
    assert bench.woken == [(KEY, 0.0)]


def test_a_deleted_object_stays_hidden_while_the_watch_is_behind() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod())
    bench.informers.forget("uid-a-work-0")
    assert list(bench.informers.pods(KEY)) == []
    bench.caches[PODS].deliver("MODIFIED", pod())
    assert list(bench.informers.pods(KEY)) == []
    successor = {"metadata": {**pod()["metadata"], "uid": "later"}}
    bench.caches[PODS].deliver("DELETED", pod())
    bench.caches[PODS].deliver("ADDED", successor)
    assert list(bench.informers.pods(KEY)) == [successor]


@pytest.mark.parametrize(("pods", "delay"), [(4, 0.0), (16, 0.0), (100, 0.05), (1000, SETTLE_MAX)])
def test_pod_events_of_a_large_job_are_batched(pods: int, delay: float) -> None:
    bench = Bench()
    for number in range(pods):
        bench.caches[PODS].deliver("ADDED", pod(f"p{number}"))
    key, waited = bench.woken[-1]
    assert key == KEY
    assert waited == pytest.approx(delay)


def at(stage: str, name: str, task: str = "work", **metadata: str) -> Object:
    """A pod that has got so far."""
    body = pod(name)
    body["metadata"]["labels"][LABEL_TASK_NAME] = task
    body["metadata"] |= metadata
    if stage == "Ready":
        conditions = [{"type": "Ready", "status": "True"}]
        return {**body, "status": {"phase": "Running", "conditions": conditions}}
    return {**body, "status": {"phase": stage}}


@pytest.mark.parametrize("stage", ["Running", "Ready", "Succeeded"])
def test_a_pod_ahead_of_its_task_is_reconciled_with_the_others(stage: str) -> None:
    bench = Bench()
    for name in "abc":
        bench.caches[PODS].deliver("ADDED", at("Pending", name))
    bench.caches[PODS].deliver("ADDED", at("Pending", "d", task="other"))
    bench.woken.clear()
    for name in "abc":
        bench.caches[PODS].deliver("MODIFIED", at(stage, name))
    assert bench.woken == [(KEY, AHEAD_MIN), (KEY, AHEAD_MIN), (KEY, 0.0)]


@pytest.mark.parametrize(("pods", "delay"), [(40, 0.5), (100, AHEAD_MAX)])
def test_pods_ahead_of_a_large_task_wait_longer_for_the_others(pods: int, delay: float) -> None:
    bench = Bench(remembered=pods)
    names = [f"p{number}" for number in range(pods)]
    for name in names:
        bench.caches[PODS].deliver("ADDED", at("Pending", name))
    bench.woken.clear()
    for name in names:
        bench.caches[PODS].deliver("MODIFIED", at("Ready", name))
    waits = [waited for _, waited in bench.woken]
    assert waits == pytest.approx([delay] * (pods - 1) + [pods * SETTLE_PER_POD])


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ({"annotations": {"cni.example/address": "10.0.0.1"}}, False),
        ({"annotations": {ANNOTATION_RANK: "1"}}, True),
        ({"labels": {LABEL_JOB: "a"}}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
    ids=["field that is not read", "rank", "label", "deletion"],
)
def test_a_change_of_a_pod_wakes_its_job_only_if_a_decision_reads_it(
    change: Object, wakes: bool
) -> None:
    bench = Bench()

    def version(number: str, **changes: Any) -> Object:
        body = at("Ready", "a", resourceVersion=number)
        body["metadata"] |= changes
        return transform_pod(body)

    bench.caches[PODS].deliver("ADDED", version("1"))
    bench.woken.clear()
    bench.caches[PODS].deliver("MODIFIED", version("2", **change))
    assert bool(bench.woken) is wakes
    (kept,) = bench.informers.pods(KEY)
    assert bench.read_pod(kept).resource_version == "2"


def test_the_last_pod_to_get_ready_is_reconciled_at_once_though_others_have_ended() -> None:
    bench = Bench()
    for name, stage in (("a", "Succeeded"), ("b", "Ready"), ("c", "Pending")):
        bench.caches[PODS].deliver("ADDED", at(stage, name))
    bench.woken.clear()
    bench.caches[PODS].deliver("MODIFIED", at("Ready", "c"))
    bench.caches[PODS].deliver("MODIFIED", at("Succeeded", "c"))
    assert bench.woken == [(KEY, 0.0), (KEY, AHEAD_MIN)]


def test_a_deleted_pod_holds_no_other_pod_of_its_task_back() -> None:
    bench = Bench()
    for name in "ab":
        bench.caches[PODS].deliver("ADDED", at("Pending", name))
    bench.caches[PODS].deliver("DELETED", at("Pending", "b"))
    bench.woken.clear()
    bench.caches[PODS].deliver("MODIFIED", at("Ready", "a"))
    assert bench.woken == [(KEY, 0.0)]


DELETED = at("Pending", "a", deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("MODIFIED", at("Failed", "a")),
        ("MODIFIED", at("Unknown", "a")),
        ("MODIFIED", DELETED),
        ("DELETED", DELETED),
    ],
)
def test_a_failed_or_deleted_pod_is_reconciled_at_once(kind: str, body: Object) -> None:
    bench = Bench()
    for name in "ab":
        bench.caches[PODS].deliver("ADDED", at("Ready", name))
    bench.woken.clear()
    bench.caches[PODS].deliver(kind, body)
    assert bench.woken == [(KEY, 0.0)]


@pytest.mark.parametrize("resource", [PODS, SERVICES])
def test_an_own_delete_wakes_no_job_when_the_watch_shows_it(resource: Resource) -> None:
    bench = Bench()
    for name in ("mine", "lost"):
        bench.caches[resource].deliver("ADDED", pod(name))
    bench.informers.forget("uid-mine")
    bench.woken.clear()
    bench.caches[resource].deliver("DELETED", pod("mine"))
    assert bench.woken == []
    bench.caches[resource].deliver("DELETED", pod("lost"))
    assert bench.woken == [(KEY, 0.0)]


def test_the_deletion_of_a_job_already_taken_for_gone_wakes_it() -> None:
    """Its Workload is given back when its pods are gone."""
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", pod("a", None))
    assert bench.informers.job(KEY) is not None
    bench.informers.forget("uid-a")
    assert bench.informers.job(KEY) is None
    bench.woken.clear()
    bench.caches[DIJOBS].deliver("DELETED", pod("a", None))
    assert bench.woken == [(KEY, 0.0)]


def test_the_poll_wakes_every_job_and_deleted_ones_that_left_workloads() -> None:
    """As after a start: the Workload was seen before all that is known of Kueue was there."""
    bench = Bench()
    for name in "ab":
        bench.caches[DIJOBS].deliver("ADDED", pod(name, None))
    workloads = Cache()
    bench.informers.adopt(WORKLOADS, cast("WatchCache", workloads))
    for job in "bc":
        workloads.deliver("ADDED", pod(f"{job}-core", job))
    bench.woken.clear()
    bench.informers.wake_all()
    assert [key.name for key, _ in bench.woken] == ["a", "b", "c"]


def test_an_object_wrongly_taken_for_gone_returns_after_a_relist() -> None:
    bench = Bench()
    kept = pod()
    bench.caches[PODS].deliver("ADDED", kept)
    bench.informers.forget(kept["metadata"]["uid"])
    assert bench.informers.pods(KEY) == []
    taken = bench.informers.hidden
    bench.informers.forget("meanwhile")
    bench.informers.reveal(taken)
    assert bench.informers.pods(KEY) == [kept]
    assert bench.informers.hidden == {"meanwhile"}


NOW = datetime(2026, 11, 29, tzinfo=UTC)


def stored_job(name: str, version: str = "1") -> Object:
    job = pod(name, None)
    job["metadata"]["resourceVersion"] = version
    return job


def resynced(bench: Bench, now: datetime = NOW) -> list[str]:
    """Return the names of the jobs that a resync wakes."""
    bench.woken.clear()
    bench.informers.resync(now)
    return [key.name for key, _ in bench.woken]


def test_a_resync_wakes_no_settled_job_until_it_changes() -> None:
    bench = Bench()
    jobs = {name: stored_job(name) for name in "ab"}
    for job in jobs.values():
        bench.caches[DIJOBS].deliver("ADDED", job)
    bench.informers.settled.record(jobs["a"], None)
    assert resynced(bench) == ["b"]
    assert resynced(bench) == ["b"]
    bench.caches[DIJOBS].deliver("MODIFIED", stored_job("a", version="2"))
    assert sorted(resynced(bench)) == ["a", "b"]


def test_a_resync_wakes_a_settled_job_whose_time_has_come() -> None:
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", job := stored_job("a"))
    bench.informers.settled.record(job, NOW + timedelta(minutes=1))
    assert resynced(bench) == []
    assert resynced(bench, NOW + timedelta(minutes=1)) == ["a"]


def test_a_job_of_a_settled_ones_name_is_woken() -> None:
    bench = Bench()
    bench.informers.settled.record(stored_job("a"), None)
    job = stored_job("a")
    job["metadata"]["uid"] = "another"
    bench.caches[DIJOBS].deliver("ADDED", job)
    assert resynced(bench) == ["a"]


def test_an_object_wrongly_taken_for_gone_unsettles_its_job() -> None:
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", job := stored_job("a"))
    bench.informers.settled.record(job, None)
    bench.informers.reveal(["no such object"])
    assert resynced(bench) == []
    bench.caches[PODS].deliver("ADDED", kept := pod("a-work-0"))
    bench.informers.forget(kept["metadata"]["uid"])
    bench.informers.reveal(bench.informers.hidden)
    assert resynced(bench) == ["a"]


def test_objects_read_in_a_list_wake_no_job() -> None:
    bench = Bench()
    assert bench.informers.observe_all(PODS, [pod()], "9")
    assert bench.informers.pods(KEY) == [pod()]
    assert bench.woken == []
