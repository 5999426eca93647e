"""A job whose learners wait for most of the time, and gets fewer of them."""

from __future__ import annotations

from typing import Any

import pytest

from di_kube.resources import DIJOBS
from di_operator.lifecycle.vocabulary.actions import Patch
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.failures.idle_jobs import (
    EVERY,
    POLICY,
    belongs_to_multikueue,
    events,
    is_idle,
    waits,
)

LEARNERS = task("learner", 4, minReplicas=2)


def elastic(*tasks: Any, **spec: Any) -> ClusterModel:
    """A job with more learners than its minimum, of an operator that may scale it down."""
    policy = {**POLICY, "action": "ScaleDown"}
    cluster = running(*(tasks or (LEARNERS, task("collector", 2))), idlePolicy=policy, **spec)
    cluster.scale_down_idle_jobs = True
    return cluster.wait(60)


def replicas(cluster: ClusterModel) -> list[int]:
    return [each["replicas"] for each in cluster.job["spec"]["tasks"]]


def pods_end(cluster: ClusterModel) -> None:
    cluster.end_deleted().settle()
    assert cluster.phase == "Running"


@pytest.mark.proves(
    "dijob.md#spec/idlepolicy-action",
    "lifecycle.md#fewer-learners",
    "history.md#jobs-that-wait",
    "operations.md#values/operator-scaledownidlejobs",
)
def test_action_scale_down_removes_one_learner_for_each_window() -> None:
    cluster = waits(elastic(), 540)
    assert replicas(cluster) == [4, 2]
    cluster.pass_time(EVERY).report(learnerWaitFrac=0.9).reconcile()
    # The condition is written first.
    condition = cluster.condition("Idle")
    assert (condition["status"], condition["reason"]) == ("True", "ScaledDownByPolicy")
    assert condition["message"].endswith(
        "600 seconds; its idlePolicy scales task learner down from 4 to 3 replicas"
    )
    assert replicas(cluster) == [4, 2]
    cluster.settle()
    assert (replicas(cluster), cluster.ending, cluster.phase) == (
        [3, 2],
        ["x-learner-3"],
        "Running",
    )
    assert (cluster.writes.count("patch DIJob x"), events(cluster)) == (1, 1)
    pods_end(cluster)
    # Until the next report, from which the next step needs a whole window.
    assert is_idle(cluster.wait(EVERY))
    assert "idleSince" not in cluster.status
    waits(cluster, 540)
    assert (replicas(cluster), is_idle(cluster)) == ([3, 2], False)
    waits(cluster.wait(EVERY), 0)
    assert (replicas(cluster), events(cluster)) == ([2, 2], 2)
    pods_end(cluster)
    waits(cluster, 7200)
    assert (replicas(cluster), cluster.status["restarts"]) == ([2, 2], 0)
    condition = cluster.condition("Idle")
    assert (condition["status"], condition["reason"]) == ("True", "LearnersWait")
    assert condition["message"].endswith(
        "it runs on: none of its learner tasks can have fewer replicas"
    )


@pytest.mark.proves("lifecycle.md#fewer-learners")
def test_a_job_that_waits_less_with_fewer_learners_keeps_them() -> None:
    cluster = waits(elastic(), 600)
    pods_end(cluster)
    waits(cluster, 7200, share=0.79)
    assert (replicas(cluster), is_idle(cluster)) == ([3, 2], False)


def test_the_condition_of_a_step_ends_when_the_reports_stop() -> None:
    cluster = waits(elastic(), 600)
    pods_end(cluster)
    assert cluster.decide().requeue_after == 600
    assert is_idle(cluster.wait(599))
    assert not is_idle(cluster.wait(1))


def test_no_job_is_scaled_down_without_fresh_reports() -> None:
    cluster = waits(elastic(), 540)
    for _ in range(20):
        cluster.wait(60).report(envSteps=5).settle()
    assert replicas(cluster) == [4, 2]


