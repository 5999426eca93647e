"""How a job with a success policy ends: the rows B of the acceptance scenarios."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.actions import Delete
from di_operator.lifecycle.reasons import Reason
from di_operator.lifecycle.timestamps import parse_time
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task

POLICY = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30}
TASKS = (task("learner"), task("collector", 8), task("evaluator"))
LEARNER = "x-learner-0"
OTHERS = {"x-evaluator-0", *(f"x-collector-{index}" for index in range(8))}


def training(**policy: Any) -> ClusterModel:
    return running(*TASKS, successPolicy={**POLICY, **policy})


def end_others(cluster: ClusterModel) -> None:
    """The kubelet ends what is deleted."""
    for name, pod in cluster.pods.items():
        if "deletionTimestamp" in pod["metadata"]:
            cluster.end(name)


def test_b1_others_that_end_within_the_grace_period_end_the_job() -> None:
    cluster = training()
    cluster.succeed(LEARNER)
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

    end_others(cluster)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert cluster.condition("Succeeded")["message"] == "task learner succeeded"
    assert [*cluster.pods] == [LEARNER]


def test_b2_others_that_run_on_do_not_hold_it_up_for_longer() -> None:
    cluster = training()
    cluster.succeed(LEARNER)
    cluster.settle()
    cluster.pass_time(20)
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.pass_time(10)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert all("deletionTimestamp" in cluster.pods[name]["metadata"] for name in OTHERS)


def test_b3_a_failure_within_the_grace_period_is_none() -> None:
    cluster = training()
    cluster.succeed(LEARNER)
    cluster.fail("x-collector-0", code=143)
    cluster.settle()
    cluster.fail("x-collector-1", code=1)
    end_others(cluster)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (0, 0)


def test_b4_a_learner_that_fails_goes_by_the_rules_of_failures() -> None:
    cluster = training()
    cluster.fail(LEARNER, code=1)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert cluster.status["restarts"] == 1


@given(crash_after=st.integers(0, 12), passed=st.integers(0, 40))
def test_b5_an_operator_that_dies_leaves_the_same_end_at_the_same_time(
    crash_after: int, passed: int
) -> None:
    cluster = training()
    cluster.succeed(LEARNER)
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
    cluster.pass_time(max(0, left))
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert cluster.status["restarts"] == cluster.status["reschedules"] == 0


def test_b6_a_job_without_a_policy_needs_all_its_tasks() -> None:
    cluster = running(task("collector", 2), task("evaluator"))
    cluster.succeed("x-evaluator-0", "x-collector-0")
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.succeed("x-collector-1")
    cluster.settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize(("operator", "phase"), [("Any", "Succeeded"), ("All", "Running")])
def test_b7_any_of_two_tasks(operator: str, phase: str) -> None:
    cluster = training(tasks=["learner", "evaluator"], operator=operator)
    cluster.succeed("x-evaluator-0")
    cluster.settle()
    end_others(cluster)
    cluster.settle()
    assert cluster.phase == phase


def test_b8_a_job_of_before_needs_all_its_tasks() -> None:
    cluster = running(*TASKS)
    cluster.succeed(LEARNER)
    cluster.pass_time(600)
    cluster.settle()
    assert cluster.phase == "Running"
    assert len(cluster.pods) == 10


def test_without_a_grace_period_the_clean_up_policy_decides() -> None:
    cluster = training(gracePeriodSeconds=0)
    cluster.edit(cleanPodPolicy="None")
    cluster.succeed(LEARNER)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert not any("deletionTimestamp" in pod["metadata"] for pod in cluster.pods.values())


def test_a_job_that_is_over_is_neither_late_nor_suspended_nor_scaled() -> None:
    cluster = running(*TASKS, successPolicy=POLICY, activeDeadlineSeconds=100)
    cluster.pass_time(90)
    cluster.succeed(LEARNER)
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.scale("collector", 20)
    cluster.pass_time(20)
    cluster.settle()
    assert cluster.phase == "Running"
    end_others(cluster)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert [*cluster.pods] == [LEARNER]


def test_a_learner_that_is_gone_meanwhile_has_succeeded_all_the_same() -> None:
    cluster = training()
    cluster.succeed(LEARNER)
    cluster.settle()
    cluster.delete_pod(LEARNER, force=True)
    end_others(cluster)
    cluster.settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize("wait_for", ["collector", "learner"])
def test_a_job_some_of_whose_pods_never_ran_can_be_over(wait_for: str) -> None:
    tasks = (task("learner"), task("collector"), task("evaluator", dependsOn=[wait_for]))
    cluster = ClusterModel(job(*tasks, successPolicy=POLICY))
    cluster.settle()
    cluster.succeed(LEARNER)
    cluster.settle()
    end_others(cluster)
    cluster.settle()
    assert cluster.phase == "Succeeded"
