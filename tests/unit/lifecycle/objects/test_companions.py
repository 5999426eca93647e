"""What jobs bring along, through the decisions that make it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from di_api.companions import CompanionKind
from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import CompanionRefused
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, Crash, job, task
from tests.unit.lifecycle.test_coordinated import coordinated
from tests.unit.lifecycle.test_ownership import foreign

Object = dict[str, Any]
KINDS = (
    CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps"),
    CompanionKind(
        api_version="v1", kind="PersistentVolumeClaim", resource="persistentvolumeclaims"
    ),
    CompanionKind(api_version="x.org/v1", kind="Pool", resource="pools"),
)
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "$(JOB)-config", "labels": {"team": "rl"}, "annotations": {"a": "$(JOB)"}},
    "data": {"url": "http://$(JOB)-judge"},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "$(JOB)"},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}
POOL = {"apiVersion": "x.org/v1", "kind": "Pool", "metadata": {"name": "$(JOB)"}}
BOTH = [CONFIG, CLAIM]
MADE = ["create ConfigMap x-config", "create PersistentVolumeClaim x"]


def accompanied(*companions: Object, **spec: Any) -> ClusterModel:
    cluster = ClusterModel(job(companions=list(companions or BOTH), **spec))
    cluster.settings = replace(SETTINGS, companion_kinds=KINDS)
    return cluster


def running(*companions: Object, **spec: Any) -> ClusterModel:
    cluster = accompanied(*companions, **spec).settle().run().settle()
    assert cluster.phase == "Running"
    cluster.writes.clear()
    cluster.events.clear()
    return cluster


@pytest.mark.proves("dijob.md#spec/companions")
def test_companions_are_made_first_and_belong_to_the_job() -> None:
    cluster, plain = accompanied(), ClusterModel(job())
    cluster.settle()
    plain.settle()
    assert cluster.writes == [*MADE, *plain.writes]
    made = cluster.objects["ConfigMap", "x-config"]
    assert made["data"] == {"url": "http://x-judge"}
    assert made["metadata"]["labels"] == {
        "team": "rl",
        "diengine/job": "x",
        "diengine/operator": "di-operator",
    }
    assert made["metadata"]["annotations"] == {"a": "x"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DIJob", "uid-x", True)
    assert made["metadata"]["namespace"] == "rl"


def test_companions_are_named_after_the_job_in_templates() -> None:
    named = {"name": "config", "configMap": {"name": "$(JOB)-config"}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "$(JOB)-gpu"}]
    learner = task("learner")
    learner["template"]["spec"]["resourceClaims"] = claims
    learner["template"]["spec"]["containers"][0]["args"] = ["$(JOB)"]
    cluster = accompanied(CONFIG, tasks=[learner], volumes=[named]).settle()
    spec = cluster.objects["Pod", "x-learner-0"]["spec"]
    assert spec["volumes"] == [{"name": "config", "configMap": {"name": "x-config"}}]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "x-gpu"}]
    assert spec["containers"][0]["args"] == ["$(JOB)"]
    # Of a job that brings nothing along it is a text as any other.
    plain = ClusterModel(job(learner, volumes=[named])).settle()
    assert plain.objects["Pod", "x-learner-0"]["spec"]["volumes"] == [named]


def test_a_coordinated_job_makes_and_names_its_companions() -> None:
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "$(JOB)"}}
    cluster = coordinated(companions=BOTH, volumes=[named])
    cluster.settings = replace(SETTINGS, companion_kinds=KINDS)
    assert cluster.settle().writes[:2] == MADE
    (volume,) = cluster.pods["x-coordinator"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "x"}


def test_a_job_without_companions_costs_no_extra_read() -> None:
    cluster = ClusterModel(job())
    cluster.settings = replace(SETTINGS, companion_kinds=KINDS)
    cluster.settle()
    assert cluster.looks == 0


def test_a_config_map_of_a_job_is_not_taken_for_its_node_lists() -> None:
    many = accompanied(CONFIG, tasks=[task("collector", 101)]).settle()
    assert set(many.objects["ConfigMap", "x-config"]["data"]) == {"url"}
    assert "nodes" in many.objects["ConfigMap", "di-x"]["data"]
    before = copy.deepcopy(many.objects["ConfigMap", "x-config"])
    many.edit(tasks=[task("collector", 102)]).settle()
    assert many.objects["ConfigMap", "x-config"] == before


@pytest.mark.proves("roles.md#companions/an-earlier-job-of-the-same-name-had-one")
def test_pods_wait_until_companions_of_an_earlier_job_are_gone() -> None:
    old = running()
    new = accompanied()
    new.job["metadata"]["uid"] = "uid-new"
    for key in (("ConfigMap", "x-config"), ("PersistentVolumeClaim", "x")):
        new.objects[key] = old.objects[key]
    new.reconcile()
    assert new.writes == ["status"]
    message = new.condition("Pending")["message"]
    assert message == "waiting for ConfigMap (v1) x-config of an earlier job to be gone"
    # The garbage collector has come by.
    new.objects.clear()
    new.settle()
    assert (new.writes[1:3], new.phase) == (MADE, "Starting")


@pytest.mark.proves("roles.md#companions/a-user-deletes-one")
def test_a_deleted_companion_is_made_again_and_nothing_else() -> None:
    cluster = running()
    del cluster.objects["PersistentVolumeClaim", "x"]
    cluster.settle()
    assert (cluster.writes, cluster.phase) == (MADE[1:], "Running")


@pytest.mark.proves("roles.md#companions/a-user-edits-one")
def test_an_edited_or_ending_companion_is_left_alone() -> None:
    cluster = running()
    cluster.objects["ConfigMap", "x-config"]["data"] = {"url": "http://elsewhere"}
    cluster.objects["ConfigMap", "x-config"]["metadata"]["labels"] = {}
    now = cluster.objects["PersistentVolumeClaim", "x"]["metadata"]
    now["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    cluster.settle()
    assert cluster.writes == []


@pytest.mark.proves("roles.md#companions/the-job-is-suspended-ends-or")
@pytest.mark.parametrize("end", ["suspend", "succeed"])
def test_companions_stay_as_long_as_the_job(end: str) -> None:
    cluster = running(cleanPodPolicy="All")
    if end == "suspend":
        cluster.edit(suspend=True)
    else:
        cluster.succeed()
    cluster.settle()
    assert cluster.phase == ("Pending" if end == "suspend" else "Succeeded")
    assert {("ConfigMap", "x-config"), ("PersistentVolumeClaim", "x")} <= cluster.objects.keys()


def test_a_suspended_job_makes_no_companions() -> None:
    cluster = accompanied(suspend=True).settle()
    assert cluster.objects == {}
    cluster.edit(suspend=False).settle()
    assert ("PersistentVolumeClaim", "x") in cluster.objects


@pytest.mark.parametrize("writes", range(1, 8))
def test_an_operator_that_dies_at_any_write_leaves_none_out(writes: int) -> None:
    cluster = accompanied()
    with pytest.raises(Crash):
        cluster.reconcile(crash_after=writes)
    cluster.settle()
    assert {("ConfigMap", "x-config"), ("PersistentVolumeClaim", "x")} <= cluster.objects.keys()
    assert len(cluster.pods) == 4
    assert sorted(cluster.writes) == sorted(set(cluster.writes) - {"status"}) + ["status"] * (
        cluster.writes.count("status")
    )


@pytest.mark.proves(
    "roles.md#companions/the-name-belongs-to-another-owner",
    "events.md#of-its-life/companionconflict",
)
def test_a_new_job_waits_for_the_name_of_a_companion() -> None:
    cluster = accompanied()
    stored = copy.deepcopy(cluster.put(foreign("PersistentVolumeClaim", "x")))
    cluster.settle()
    pending = cluster.condition("Pending")
    assert (cluster.phase, pending["reason"]) == ("Pending", "CompanionConflict")
    assert "spec.companions[1], PersistentVolumeClaim (v1) x" in pending["message"]
    assert (cluster.objects["PersistentVolumeClaim", "x"], cluster.pods) == (stored, {})
    assert [event.reason for event in cluster.events] == ["CompanionConflict"]
    del cluster.objects["PersistentVolumeClaim", "x"]
    cluster.wait(10)
    assert cluster.phase == "Starting"


REFUSALS = [
    (Seen.COMPANION_INVALID, "InvalidCompanion", "Failed"),
    (Seen.COMPANION_NAME_TAKEN, "CompanionConflict", "Pending"),
    (Seen.COMPANION_KIND_MISSING, "CompanionKindMissing", "Pending"),
    (Seen.COMPANION_OVER_QUOTA, "QuotaExceeded", "Pending"),
    (Seen.COMPANION_FORBIDDEN, "CreateForbidden", "Pending"),
]


@pytest.mark.proves("roles.md#companions/the-api-server-calls-the-object-invalid")
@pytest.mark.parametrize(("seen", "reason", "phase"), REFUSALS)
def test_a_refused_companion_is_reported_with_the_api_servers_message(
    seen: Seen, reason: str, phase: str
) -> None:
    cluster = accompanied()
    cluster.refuse_companions = CompanionRefused(seen=seen, message="its words")
    cluster.reconcile()
    assert (cluster.phase, cluster.condition(phase)["reason"]) == (phase, reason)
    assert cluster.condition(phase)["message"] == "its words"
    assert ([event.reason for event in cluster.events], cluster.objects) == ([reason], {})


@pytest.mark.parametrize("reason", ["CompanionKindMissing", "QuotaExceeded", "CreateForbidden"])
def test_a_refusal_that_can_be_fixed_is_retried_with_backoff(reason: str) -> None:
    seen = next(seen for seen, told, _ in REFUSALS if told == reason)
    cluster = accompanied()
    cluster.refuse_companions = CompanionRefused(seen=seen, message="its words")
    assert cluster.reconcile().requeue_after == 2.0
    cluster.refuse_companions = None
    looks = cluster.looks
    cluster.reconcile()
    assert (cluster.objects, cluster.looks) == ({}, looks)
    cluster.pass_time(2).settle()
    assert cluster.phase == "Starting"


@pytest.mark.proves("roles.md#companions/any-of-these-while-the-job-is-running")
@pytest.mark.parametrize(("seen", "reason"), [row[:2] for row in REFUSALS])
def test_a_running_job_goes_on_without_a_refused_companion(seen: Seen, reason: str) -> None:
    cluster = running()
    del cluster.objects["ConfigMap", "x-config"]
    cluster.refuse_companions = CompanionRefused(seen=seen, message="its words")
    assert (cluster.reconcile().requeue_after, cluster.phase) == (10.0, "Running")
    assert [(event.reason, event.message) for event in cluster.events] == [(reason, "its words")]
    cluster.refuse_companions = None
    cluster.settle()
    assert cluster.writes == MADE[:1]


def test_a_started_job_that_needs_new_pods_waits_for_the_name() -> None:
    cluster = running(CLAIM)
    cluster.objects["PersistentVolumeClaim", "x"] = foreign("PersistentVolumeClaim", "x")
    cluster.fail("x-learner-0")
    for _ in range(3):
        cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert cluster.condition("Restarting")["reason"] == "CompanionConflict"
    assert "x-learner-0" not in cluster.pods
    del cluster.objects["PersistentVolumeClaim", "x"]
    cluster.settle()
    assert "x-learner-0" in cluster.pods


@pytest.mark.proves(
    "roles.md#companions/the-cluster-does-not-serve-the-kind-or",
    "events.md#of-its-life/companionkindmissing",
)
def test_a_kind_that_the_operator_may_not_make_keeps_a_new_job_waiting() -> None:
    cluster = accompanied(CONFIG, POOL)
    cluster.settings = replace(SETTINGS, companion_kinds=KINDS[:2])
    cluster.reconcile()
    pending = cluster.condition("Pending")
    assert pending["reason"] == "CompanionKindMissing"
    assert "spec.companions[1], Pool (x.org/v1) x" in pending["message"]
    assert cluster.pods == {}
    cluster.settings = replace(SETTINGS, companion_kinds=KINDS)
    cluster.pass_time(2).settle()
    assert ("Pool", "x") in cluster.objects
    assert cluster.phase == "Starting"


def test_a_started_job_goes_on_without_forbidden_kinds() -> None:
    cluster = running(POOL)
    cluster.settings = SETTINGS
    del cluster.objects["Pool", "x"]
    cluster.settle()
    assert (cluster.writes, cluster.events, cluster.phase) == ([], [], "Running")


def test_an_invalid_companion_is_read_as_far_as_possible() -> None:
    cluster = running()
    odd = {"apiVersion": 7, "kind": None, "metadata": {"name": "$(JOB)"}}
    cluster.edit(companions=[*BOTH, {}, {"metadata": {"name": 7}}, odd]).settle()
    assert ([w for w in cluster.writes if w != "status"], cluster.phase) == ([], "Running")
