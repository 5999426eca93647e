"""Jobs that wait: suspended, for another task, for quota; and the clock of their deadline."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest

from di_api.validation import validate_update
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.actions import Delete
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.write_errors import CreateForbidden, QuotaExceeded
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

QUOTA = QuotaExceeded(message="exceeded quota: compute, requested: pods=1, used: pods=4")


def ordered() -> ClusterModel:
    return ClusterModel(job(task("collector", 2, dependsOn=["learner"]), task("learner", 2)))


@pytest.mark.proves(
    "lifecycle.md#checkpoints/suspend-preemption-to-no-nodes-at-all", "dijob.md#spec/suspend"
)
def test_suspending_ends_the_running_pods_with_their_own_grace_period() -> None:
    cluster = running().succeed("x-collector-2").edit(suspend=True)
    deletions = [a for a in cluster.decide().actions if isinstance(a, Delete)]
    cluster.settle()
    assert {deletion.name for deletion in deletions} == {
        "x-learner-0",
        "x-collector-0",
        "x-collector-1",
    }
    assert all(deletion.grace_period_seconds is None for deletion in deletions)
    assert cluster.condition("Suspended")["status"] == "True"


def test_a_suspended_job_shows_at_once_that_no_pod_is_left() -> None:
    cluster = running().edit(suspend=True)
    cluster.reconcile()
    cluster.reconcile()
    assert cluster.status["readyReplicas"] == 0
    assert cluster.condition("Pending")["message"] == "suspended, 4 pods to end"
    cluster.end().pass_time(10).settle()
    assert cluster.condition("Pending")["message"] == "suspended"


def test_a_suspended_job_at_rest_is_left_alone() -> None:
    cluster = running().edit(suspend=True).settle().end().pass_time(60).settle()
    written = len(cluster.writes)
    cluster.pass_time(60).settle()
    assert (len(cluster.writes), cluster.status["readyReplicas"]) == (written, 0)


def test_a_resumed_job_keeps_its_counters_and_its_finished_pods() -> None:
    cluster = running().fail("x-learner-0").settle().run().settle()
    cluster.succeed("x-collector-2")
    kept = cluster.uids["x-collector-2"]
    cluster.edit(suspend=True).settle()
    for name in [n for n in cluster.pods if n != "x-collector-2"]:
        cluster.end(name)
    cluster.edit(suspend=False).settle()
    assert cluster.phase == "Starting"
    assert (cluster.condition("Suspended")["status"], cluster.counts) == ("False", (1, 0))
    assert (cluster.uids["x-collector-2"], len(cluster.pods)) == (kept, 4)


def test_a_suspension_resets_the_active_deadline() -> None:
    cluster = running(activeDeadlineSeconds=60).pass_time(50).edit(suspend=True)
    cluster.settle()
    assert "startTime" not in cluster.status
    cluster.pass_time(3600).end().edit(suspend=False).settle()
    cluster.pass_time(59).reconcile()
    assert cluster.phase == "Starting"
    cluster.pass_time(1).settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"] == "active for longer than 60 seconds"


@pytest.mark.proves(
    "lifecycle.md#time/activedeadlineseconds",
    "dijob.md#spec/activedeadlineseconds",
    "lifecycle.md#checkpoints/activedeadlineseconds-is-over-the-job-is",
)
def test_past_its_deadline_a_job_fails_and_its_pods_end_gracefully() -> None:
    cluster = running(activeDeadlineSeconds=60).pass_time(60)
    cluster.reconcile()
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"
    deletions = [
        a for a in cluster.decide().actions if isinstance(a, Delete) and a.name in cluster.pods
    ]
    assert {(each.name, each.grace_period_seconds) for each in deletions} == {
        (name, None) for name in cluster.pods
    }
    assert not cluster.settle().end().settle().pods


def test_the_active_deadline_does_not_run_while_a_job_waits_for_nodes() -> None:
    cluster = ClusterModel(job(task("learner"), preemptible=True, activeDeadlineSeconds=60))
    waits = Grant(placement={}, reason=Reason.WAITING_FOR_NODES, message="others have them")
    runs = Grant(placement={"learner": ("a",)})
    cluster.grant = waits
    cluster.settle().pass_time(3600).settle()
    assert (cluster.phase, "startTime" in cluster.status) == ("Pending", False)
    cluster.grant = runs
    cluster.settle().run().settle().pass_time(50).settle()
    assert cluster.phase == "Running"
    # It makes way for others, and comes back.
    cluster.grant = waits
    cluster.settle().end().settle().pass_time(3600).settle()
    assert (cluster.phase, len(cluster.pods)) == ("Pending", 0)
    cluster.grant = runs
    cluster.settle().run().settle().pass_time(50).settle()
    assert cluster.phase == "Running"
    cluster.pass_time(10).settle()
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"


def test_the_active_deadline_does_not_run_while_a_job_waits_for_quota() -> None:
    cluster = ClusterModel(job(task("learner", 2), activeDeadlineSeconds=60))
    cluster.refuse_pods = QUOTA
    cluster.settle().pass_time(3600).settle()
    assert cluster.condition("Pending")["reason"] == "QuotaExceeded"
    assert "startTime" not in cluster.status


def test_the_operator_asks_to_be_woken_at_the_deadline() -> None:
    cluster = running(activeDeadlineSeconds=60).pass_time(45)
    assert cluster.decide().requeue_after == 15


@pytest.mark.proves("dijob.md#spec-tasks/dependson", "events.md#of-its-life/podscreated")
def test_dependents_are_created_when_all_pods_of_the_other_task_are_ready() -> None:
    cluster = ordered().settle()
    assert set(cluster.pods) == {"x-learner-0", "x-learner-1"}
    assert cluster.condition("Pending")["message"] == "task collector waits for task learner"
    cluster.run("x-learner-0").settle()
    assert len(cluster.pods) == 2
    cluster.run("x-learner-1").settle()
    assert (cluster.phase, len(cluster.pods)) == ("Starting", 4)


def test_a_task_that_has_succeeded_counts_as_ready() -> None:
    cluster = ordered().settle().succeed("x-learner-0").run("x-learner-1").settle()
    assert "x-collector-1" in cluster.pods


def test_pods_that_start_first_know_where_the_others_will_be() -> None:
    cluster = ordered().settle().run().settle()
    first = cluster.env("x-learner-0")
    assert first["DI_RANK"] == "2"
    for rank, name in enumerate(first["DI_NODES"].split(",")):
        assert cluster.env(name.partition(".")[0])["DI_RANK"] == str(rank)


def test_a_failure_while_others_wait_is_counted_and_repaired() -> None:
    cluster = ordered().settle().fail("x-learner-0").settle().run().settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Starting", 1)


def test_a_quota_refusal_is_retried_with_exponential_backoff() -> None:
    cluster = ClusterModel(job())
    cluster.refuse_pods = QUOTA
    cluster.reconcile()
    assert cluster.condition("Pending")["message"] == QUOTA.message
    tries = []
    for _ in range(600):
        cluster.pass_time(1)
        before = cluster.writes.count("status")
        cluster.reconcile()
        if cluster.writes.count("status") > before:
            tries.append(int((cluster.now.minute * 60) + cluster.now.second))
    pauses = [later - sooner for sooner, later in pairwise(tries)]
    assert (tries[0], pauses, max(pauses)) == (2, sorted(pauses), 60)
    assert len(tries) < 20
    assert not any(write.startswith("delete") for write in cluster.writes)


def test_a_job_goes_on_when_quota_is_there_again() -> None:
    cluster = ClusterModel(job())
    cluster.refuse_pods = QUOTA
    cluster.reconcile()
    cluster.refuse_pods = None
    early = cluster.reconcile()
    assert (early.actions, early.requeue_after) == ((), 2.0)
    cluster.pass_time(2).reconcile()
    assert (cluster.phase, len(cluster.pods)) == ("Starting", 4)


def test_pods_that_come_and_go_do_not_put_off_the_next_try() -> None:
    cluster = running().fail("x-learner-0")
    cluster.refuse_pods = QUOTA
    for _ in range(4):
        cluster.reconcile()
    tries = cluster.events.count(cluster.events[-1])
    for second in range(300):
        cluster.pass_time(1)
        cluster._set("x-collector-0", {"phase": "Running" if second % 24 < 12 else "Pending"})
        cluster.reconcile()
    assert cluster.events.count(cluster.events[-1]) >= tries + 7


def test_a_replacement_over_quota_makes_a_running_job_wait() -> None:
    cluster = running().fail("x-learner-0")
    cluster.refuse_pods = QUOTA
    for _ in range(4):
        cluster.reconcile()
    assert (cluster.phase, cluster.status["restarts"]) == ("Pending", 1)
    assert len(cluster.pods) == 3


@pytest.mark.proves("events.md#of-its-life/createforbidden")
def test_pods_forbidden_by_admission_are_tried_again_too() -> None:
    cluster = ClusterModel(job())
    cluster.refuse_pods = CreateForbidden(message="violates PodSecurity restricted")
    cluster.reconcile()
    assert cluster.phase == "Pending"
    assert cluster.condition("Pending")["reason"] == "CreateForbidden"
    assert (cluster.events[-1].type, cluster.decide().requeue_after) == ("Warning", 2.0)


@pytest.mark.proves("dijob.md#what-may-change/while-the-job-exists")
def test_a_job_starts_with_the_template_that_was_corrected_while_it_was_suspended() -> None:
    cluster = ClusterModel(job(task("learner"), suspend=True)).settle()
    assert cluster.phase == "Pending"
    tasks = copy.deepcopy(cluster.job["spec"]["tasks"])
    tasks[0]["template"]["spec"]["containers"][0]["image"] = "corrected"
    # The webhook takes it: no condition says that the job has had pods.
    new = {**cluster.job, "spec": {**cluster.job["spec"], "tasks": tasks}}
    assert validate_update(cluster.job, new) == []
    cluster.edit(tasks=tasks).settle()
    cluster.edit(suspend=False).settle()
    pod = cluster.objects["Pod", "x-learner-0"]
    assert pod["spec"]["containers"][0]["image"] == "corrected"
    tasks = copy.deepcopy(tasks)
    tasks[0]["template"]["spec"]["containers"][0]["image"] = "late"
    for suspend in (False, True):
        cluster.edit(suspend=suspend).settle()
        late = {**cluster.job, "spec": {**cluster.job["spec"], "tasks": tasks}}
        assert validate_update(cluster.job, late)
