"""Jobs whose pods do not come up, and tasks that are active for too long."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.write_errors import QuotaExceeded
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

WORDS = "0/3 nodes are available: 3 Insufficient memory."


def pending(*tasks: Any, **spec: Any) -> ClusterModel:
    cluster = ClusterModel(job(*tasks, **{"pendingTimeoutSeconds": 600, **spec}))
    return cluster.settle()


def left(cluster: ClusterModel) -> float:
    """Seconds until the time-out, by what the operator asks for."""
    delay = cluster.decide().requeue_after
    assert delay is not None
    return delay


@pytest.mark.proves(
    "lifecycle.md#time/pendingtimeoutseconds",
    "dijob.md#spec/pendingtimeoutseconds",
    "events.md#of-its-life/pendingtimeout",
)
def test_an_unschedulable_pod_fails_the_job_after_the_pending_timeout() -> None:
    cluster = pending(task("learner", 2))
    assert cluster.condition("BelowMinimum")["status"] == "True"
    cluster.run("x-learner-0").refuse("x-learner-1", WORDS)
    cluster.wait(599 - (600 - left(cluster)))
    assert (cluster.phase, left(cluster)) == ("Starting", 1)
    cluster.wait(1)
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert failed["message"] == (
        "task learner has 1 of at least 2 pods ready for 600 seconds; "
        f"1 of 2 pods cannot run, x-learner-1 first: {WORDS}"
    )
    assert Reason.PENDING_TIMEOUT in [event.reason for event in cluster.events]


def test_ready_pods_at_the_minimum_or_succeeded_pods_are_enough() -> None:
    cluster = pending(task("learner"), task("collector", 4, minReplicas=2))
    cluster.run("x-collector-0", "x-collector-1").succeed("x-learner-0").settle()
    assert cluster.condition("BelowMinimum")["status"] == "False"
    cluster.wait(10_000)
    assert cluster.phase == "Starting"


@pytest.mark.proves("lifecycle.md#time/pendingtimeoutseconds")
def test_the_timeout_starts_again_when_a_job_falls_below_its_minimum() -> None:
    cluster = running(task("learner", 2), pendingTimeoutSeconds=600).wait(5000)
    cluster.say("x-learner-0", phase="Running").settle()
    assert cluster.condition("BelowMinimum")["message"] == (
        "task learner has fewer pods ready than its minimum, 2"
    )
    cluster.wait(599)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


@pytest.mark.parametrize("placement", [{}, None], ids=["preemptible", "gang"])
def test_the_pending_timeout_counts_while_a_grant_is_withdrawn(placement: Any) -> None:
    gang = {"preemptible": True} if placement == {} else {"scheduling": {"gang": True}}
    cluster = ClusterModel(job(task("learner", 2), **gang, pendingTimeoutSeconds=600))
    cluster.grant = Grant(
        placement=placement, reason=Reason.GRANT_WITHDRAWN, message="the grant was withdrawn: no"
    )
    cluster.settle().wait(599)
    pending = cluster.condition("Pending")
    assert (pending["reason"], pending["message"]) == (
        "GrantWithdrawn",
        "the grant was withdrawn: no",
    )
    assert (cluster.phase, cluster.pods) == ("Pending", {})
    cluster.wait(1)
    assert cluster.phase == "Failed"
    assert "the grant was withdrawn: no" in cluster.condition("Failed")["message"]


def failing_every(seconds: int, *, for_seconds: int) -> ClusterModel:
    """A job whose only collector, which may be restarted for ever, runs for so long each time."""
    cluster = running(task("learner"), task("collector", backoffLimit="Unlimited"))
    began = cluster.now
    while cluster.phase != "Failed" and (cluster.now - began).total_seconds() < for_seconds:
        cluster.run("x-collector-0").wait(seconds)
        cluster.fail("x-collector-0").wait(0).wait(310)
    return cluster


def test_an_unlimited_task_that_fails_for_an_hour_fails_the_job() -> None:
    cluster = failing_every(20, for_seconds=8000)
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert "task collector has 0 of at least 1 pod ready for 3600 seconds" in failed["message"]


def test_an_unlimited_task_with_rare_failures_runs_on() -> None:
    assert failing_every(2000, for_seconds=30_000).phase != "Failed"


def test_a_replica_is_up_again_once_it_has_run_for_as_long_as_its_back_off() -> None:
    cluster = running(task("collector", backoffLimit="Unlimited"))
    cluster.fail("x-collector-0").wait(0).run().fail("x-collector-0").wait(0).wait(11)
    cluster.run().settle()
    assert cluster.condition("BelowMinimum")["status"] == "True"
    assert left(cluster) < 60
    cluster.wait(left(cluster))
    assert cluster.condition("BelowMinimum")["status"] == "False"


def test_restarts_do_not_reset_the_pending_timeout() -> None:
    cluster = pending(task("learner"), backoffLimit=100)
    for _ in range(6):
        cluster.fail("x-learner-0").wait(90)
    assert cluster.phase != "Failed"
    cluster.fail("x-learner-0").wait(90)
    assert cluster.condition("Failed")["reason"] == "PendingTimeout"


def test_a_dependent_task_has_no_pending_timeout_of_its_own() -> None:
    cluster = pending(task("learner"), task("collector", 2, dependsOn=["learner"]))
    cluster.wait(600)
    assert cluster.condition("Failed")["message"].startswith(
        "task learner has 0 of at least 1 pod ready"
    )


def test_the_pending_timeout_does_not_run_during_suspension() -> None:
    cluster = pending(task("learner"), suspend=True).wait(10_000)
    assert cluster.phase == "Pending"
    cluster.edit(suspend=False).settle().wait(590)
    assert cluster.phase == "Starting"


@pytest.mark.parametrize("preemptible", [True, False], ids=["shared", "gang"])
def test_the_pending_timeout_does_not_run_without_assigned_nodes(preemptible: bool) -> None:
    cluster = ClusterModel(job(task("learner"), preemptible=preemptible, pendingTimeoutSeconds=600))
    placement: dict[str, tuple[str, ...]] | None = {} if preemptible else None
    cluster.grant = Grant(
        placement=placement, reason=Reason.WAITING_FOR_NODES, message="others have the room"
    )
    cluster.settle().wait(10_000)
    assert cluster.phase == "Pending"


def test_a_quota_refusal_is_named_in_the_pending_timeout() -> None:
    cluster = ClusterModel(job(task("learner"), pendingTimeoutSeconds=600))
    cluster.refuse_pods = QuotaExceeded(message="exceeded quota: compute")
    cluster.reconcile()
    for _ in range(10):
        cluster.pass_time(60).reconcile()
    assert cluster.condition("Failed")["message"].endswith("seconds; exceeded quota: compute")


def test_without_a_pending_timeout_a_job_waits_without_end() -> None:
    cluster = ClusterModel(job(task("learner"))).settle().wait(1_000_000)
    assert cluster.phase == "Starting"
    assert "BelowMinimum" not in [one["type"] for one in cluster.status["conditions"]]


def test_only_the_coordinator_counts_for_a_coordinated_jobs_timeout() -> None:
    body = job(pendingTimeoutSeconds=600)
    del body["spec"]["tasks"]
    template = task("learner")["template"]
    body["spec"]["coordinated"] = {
        "coordinator": {"template": template},
        "collector": {"template": template},
        "replicas": [{"name": "x-collector-a", "role": "collector"}],
    }
    cluster = ClusterModel(body).settle().run("x-coordinator")
    cluster.refuse("x-collector-a", WORDS).settle().wait(10_000)
    assert cluster.phase == "Running"
    cluster.refuse("x-coordinator", WORDS).settle().wait(600)
    assert cluster.condition("Failed")["reason"] == "PendingTimeout"
    assert WORDS in cluster.condition("Failed")["message"]


@pytest.mark.proves(
    "lifecycle.md#time/tasks-activedeadlineseconds",
    "dijob.md#spec-tasks/activedeadlineseconds",
    "events.md#of-its-life/deadlineexceeded",
)
def test_a_task_over_its_active_deadline_fails_the_job() -> None:
    cluster = running(
        task("learner"), task("collector", activeDeadlineSeconds=100), activeDeadlineSeconds=300
    )
    # By whole seconds, as the start is.
    passed = 100 - left(cluster)
    cluster.wait(99 - passed)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"
    assert cluster.condition("Failed")["message"] == (
        "task collector was active for longer than 100 seconds"
    )


def test_a_succeeded_task_has_no_active_deadline() -> None:
    cluster = running(
        task("learner"), task("collector", activeDeadlineSeconds=100), activeDeadlineSeconds=300
    )
    cluster.succeed("x-collector-0").wait(200)
    assert cluster.phase == "Running"
    cluster.wait(100)
    assert cluster.condition("Failed")["message"] == "active for longer than 300 seconds"


def test_a_suspension_resets_the_active_deadline_of_a_task() -> None:
    cluster = running(task("learner", activeDeadlineSeconds=100)).edit(suspend=True)
    cluster.settle().wait(200)
    cluster.end().edit(suspend=False).settle().wait(90)
    assert cluster.phase == "Starting"
    cluster.wait(10)
    assert cluster.phase == "Failed"
