"""A job whose learners wait for most of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, running
from tests.unit.lifecycle.failures.idle_jobs import (
    EVERY,
    POLICY,
    TASKS,
    belongs_to_multikueue,
    events,
    is_idle,
    training,
    waits,
)


def is_suspended(cluster: ClusterModel) -> bool:
    return bool(cluster.job["spec"].get("suspend"))


@pytest.mark.proves(
    "lifecycle.md#idle-jobs",
    "lifecycle.md#time/idlepolicy",
    "history.md#jobs-that-wait",
    "events.md#of-problems/idle",
    "dijob.md#spec/idlepolicy-waitingshare",
    "dijob.md#spec/idlepolicy-seconds",
    "dijob.md#status/idlesince",
)
def test_learners_that_wait_for_the_whole_window_set_idle() -> None:
    cluster = training()
    pods = cluster.pods
    waits(cluster, 540, share=0.8)
    assert not is_idle(cluster)
    assert cluster.status["idleSince"] == "2026-01-01T12:01:00Z"
    waits(cluster.wait(EVERY), 0, share=0.8)
    condition = cluster.condition("Idle")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "LearnersWait",
        "the learners have waited for 80 percent of the time or more since 2026-01-01T12:01:00Z, "
        "for longer than 600 seconds",
    )
    waits(cluster, 1200)
    assert (events(cluster), cluster.phase, cluster.pods) == (1, "Running", pods)
    waits(cluster, 0, share=0.79)
    assert not is_idle(cluster)
    assert "idleSince" not in cluster.status
    waits(cluster, 600)
    assert (is_idle(cluster), events(cluster)) == (True, 2)


def test_a_share_below_that_of_the_policy_starts_the_window_again() -> None:
    cluster = waits(training(), 540)
    # Both reports within a second.
    waits(cluster, 0, share=0.1)
    waits(cluster, 540)
    assert not is_idle(cluster)
    assert is_idle(waits(cluster, 60))


@pytest.mark.parametrize("policy", [None, POLICY])
def test_without_a_policy_or_a_share_no_job_is_idle(policy: Any) -> None:
    cluster = running(*TASKS, **({"idlePolicy": policy} if policy else {})).wait(60)
    if policy is None:
        waits(cluster, 1200)
    for _ in range(20):
        cluster.wait(60).report(envSteps=1, collectorWaitFrac=1.0).settle()
    assert not is_idle(cluster)
    assert "idleSince" not in cluster.status


@pytest.mark.proves("lifecycle.md#idle-jobs")
def test_reports_that_stop_do_not_make_a_job_idle() -> None:
    cluster = waits(training(action="Suspend"), 540)
    # The collectors still report; the share is the last one of the learners.
    for _ in range(9):
        cluster.wait(60).report(envSteps=5).settle()
    assert not is_idle(cluster)
    assert "idleSince" in cluster.status
    cluster.wait(60)
    assert "idleSince" not in cluster.status
    waits(cluster, 540)
    assert not is_idle(cluster)


def test_idle_ends_when_the_reports_stop() -> None:
    cluster = waits(training(), 600)
    assert cluster.decide().requeue_after == 600
    assert is_idle(cluster.wait(599))
    assert not is_idle(cluster.wait(1))


def fails(cluster: ClusterModel) -> None:
    cluster.fail("x-learner-0").settle()
    cluster.run().settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)


def is_suspended_and_resumed(cluster: ClusterModel) -> None:
    cluster.edit(suspend=True).settle()
    cluster.end_deleted().settle()
    cluster.edit(suspend=False).settle()
    cluster.run().settle()
    assert cluster.phase == "Running"


def is_scaled(cluster: ClusterModel) -> None:
    cluster.scale("collector", 3).settle()
    cluster.run().settle()
    assert cluster.phase == "Running"


def has_an_outage(cluster: ClusterModel) -> None:
    cluster.reports_since = None
    cluster.wait(60)
    cluster.reports_since = cluster.now


def gets_another_share(cluster: ClusterModel) -> None:
    cluster.edit(idlePolicy={**POLICY, "waitingShare": 85}).settle()


def evaluates(cluster: ClusterModel) -> None:
    cluster.report(phase="evaluation").settle()
    cluster.wait(60).report(phase="training").settle()


def evaluates_for_a_moment(cluster: ClusterModel) -> None:
    # No reconcile sees the phase.
    cluster.report(phase="evaluation").report(phase="training")
    cluster.pass_time(1).report(learnerWaitFrac=0.9).settle()


@pytest.mark.proves("lifecycle.md#idle-jobs")
@pytest.mark.parametrize(
    "happens",
    [
        *(fails, is_suspended_and_resumed, is_scaled, has_an_outage, gets_another_share),
        *(evaluates, evaluates_for_a_moment),
    ],
)
def test_the_window_starts_again(happens: Callable[[ClusterModel], None]) -> None:
    cluster = waits(training(action="Suspend"), 540)
    happens(cluster)
    waits(cluster.wait(60), 480)
    assert not is_idle(cluster)
    assert is_idle(waits(cluster, 120))


def test_a_pod_that_ends_keeps_a_job_from_being_idle() -> None:
    cluster = training(action="Suspend").scale("collector", 1).settle()
    assert (cluster.phase, cluster.ending) == ("Running", ["x-collector-1"])
    waits(cluster, 1200)
    assert not is_idle(cluster)
    cluster.end_deleted()
    assert is_idle(waits(cluster.wait(60), 600))


def test_a_job_in_a_phase_of_its_program_is_not_idle() -> None:
    assert not is_idle(waits(training(), 1200, phase="evaluation"))


def test_the_first_report_of_a_new_run_starts_the_window() -> None:
    cluster = waits(training(), 120)
    cluster.pass_time(10)
    fails(cluster)
    assert "idleSince" not in cluster.wait(60).status
    waits(cluster, 0)
    assert cluster.status["idleSince"] == cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_dip_just_after_the_start_of_a_window_is_not_missed() -> None:
    cluster = waits(training(), 0)
    waits(cluster.pass_time(5), 0, share=0.1)
    waits(cluster, 0)
    assert cluster.status["idleSince"] == "2026-01-01T12:01:05Z"


def test_idle_stays_while_reports_cannot_arrive() -> None:
    cluster = waits(training(), 600)
    cluster.reports_since = None
    assert is_idle(cluster.wait(3600))
    cluster.reports_since = cluster.now
    assert not is_idle(cluster.wait(1))


def test_a_new_leader_does_not_announce_an_idle_job_again() -> None:
    cluster = waits(training(), 600)
    cluster.reports_since = cluster.pass_time(10).now
    cluster.settle()
    waits(cluster, 120)
    assert (is_idle(cluster), events(cluster)) == (True, 1)


@pytest.mark.proves("dijob.md#spec/idlepolicy-action", "lifecycle.md#idle-jobs")
def test_action_suspend_suspends_an_idle_job_once() -> None:
    cluster = waits(training(action="Suspend"), 540)
    assert not is_suspended(cluster)
    waits(cluster.wait(EVERY), 0)
    assert is_suspended(cluster)
    assert cluster.writes.count("patch DIJob x") == 1
    condition = cluster.condition("Idle")
    assert (condition["status"], condition["reason"]) == ("True", "SuspendedByPolicy")
    assert condition["message"].endswith("600 seconds; its idlePolicy suspends it")
    assert (cluster.phase, events(cluster)) == ("Pending", 1)
    assert is_idle(cluster.wait(7200))
    assert "idleSince" not in cluster.status


def test_the_condition_is_written_before_the_job_is_suspended() -> None:
    cluster = waits(training(action="Suspend"), 540)
    waits(cluster, 0, share=0.1)
    waits(cluster, 540)
    cluster.pass_time(60).report(learnerWaitFrac=0.9).reconcile()
    assert (is_idle(cluster), is_suspended(cluster)) == (True, False)
    # Another operator takes over, and waits for a report.
    cluster.pass_time(10)
    cluster.reports_since = cluster.now
    assert not is_suspended(cluster.settle())
    waits(cluster.pass_time(10), 0)
    assert is_suspended(cluster)


def test_a_resumed_job_has_a_whole_window() -> None:
    cluster = waits(training(action="Suspend"), 600)
    assert is_suspended(cluster)
    cluster.end_deleted().settle()
    cluster.edit(suspend=False).settle()
    assert not is_idle(cluster)
    cluster.run().settle()
    assert cluster.phase == "Running"
    waits(cluster.wait(60), 540)
    assert not is_suspended(cluster)
    cluster.pass_time(60).report(learnerWaitFrac=0.9).reconcile()
    # The condition is written first, again.
    assert (is_idle(cluster), is_suspended(cluster)) == (True, False)
    assert is_suspended(cluster.settle())


@pytest.mark.proves("operations.md#values/operator-suspendidlejobs")
@pytest.mark.parametrize("is_of_multikueue", [False, True])
def test_an_operator_that_may_not_suspend_only_reports(is_of_multikueue: bool) -> None:
    cluster = training(action="Suspend")
    cluster.suspend_idle_jobs = is_of_multikueue
    if is_of_multikueue:
        belongs_to_multikueue(cluster)
    waits(cluster, 1200)
    condition = cluster.condition("Idle")
    assert (condition["reason"], cluster.phase) == ("LearnersWait", "Running")
    assert "this operator may not suspend it" in condition["message"]
    assert not is_suspended(cluster)


def test_a_job_that_its_user_suspends_is_not_idle() -> None:
    cluster = waits(training(), 600)
    assert is_idle(cluster)
    cluster.edit(suspend=True).settle()
    assert not is_idle(cluster)


@pytest.mark.parametrize("share", ["0.9", True, -1, 90, None, [], 1e400])
def test_a_malformed_share_is_ignored(share: Any) -> None:
    cluster = training()
    for _ in range(20):
        cluster.wait(60).report(learnerWaitFrac=0.9)
        cluster.job["status"]["profilings"]["learnerWaitFrac"] = share
        cluster.settle()
    assert not is_idle(cluster)


def test_a_job_with_fewer_ready_pods_than_it_needs_is_not_idle() -> None:
    cluster = running(*TASKS, idlePolicy={**POLICY, "seconds": 60}).wait(60)
    cluster.say("x-collector-0", phase="Running").settle()
    assert cluster.phase == "Running"
    assert not is_idle(waits(cluster, 600))
    assert "idleSince" not in cluster.status


def test_a_job_whose_success_policy_is_met_is_not_idle() -> None:
    success = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 10_000}
    cluster = running(*TASKS, successPolicy=success, idlePolicy=POLICY).wait(60)
    cluster.succeed("x-learner-0", "x-learner-1").settle()
    assert cluster.phase == "Running"
    assert not is_idle(waits(cluster, 1200))


def test_an_unreadable_spec_leaves_the_condition_as_it_is() -> None:
    cluster = waits(training(), 600)
    cluster.edit(tasks="x").settle()
    assert is_idle(cluster.wait(3600))
