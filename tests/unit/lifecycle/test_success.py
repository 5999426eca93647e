"""How a job with a success policy ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.vocabulary.actions import Delete
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task

POLICY = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30}
TASKS = (task("learner"), task("collector", 8), task("evaluator"))
LEARNER = "x-learner-0"
OTHERS = {"x-evaluator-0", *(f"x-collector-{index}" for index in range(8))}


def training(**policy: Any) -> ClusterModel:
    return running(*TASKS, successPolicy={**POLICY, **policy})


@pytest.mark.proves(
    "lifecycle.md#success",
    "dijob.md#spec/successpolicy-graceperiodseconds",
    "events.md#of-its-life/successcriteriamet",
)
def test_the_job_succeeds_when_the_other_pods_have_ended() -> None:
    cluster = training().succeed(LEARNER)
    announced = cluster.reconcile()
    met = cluster.condition("SuccessCriteriaMet")
    assert (met["status"], met["reason"]) == ("True", "TasksSucceeded")
    assert met["message"] == "task learner succeeded; 9 other pods to end within 30 seconds"
    # Written before anything is deleted: the pods that prove it may go with a node.
    assert announced.actions == ()
    assert cluster.events[-1].reason is Reason.SUCCESS_CRITERIA_MET
    cluster.pass_time(1)
    told = [a for a in cluster.reconcile().actions if isinstance(a, Delete)]
    assert {action.name for action in told} == OTHERS
    assert {action.grace_period_seconds for action in told} == {29}
    assert cluster.phase == "Running"
    cluster.end_deleted().settle()
    assert cluster.phase == "Succeeded"
    assert cluster.condition("Succeeded")["message"] == "task learner succeeded"
    assert [*cluster.pods] == [LEARNER]


@pytest.mark.proves("lifecycle.md#checkpoints/other-tasks-of-the-success-policy-have")
def test_the_job_succeeds_at_the_end_of_the_grace_period() -> None:
    cluster = training().succeed(LEARNER).settle().pass_time(20).settle()
    assert (cluster.phase, cluster.decide().requeue_after) == ("Running", 10)
    cluster.pass_time(10).settle()
    assert cluster.phase == "Succeeded"
    assert all("deletionTimestamp" in cluster.pods[name]["metadata"] for name in OTHERS)


def test_failures_within_the_grace_period_are_not_counted() -> None:
    cluster = training().succeed(LEARNER).fail("x-collector-0", code=143).settle()
    cluster.fail("x-collector-1", code=1).end_deleted().settle()
    assert (cluster.phase, cluster.counts) == ("Succeeded", (0, 0))


@given(crash_after=st.integers(0, 12), passed=st.integers(0, 40))
def test_an_operator_crash_does_not_move_the_end_of_the_grace_period(
    crash_after: int, passed: int
) -> None:
    cluster = training().succeed(LEARNER)
    for moment in (0, passed):
        cluster.pass_time(moment)
        try:
            cluster.reconcile(crash_after=crash_after)
        except Crash:
            continue
    cluster.settle()
    begun = parse_time(cluster.condition("SuccessCriteriaMet")["lastTransitionTime"])
    assert begun is not None
    left = 30 - (cluster.now - begun).total_seconds()
    assert cluster.phase == ("Running" if left > 0 else "Succeeded")
    cluster.pass_time(max(0, left)).settle()
    assert cluster.phase == "Succeeded"
    assert cluster.status["restarts"] == cluster.status["reschedules"] == 0


@pytest.mark.proves(
    "dijob.md#spec/successpolicy-operator",
    "dijob.md#spec/successpolicy-tasks",
    "teams.md#feature-by-feature/policies-of-a-job",
)
@pytest.mark.parametrize(("operator", "phase"), [("Any", "Succeeded"), ("All", "Running")])
def test_one_task_is_enough_for_any_and_not_for_all(operator: str, phase: str) -> None:
    cluster = training(tasks=["learner", "evaluator"], operator=operator)
    cluster.succeed("x-evaluator-0").settle().end_deleted().settle()
    assert cluster.phase == phase


def test_with_a_grace_period_of_zero_the_clean_up_policy_decides() -> None:
    cluster = training(gracePeriodSeconds=0).edit(cleanPodPolicy="None")
    cluster.succeed(LEARNER).settle()
    assert cluster.phase == "Succeeded"
    assert not cluster.ending


def test_a_job_that_met_its_policy_is_not_suspended_scaled_or_late() -> None:
    cluster = running(*TASKS, successPolicy=POLICY, activeDeadlineSeconds=100)
    cluster.pass_time(90).succeed(LEARNER).settle()
    cluster.edit(suspend=True).scale("collector", 20).pass_time(20).settle()
    assert cluster.phase == "Running"
    cluster.end_deleted().settle()
    assert (cluster.phase, [*cluster.pods]) == ("Succeeded", [LEARNER])


def test_a_succeeded_learner_may_vanish_in_the_grace_period() -> None:
    cluster = training().succeed(LEARNER).settle().delete_pod(LEARNER, force=True)
    cluster.end_deleted().settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize("wait_for", ["collector", "learner"])
def test_a_policy_can_be_met_before_all_pods_have_run(wait_for: str) -> None:
    tasks = (task("learner"), task("collector"), task("evaluator", dependsOn=[wait_for]))
    cluster = ClusterModel(job(*tasks, successPolicy=POLICY)).settle().succeed(LEARNER)
    cluster.settle().end_deleted().settle()
    assert cluster.phase == "Succeeded"
