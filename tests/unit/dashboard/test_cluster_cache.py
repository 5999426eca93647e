"""The cluster in memory: notifications, and what is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from di_cli.views.top import resources_of
from di_dashboard.cluster_cache.cache import CLUSTER_TOPIC, JOBS_TOPIC, ClusterCache, job_topic
from di_dashboard.cluster_cache.feed import Feed
from di_dashboard.cluster_cache.trim import slim_job, slim_node, slim_pod
from di_dashboard.history.seen import Seen
from di_kube.packed import Packed
from tests.unit.cli.conftest import job, node, pod

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Object = dict[str, Any]


def cache(feed: Feed | None = None, seen: Seen | None = None) -> ClusterCache:
    return ClusterCache(feed=feed or Feed(), seen=seen or Seen(), now=lambda: NOW)


def event(name: str, about: str, kind: str = "Pod") -> Object:
    involved = {"kind": kind, "name": about, "namespace": "rl"}
    return {"metadata": {"name": name, "namespace": "rl"}, "involvedObject": involved}


def test_a_listener_is_notified_of_its_job_and_pods_only() -> None:
    feed = Feed()
    found = cache(feed)
    found.on_job("ADDED", job("a", "Running"))
    found.on_job("ADDED", job("b", "Running"))
    listener = feed.join([job_topic("rl", "a")])
    found.on_job("MODIFIED", job("b", "Failed"))
    found.on_pod("ADDED", pod("b", "learner", 0, 0))
    found.on_event("ADDED", event("e1", "b-learner-0"))
    assert not listener.take()
    found.on_job("MODIFIED", job("a", "Failed"))
    assert listener.take()
    found.on_pod("ADDED", pod("a", "learner", 0, 0))
    assert listener.take()
    found.on_event("ADDED", event("e2", "a-learner-9"))
    assert listener.take()
    found.on_event("ADDED", event("e3", "a", "DIJob"))
    assert listener.take()


def test_changes_before_a_read_are_one_notification() -> None:
    feed = Feed()
    listener = feed.join([JOBS_TOPIC])
    for _ in range(1000):
        feed.publish([JOBS_TOPIC, CLUSTER_TOPIC])
    assert listener.take()
    assert not listener.take()


def test_a_listener_that_left_is_counted_out_once() -> None:
    feed = Feed()
    first, _ = feed.join(["a"]), feed.join(["a"])
    feed.leave(first)
    feed.leave(first)
    assert feed.count == 1


def test_news_from_before_a_listener_waits_wakes_it_at_once() -> None:
    feed, woken = Feed(), list[str]()
    listener = feed.join(["a"])
    feed.publish(["a"])
    listener.on_news(lambda: woken.append("before"))
    assert listener.take()
    feed.publish(["a"])
    assert woken == ["before", "before"]


def test_events_of_a_deleted_pod_belong_to_the_longest_job_name() -> None:
    found = cache()
    found.on_job("ADDED", job("a", "Running"))
    found.on_job("ADDED", job("a-b", "Running"))
    found.on_event("ADDED", event("e1", "a-b-learner-0"))
    found.on_event("ADDED", event("e2", "a-learner-0"))
    assert [each["metadata"]["name"] for each in found.events_of("rl", "a")] == ["e2"]
    assert [each["metadata"]["name"] for each in found.events_of("rl", "a-b")] == ["e1"]


def test_the_event_of_a_claim_belongs_to_the_jobs_that_mount_it() -> None:
    feed = Feed()
    found = cache(feed)
    for name, claim in (("a", "data"), ("b", "other")):
        found.on_job("ADDED", job(name, "Starting"))
        mounts = pod(name, "learner", 0, 0)
        mounts["spec"]["volumes"] = [{"persistentVolumeClaim": {"claimName": claim}}]
        found.on_pod("ADDED", mounts)
    changes = feed.join([job_topic("rl", "a")])
    found.on_event("ADDED", event("e1", "data", "PersistentVolumeClaim"))
    assert changes.take()
    assert [each["metadata"]["name"] for each in found.events_of("rl", "a")] == ["e1"]
    assert found.events_of("rl", "b") == []


def test_a_deleted_object_is_removed_everywhere() -> None:
    seen = Seen()
    found = cache(seen=seen)
    body, first = job("a", "Running"), pod("a", "learner", 0, 0)
    found.on_job("ADDED", body)
    found.on_pod("ADDED", first)
    assert seen.changes(body)
    found.on_pod("DELETED", first)
    found.on_job("DELETED", body)
    assert (found.entries(), found.pods_of("rl", "a"), found.live_pods(), found.job("rl", "a")) == (
        *([], [], []),
        None,
    )
    assert seen.changes(body) == []


def test_a_pod_that_has_ended_holds_nothing_and_stays_with_its_job() -> None:
    feed = Feed()
    found = cache(feed)
    runs, over = pod("a", "learner", 0, 0), pod("a", "learner", 0, 0, phase="Succeeded")
    found.on_pod("ADDED", slim_pod(runs))
    assert len(found.live_pods()) == 1
    listener = feed.join([CLUSTER_TOPIC])
    found.on_pod("MODIFIED", slim_pod(over))
    assert listener.take()
    assert (found.live_pods(), len(found.pods_of("rl", "a"))) == ([], 1)
    for kind in ("MODIFIED", "DELETED"):
        found.on_pod(kind, slim_pod(over))
    assert not listener.take()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_jobs_and_pods_are_packed_and_read_as_before(phase: str) -> None:
    body, one = job("a", phase), pod("a", "learner", 0, 0, phase=phase)
    for kept, live in (
        (slim_job(body), slim_job({**body, "status": {**body["status"], "phase": "Running"}})),
        (slim_pod(one), slim_pod({**one, "status": {**one["status"], "phase": "Running"}})),
    ):
        assert isinstance(kept, Packed)
        assert not isinstance(live, Packed)
        assert {**kept, "status": {**kept["status"], "phase": "Running"}} == live


def test_a_node_heartbeat_is_no_notification() -> None:
    feed = Feed()
    found = cache(feed)
    body = node("n", 1)
    body["status"]["conditions"][0]["lastHeartbeatTime"] = "1"
    found.on_node("ADDED", slim_node(body))
    listener = feed.join([CLUSTER_TOPIC])
    body["status"]["conditions"][0]["lastHeartbeatTime"] = "2"
    found.on_node("MODIFIED", slim_node(body))
    assert not listener.take()
    body["spec"]["unschedulable"] = True
    found.on_node("MODIFIED", slim_node(body))
    assert listener.take()


def test_the_cache_is_complete_when_all_readable_kinds_are_listed() -> None:
    found = cache()
    found.expect(["dijobs", "nodes"])
    found.mark("dijobs", ready=True, refused="", away=False)
    assert not found.wait_until_complete(0)
    found.mark("nodes", ready=False, refused="you may not", away=False)
    assert found.wait_until_complete(0)
    assert found.unread == {"nodes": "you may not"}
    found.mark("dijobs", ready=True, refused="", away=True)
    found.mark("nodes", ready=True, refused="", away=False)
    assert (found.is_away, found.unread) == (True, {})


@pytest.mark.proves("dashboard.md#what-is-remembered")
def test_phases_scalings_and_reports_are_remembered_as_they_come() -> None:
    seen = Seen()
    body = job(
        "a", "Starting", profilings={"episodeReturn": 1.0, "reportedAt": "2026-03-01T11:00:00Z"}
    )
    seen.look(body, NOW)
    seen.look(body, NOW)
    body["spec"]["tasks"][1]["replicas"] = 4
    body["status"] |= {
        "phase": "Running",
        "profilings": {"episodeReturn": 2.0, "reportedAt": "2026-03-01T11:00:10Z"},
    }
    seen.look(body, NOW)
    assert [each.text for each in seen.changes(body)] == ["Starting", "Running", "collector 2 -> 4"]
    assert [value for _, value in seen.series(body).points("episodeReturn")] == [1.0, 2.0]


def test_a_new_job_of_the_same_name_has_no_old_changes() -> None:
    seen = Seen()
    first, second = job("a", "Running"), job("a", "Pending")
    second["metadata"]["uid"] = "other"
    seen.look(first, NOW)
    assert seen.changes(second) == []


def test_the_jobs_that_changed_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_dashboard.history.seen.MOST_JOBS", 5)
    seen = Seen()
    bodies = [job(f"j{i}", "Running") for i in range(6)]
    for body in bodies:
        seen.look(body, NOW)
    assert seen.changes(bodies[0]) == []
    assert seen.changes(bodies[-1])


def test_a_foreign_pod_is_kept_with_its_resources_only() -> None:
    body = pod("a", "learner", 0, 0)
    body["metadata"] |= {"ownerReferences": [], "annotations": {"secret": "x"}}
    body["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "x"}]
    kept = slim_pod(body)
    assert "x" not in str(kept)
    assert kept["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "4"}}
    assert "managedFields" not in slim_job(job("a", "Running"))["metadata"]


def test_a_pod_of_a_job_is_kept_with_the_resources_of_the_pod_itself() -> None:
    body = pod("a", "learner", 0, 0)
    body["spec"]["resources"] = {"requests": {"cpu": "2"}}
    assert resources_of(slim_pod(body))[0] == (2, None)
