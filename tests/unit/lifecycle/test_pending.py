"""Jobs whose pods do not come up, and tasks that are active for too long."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.faults import QuotaExceeded
from di_operator.lifecycle.placement import Grant
from di_operator.lifecycle.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

WORDS = "0/3 nodes are available: 3 Insufficient memory."


def pending(*tasks: Any, **spec: Any) -> ClusterModel:
    cluster = ClusterModel(job(*tasks, **{"pendingTimeoutSeconds": 600, **spec}))
    cluster.settle()
    return cluster


def left(cluster: ClusterModel) -> float:
    """Seconds until the time-out, by what the operator asks for."""
    delay = cluster.decide().requeue_after
    assert delay is not None
    return delay


def test_a7_a_pod_that_fits_no_node_fails_the_job_with_the_schedulers_words() -> None:
    cluster = pending(task("learner", 2))
    assert cluster.condition("BelowMinimum")["status"] == "True"
    cluster.run("x-learner-0")
    cluster.refuse("x-learner-1", WORDS)
    cluster.wait(599 - (600 - left(cluster)))
    assert cluster.phase == "Starting"
    assert left(cluster) == 1
    cluster.wait(1)
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert failed["message"] == (
        "task learner has 1 of at least 2 pods ready for 600 seconds; "
        f"1 of 2 pods cannot run, x-learner-1 first: {WORDS}"
    )
    assert Reason.PENDING_TIMEOUT in [event.reason for event in cluster.events]


def test_it_is_enough_to_have_the_minimum_or_to_have_succeeded() -> None:
    cluster = pending(task("learner"), task("collector", 4, minReplicas=2))
    cluster.run("x-collector-0", "x-collector-1")
    cluster.succeed("x-learner-0")
    cluster.settle()
    assert cluster.condition("BelowMinimum")["status"] == "False"
    cluster.wait(10_000)
    assert cluster.phase == "Starting"


def test_a_job_that_falls_below_its_minimum_later_has_the_whole_time_again() -> None:
    cluster = running(task("learner", 2), pendingTimeoutSeconds=600)
    cluster.wait(5000)
    cluster.say("x-learner-0", phase="Running")
    cluster.settle()
    assert cluster.condition("BelowMinimum")["message"] == (
        "task learner has fewer pods ready than its minimum, 2"
    )
    cluster.wait(599)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


def failing_every(seconds: int, *, for_seconds: int) -> ClusterModel:
    """A job whose only collector, which may be restarted for ever, runs for so long each time."""
    cluster = running(task("learner"), task("collector", backoffLimit="Unlimited"))
    began = cluster.now
    while cluster.phase != "Failed" and (cluster.now - began).total_seconds() < for_seconds:
        cluster.run("x-collector-0")
        cluster.wait(seconds)
        cluster.fail("x-collector-0")
        cluster.wait(0)
        cluster.wait(310)
    return cluster


def test_a_task_without_a_limit_that_fails_for_an_hour_fails_the_job() -> None:
    cluster = failing_every(20, for_seconds=8000)
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert "task collector has 0 of at least 1 pod ready for 3600 seconds" in failed["message"]


def test_a_task_without_a_limit_may_fail_now_and_then_for_ever() -> None:
    assert failing_every(2000, for_seconds=30_000).phase != "Failed"


def test_the_time_goes_on_through_restarts() -> None:
    cluster = pending(task("learner"), backoffLimit=100)
    for _ in range(6):
        cluster.fail("x-learner-0")
        cluster.wait(90)
    assert cluster.phase != "Failed"
    cluster.fail("x-learner-0")
    cluster.wait(90)
    assert cluster.condition("Failed")["reason"] == "PendingTimeout"


def test_a_task_that_waits_for_another_is_not_judged_and_the_other_is() -> None:
    cluster = pending(task("learner"), task("collector", 2, dependsOn=["learner"]))
    cluster.wait(600)
    assert cluster.condition("Failed")["message"].startswith(
        "task learner has 0 of at least 1 pod ready"
    )


def test_a_suspended_job_is_not_judged() -> None:
    cluster = pending(task("learner"), suspend=True)
    cluster.wait(10_000)
    assert cluster.phase == "Pending"
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.wait(590)
    assert cluster.phase == "Starting"


@pytest.mark.parametrize("preemptible", [True, False], ids=["shared", "gang"])
def test_a_job_that_waits_for_nodes_is_not_judged(preemptible: bool) -> None:
    cluster = ClusterModel(job(task("learner"), preemptible=preemptible, pendingTimeoutSeconds=600))
    placement: dict[str, tuple[str, ...]] | None = {} if preemptible else None
    cluster.grant = Grant(
        placement=placement, reason=Reason.WAITING_FOR_NODES, message="others have the room"
    )
    cluster.settle()
    cluster.wait(10_000)
    assert cluster.phase == "Pending"


def test_a_job_that_is_refused_by_a_quota_is_judged_and_says_so() -> None:
    cluster = ClusterModel(job(task("learner"), pendingTimeoutSeconds=600))
    cluster.refuse_pods = QuotaExceeded(message="exceeded quota: compute")
    cluster.reconcile()
    for _ in range(10):
        cluster.pass_time(60)
        cluster.reconcile()
    assert cluster.condition("Failed")["message"].endswith("seconds; exceeded quota: compute")


def test_a_job_without_the_field_waits_for_ever() -> None:
    cluster = ClusterModel(job(task("learner")))
    cluster.settle()
    cluster.wait(1_000_000)
    assert cluster.phase == "Starting"
    assert "BelowMinimum" not in [one["type"] for one in cluster.status["conditions"]]


def test_of_a_coordinated_job_its_coordinator_is_the_minimum() -> None:
    body = job(pendingTimeoutSeconds=600)
    del body["spec"]["tasks"]
    template = task("learner")["template"]
    body["spec"]["coordinated"] = {
        "coordinator": {"template": template},
        "collector": {"template": template},
        "replicas": [{"name": "x-collector-a", "role": "collector"}],
    }
    cluster = ClusterModel(body)
    cluster.settle()
    cluster.run("x-coordinator")
    cluster.refuse("x-collector-a", WORDS)
    cluster.settle()
    cluster.wait(10_000)
    assert cluster.phase == "Running"
    cluster.refuse("x-coordinator", WORDS)
    cluster.settle()
    cluster.wait(600)
    assert cluster.condition("Failed")["reason"] == "PendingTimeout"
    assert WORDS in cluster.condition("Failed")["message"]


def test_a_task_that_is_active_for_too_long_fails_the_job() -> None:
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


def test_a_task_that_has_succeeded_is_not_late() -> None:
    cluster = running(
        task("learner"), task("collector", activeDeadlineSeconds=100), activeDeadlineSeconds=300
    )
    cluster.succeed("x-collector-0")
    cluster.wait(200)
    assert cluster.phase == "Running"
    cluster.wait(100)
    assert cluster.condition("Failed")["message"] == "active for longer than 300 seconds"


def test_the_time_of_a_task_begins_anew_after_a_suspension() -> None:
    cluster = running(task("learner", activeDeadlineSeconds=100))
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.wait(200)
    for name in list(cluster.pods):
        cluster.end(name)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.wait(90)
    assert cluster.phase == "Starting"
    cluster.wait(10)
    assert cluster.phase == "Failed"