def test_a_newer_spec_is_not_scaled_down_by_an_older_window() -> None:
    cluster = waits(elastic(), 540)
    cluster.pass_time(EVERY).report(learnerWaitFrac=0.9).reconcile()
    assert is_idle(cluster)
    # A user scales the collectors before the operator has scaled the learners.
    cluster.scale("collector", 4).settle()
    assert replicas(cluster) == [4, 4]
    assert not is_idle(cluster)


def test_the_learner_task_with_the_most_spare_replicas_is_scaled_down() -> None:
    critic = task("critic", 5, type="learner", minReplicas=1)
    fixed = task("fixed", 9, type="learner")
    cluster = waits(elastic(LEARNERS, fixed, critic, task("collector", 9, minReplicas=1)), 600)
    assert replicas(cluster) == [4, 9, 4, 9]


@pytest.mark.parametrize(("vacant", "left"), [([0], [0]), ([3], None)])
def test_vacant_indexes_stay_as_after_any_scaling(vacant: list[int], left: Any) -> None:
    cluster = waits(elastic({**LEARNERS, "vacant": vacant}), 600)
    (learner,) = cluster.job["spec"]["tasks"]
    assert (learner["replicas"], learner.get("vacant"), learner["minReplicas"]) == (3, left, 2)
    assert cluster.ending == ["x-learner-4"]


GROUP = {"framework": "torch"}
UNSCALED = "none of its learner tasks can have fewer replicas"


@pytest.mark.proves("lifecycle.md#fewer-learners")
@pytest.mark.parametrize(
    "learner",
    [
        task("learner", 4),
        {**LEARNERS, "scalable": True, "maxReplicas": 4},
        {**LEARNERS, "processGroup": GROUP},
        task("trainer", 4, minReplicas=1, type="none"),
    ],
    ids=["no minimum", "an autoscaler's", "a group of fixed size", "no learner"],
)
def test_tasks_that_cannot_lose_a_replica_are_not_scaled_down(learner: Any) -> None:
    learner = {**learner, "name": "other"}
    # Another learner task has its minimum already: without one the policy is refused.
    cluster = waits(elastic(learner, task("learner", minReplicas=1)), 1200)
    assert replicas(cluster) == [4, 1]
    assert cluster.condition("Idle")["message"].endswith(UNSCALED)


def test_the_allocator_alone_chooses_the_learners_of_a_preemptible_job() -> None:
    cluster = ClusterModel(job(LEARNERS, preemptible=True)).place(learner="a b c d").settle()
    cluster.run().settle()
    cluster.scale_down_idle_jobs = True
    # Admission refuses this, and did not see it.
    cluster.edit(idlePolicy={**POLICY, "action": "ScaleDown"}).settle()
    assert replicas(waits(cluster.wait(60), 1200)) == [4]
    assert cluster.condition("Idle")["message"].endswith(UNSCALED)


def test_an_elastic_process_group_is_scaled_down() -> None:
    group = {**GROUP, "elastic": True}
    assert replicas(waits(elastic({**LEARNERS, "maxReplicas": 4, "processGroup": group}), 600)) == [
        3
    ]


@pytest.mark.proves("operations.md#values/operator-scaledownidlejobs")
@pytest.mark.parametrize("is_of_multikueue", [False, True])
def test_an_operator_that_may_not_scale_only_reports(is_of_multikueue: bool) -> None:
    cluster = elastic()
    cluster.scale_down_idle_jobs = is_of_multikueue
    cluster.suspend_idle_jobs = True
    if is_of_multikueue:
        belongs_to_multikueue(cluster)
    waits(cluster, 1200)
    condition = cluster.condition("Idle")
    assert (condition["reason"], replicas(cluster)) == ("LearnersWait", [4, 2])
    assert "this operator may not scale it" in condition["message"]


def test_the_step_is_refused_for_any_other_version_of_the_job() -> None:
    cluster = waits(elastic(), 540)
    cluster.pass_time(EVERY).report(learnerWaitFrac=0.9).reconcile()
    (patch,) = cluster.decide().actions
    assert isinstance(patch, Patch)
    assert (patch.resource, patch.resource_version) == (
        DIJOBS,
        cluster.job["metadata"]["resourceVersion"],
    )
