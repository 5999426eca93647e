"""Objects under our names that are not ours: another's are left alone, an earlier job's go."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any

import pytest

from di_kube.resources import CONFIGMAPS, PODS, SERVICES, Resource
from di_operator.builders.configmap import configmap_body
from di_operator.builders.service import service_body
from di_operator.lifecycle.write_errors import (
    CreateForbidden,
    NameTaken,
    QuotaExceeded,
    TemplateRefused,
    gravest,
    on_error,
)
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running
from tests.unit.lifecycle.kubelet_model import START


def leftover() -> ClusterModel:
    """A new job whose namesake was deleted a moment ago."""
    old = running()
    new = ClusterModel(job(uid="uid-new"))
    new.objects = copy.deepcopy(old.objects)
    new.version, new.made = old.version, old.made
    return new


def foreign(kind: str, name: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web"}
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "rl",
            "labels": {"diengine/job": "x"},
            "ownerReferences": [{**owner, "controller": True}],
        },
    }


@pytest.mark.proves("events.md#of-its-life/podnameconflict", "events.md#of-its-life/nameconflict")
@pytest.mark.parametrize(("kind", "name"), [("Pod", "x-collector-1"), ("Service", "di-x")])
def test_a_new_job_waits_for_names_of_others_and_touches_nothing(kind: str, name: str) -> None:
    cluster = ClusterModel(job())
    stored = cluster.put(foreign(kind, name))
    before = copy.deepcopy(stored)
    cluster.settle()
    assert cluster.phase == "Pending"
    assert cluster.condition("Pending")["reason"] == "PodNameConflict"
    assert f"{kind} {name} exists" in cluster.condition("Pending")["message"]
    assert [event.reason for event in cluster.events[:2]] == ["NameConflict", "PodNameConflict"]
    assert cluster.objects[kind, name] == before
    assert cluster.reconcile().requeue_after == 10
    del cluster.objects[kind, name]
    cluster.wait(10)
    assert cluster.phase == "Starting"
    cluster.run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))


def test_a_job_made_again_waits_for_pods_that_were_orphaned() -> None:
    old = running()
    for kind, name in old.objects:
        disown(old, kind, name)
    new = ClusterModel(job(uid="uid-new"))
    new.objects, new.version, new.made = old.objects, old.version, old.made
    before = copy.deepcopy(new.objects)
    new.settle().wait(60)
    assert (new.phase, new.condition("Pending")["reason"]) == ("Pending", "PodNameConflict")
    assert new.objects == before
    # A user deletes them one after the other.
    del new.objects["Service", "di-x"]
    for name in [*new.pods]:
        new.wait(10)
        assert new.condition("Pending")["reason"] == "PodNameConflict"
        del new.objects["Pod", name]
    new.wait(10).run().settle()
    assert (new.phase, new.counts, len(new.pods)) == ("Running", (0, 0), 4)


def test_the_pending_timeout_ends_a_job_whose_names_stay_taken() -> None:
    cluster = ClusterModel(job(pendingTimeoutSeconds=300))
    cluster.put(foreign("Pod", "x-collector-1"))
    cluster.settle().wait(300)
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert "Pod x-collector-1 exists" in failed["message"]


def disown(cluster: ClusterModel, kind: str, name: str) -> Any:
    """Somebody takes the owner references off an object; returns them."""
    return cluster.objects[kind, name]["metadata"].pop("ownerReferences")


def test_a_started_job_goes_on_with_a_pod_that_lost_its_owner() -> None:
    cluster = running()
    owners = disown(cluster, "Pod", "x-collector-1")
    uid = cluster.uids["x-collector-1"]
    cluster.events.clear()
    cluster.settle()
    assert cluster.phase == "Rescheduling"
    assert cluster.condition("Rescheduling")["reason"] == "PodNameConflict"
    assert "x-collector-1 exists" in cluster.condition("Rescheduling")["message"]
    assert len(cluster.pods) == 4
    for _ in range(3):
        assert cluster.reconcile().status is None
    warnings = {event.reason for event in cluster.events if event.type == "Warning"}
    assert warnings == {"NameConflict", "PodNameConflict"}
    cluster.pods["x-collector-1"]["metadata"]["ownerReferences"] = owners
    cluster.settle()
    assert (cluster.phase, cluster.uids["x-collector-1"]) == ("Running", uid)
    assert cluster.counts == (0, 1)


def test_a_started_job_goes_on_when_the_pod_in_its_way_is_gone() -> None:
    cluster = running()
    disown(cluster, "Pod", "x-collector-1")
    cluster.settle()
    del cluster.objects["Pod", "x-collector-1"]
    cluster.settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 1))


def test_a_job_that_runs_can_do_without_a_service_that_lost_its_owner() -> None:
    cluster = running()
    disown(cluster, "Service", "di-x")
    cluster.events.clear()
    cluster.settle()
    assert cluster.phase == "Running"
    assert {event.reason for event in cluster.events} == {"PodNameConflict"}
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"
    assert ("Service", "di-x") in cluster.objects


def test_pods_and_service_of_an_earlier_job_are_deleted_and_waited_for() -> None:
    cluster = leftover()
    cluster.reconcile()
    assert ("Service", "di-x") not in cluster.objects
    assert set(cluster.ending) == set(cluster.pods)
    assert not any(write.startswith("create") for write in cluster.writes)
    assert cluster.phase == "Pending"
    cluster.settle()
    cluster.end().settle()
    assert cluster.phase == "Starting"
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.pods.values()}
    assert owners == {"uid-new"}


def test_pods_of_an_earlier_job_are_not_counted() -> None:
    cluster = leftover()
    for pod in cluster.pods.values():
        pod["status"] = {"phase": "Failed"}
    cluster.settle()
    assert (cluster.status["restarts"], cluster.phase) == (0, "Starting")


def test_a_zombie_of_an_earlier_job_is_removed_beside_a_running_one() -> None:
    cluster = running()
    zombie = copy.deepcopy(cluster.pods["x-collector-0"])
    zombie["metadata"]["name"] = "x-collector-9"
    zombie["metadata"]["ownerReferences"][0]["uid"] = "uid-old"
    cluster.put(zombie)
    cluster.settle()
    assert "x-collector-9" in cluster.ending
    assert cluster.phase == "Running"


@pytest.mark.parametrize("resource", [PODS, SERVICES, CONFIGMAPS], ids=attrgetter("kind"))
def test_a_leftover_that_only_the_create_met_is_deleted_by_its_identity(resource: Resource) -> None:
    old = job(uid="uid-old")
    found = {
        "Pod": running().pods["x-learner-0"],
        "Service": service_body(old),
        "ConfigMap": configmap_body(old, {}),
    }[resource.kind]
    found["metadata"] |= {"uid": "uid-found", "resourceVersion": "7"}
    found["metadata"]["ownerReferences"][0]["uid"] = "uid-old"
    snapshot = ClusterModel(job()).snapshot()
    decision = on_error(snapshot, NameTaken(resource=resource, found=found), START)
    (deletion,) = decision.actions
    assert deletion.label == f"Delete{resource.kind}"
    assert (deletion.uid, deletion.resource_version) == ("uid-found", "7")  # type: ignore[union-attr]
    assert decision.status is None
    assert decision.requeue_after == 1.0


@pytest.mark.parametrize(
    ("uid", "more"), [("uid-old", {"deletionTimestamp": "2026-01-01T12:00:00Z"}), ("uid-x", {})]
)
def test_a_leftover_that_ends_or_is_ours_is_waited_for(uid: str, more: dict[str, str]) -> None:
    found = service_body(job(uid=uid))
    found["metadata"] |= more
    snapshot = ClusterModel(job()).snapshot()
    decision = on_error(snapshot, NameTaken(resource=SERVICES, found=found), START)
    assert (decision.actions, decision.status, decision.requeue_after) == ((), None, 1.0)


def test_a_refusal_that_ends_the_job_outweighs_one_that_makes_it_wait() -> None:
    template = TemplateRefused(message="t")
    quota, forbidden = QuotaExceeded(message="q"), CreateForbidden(message="f")
    taken = NameTaken(resource=PODS, found={})
    assert gravest([forbidden, quota, taken, template]) is template
    assert gravest([forbidden, quota, taken]) is taken
    assert gravest([forbidden, quota]) is quota


def test_deletes_carry_what_was_seen() -> None:
    cluster = leftover()
    for action in cluster.decide().actions:
        found = next(
            body
            for body in cluster.objects.values()
            if body["metadata"]["uid"] == action.uid  # type: ignore[union-attr]
        )
        assert action.resource_version == found["metadata"]["resourceVersion"]  # type: ignore[union-attr]
