"""A job whose steps stop growing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from tests.unit.lifecycle import test_coordinated
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, running, task
from tests.unit.lifecycle.test_coordinated import FIRST, replica

POLICY = {"timeoutSeconds": 1800, "firstTimeoutSeconds": 3600}
TASKS = (task("learner", 2), task("collector", 2))


def training(*, step: int = 10, **policy: Any) -> ClusterModel:
    """A job that has just reported a step, a while after its start."""
    cluster = running(*TASKS, progressPolicy={**POLICY, **policy}).pass_time(60)
    return cluster.report(envSteps=step, maxEnvSteps=100).settle()


def says(cluster: ClusterModel, condition: str) -> bool:
    return any(
        one["status"] == "True" for one in cluster.status["conditions"] if one["type"] == condition
    )


def hung_events(cluster: ClusterModel) -> int:
    return sum(event.reason is Problem.HUNG for event in cluster.events)


@pytest.mark.proves(
    "lifecycle.md#time/progresspolicy",
    "lifecycle.md#progress",
    "dijob.md#spec/progresspolicy-timeoutseconds",
    "events.md#of-problems/hung",
)
@pytest.mark.parametrize("growing", [False, True])
def test_steps_that_stop_growing_set_hung_at_the_timeout(growing: bool) -> None:
    cluster = training(action="Notify")
    pods = cluster.pods
    assert cluster.decide().requeue_after == 1800
    if growing:
        # The program speaks, and says the same again and again.
        cluster.wait(900).report(envSteps=10).wait(899)
    else:
        cluster.wait(1799)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")
    condition = cluster.condition("Hung")
    assert condition["reason"] == "NoProgress"
    assert condition["message"] == (
        "the reported step is 10 since 2026-01-01T12:01:00Z, for longer than 1800 seconds"
    )
    cluster.wait(7200)
    assert (hung_events(cluster), cluster.phase, cluster.pods) == (1, "Running", pods)
    assert cluster.status["restarts"] == 0
    cluster.report(envSteps=11).settle()
    assert not says(cluster, "Hung")
    cluster.wait(1800)
    assert (says(cluster, "Hung"), hung_events(cluster)) == (True, 2)


def test_a_step_just_before_the_timeout_is_progress() -> None:
    cluster = training(action="FailJob").wait(1799).report(envSteps=10.5).wait(1799)
    assert not says(cluster, "Hung")
    assert cluster.phase == "Running"


@pytest.mark.proves("lifecycle.md#progress", "dijob.md#spec/progresspolicy-firsttimeoutseconds")
@pytest.mark.parametrize("reported", [{"envSteps": 0}, {"envSteps": 10, "phase": "evaluation"}])
def test_the_first_timeout_applies_before_a_step_and_in_a_phase(
    reported: dict[str, Any],
) -> None:
    cluster = running(*TASKS, progressPolicy=POLICY).pass_time(60).report(**reported)
    in_a_phase = "phase" in reported
    cluster.wait(3599 if in_a_phase else 3539)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_the_usual_timeout_starts_again_after_a_phase() -> None:
    cluster = training(action="Notify").wait(1000).report(phase="saving").wait(3000)
    cluster.report(phase="training").wait(1799)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_a_restart_clears_hung_and_starts_the_first_timeout() -> None:
    cluster = training(action="Notify").wait(1800)
    assert says(cluster, "Hung")
    cluster.fail("x-learner-0").settle()
    assert not says(cluster, "Hung")
    cluster.run().settle()
    assert cluster.phase == "Running"
    # It has to load its checkpoint first.
    cluster.wait(3599)
    assert not says(cluster, "Hung")
    cluster.report(envSteps=5).report(envSteps=6).wait(1799)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_a_job_without_reports_since_its_restart_is_hung() -> None:
    cluster = training(action="Notify").fail("x-learner-0").settle().run()
    cluster.settle().wait(3600)
    assert says(cluster, "Hung")
    assert not says(cluster, "NoSignal")


@pytest.mark.proves("events.md#of-problems/nosignal")
@pytest.mark.parametrize("reported", [{}, {"loss": 1}, {"envSteps": "x"}])
def test_a_job_that_never_reported_a_step_only_gets_no_signal(reported: dict[str, Any]) -> None:
    cluster = running(*TASKS, progressPolicy={**POLICY, "action": "FailJob"})
    if reported:
        cluster.report(**reported)
    cluster.wait(3599)
    assert not says(cluster, "NoSignal")
    cluster.wait(1)
    assert says(cluster, "NoSignal")
    assert cluster.condition("NoSignal")["message"] == (
        "no step was ever reported, for 3600 seconds of running"
    )
    cluster.wait(100_000)
    assert cluster.phase == "Running"
    assert [event.reason for event in cluster.events].count(Problem.NO_SIGNAL) == 1
    cluster.report(envSteps=1).settle()
    assert not says(cluster, "NoSignal")


@pytest.mark.proves("dijob.md#spec/progresspolicy-action", "events.md#of-its-life/noprogress")
def test_action_fail_job_fails_a_hung_job() -> None:
    cluster = training(action="FailJob").wait(1800)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "NoProgress"
    assert "the reported step is 10 since" in cluster.condition("Failed")["message"]
    assert says(cluster, "Hung")
    assert {Problem.HUNG, Reason.NO_PROGRESS} <= {event.reason for event in cluster.events}
    assert cluster.status["restarts"] == 0


def test_an_outage_of_the_server_restarts_the_timeout() -> None:
    cluster = training(action="FailJob").wait(1500)
    cluster.reports_since = None
    cluster.wait(400)
    assert (cluster.phase, cluster.decide().requeue_after) == ("Running", 10)
    cluster.reports_since = cluster.now
    cluster.wait(1799)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


def test_hung_stays_set_through_an_outage_of_the_server() -> None:
    cluster = training(action="Notify").wait(1800)
    cluster.reports_since = None
    cluster.wait(400)
    assert says(cluster, "Hung")
    cluster.reports_since = cluster.now
    cluster.wait(10)
    assert (says(cluster, "Hung"), hung_events(cluster)) == (True, 1)


def test_time_before_the_operator_led_does_not_count() -> None:
    cluster = training(action="FailJob").pass_time(5000)
    cluster.reports_since = cluster.now
    cluster.settle()
    assert cluster.phase == "Running"


@pytest.mark.parametrize(
    ("change", "phase"),
    [
        (lambda c: c.succeed("x-learner-0", "x-learner-1").settle(), "Running"),
        (lambda c: c.edit(suspend=True), "Pending"),
    ],
    ids=["its learners have succeeded", "it is suspended"],
)
def test_a_job_is_not_hung_if(change: Callable[[ClusterModel], object], phase: str) -> None:
    cluster = training(action="FailJob")
    change(cluster)
    cluster.wait(100_000)
    assert (cluster.phase, says(cluster, "Hung")) == (phase, False)


def test_a_job_whose_success_policy_is_met_is_not_hung() -> None:
    policy = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 10_000}
    cluster = running(*TASKS, successPolicy=policy, progressPolicy={**POLICY, "action": "FailJob"})
    cluster.report(envSteps=10).succeed("x-learner-0", "x-learner-1").settle()
    cluster.wait(5000)
    assert not says(cluster, "Hung")


def test_a_job_below_its_minimum_is_not_hung() -> None:
    cluster = training(action="FailJob").say("x-learner-0", phase="Running")
    cluster.wait(100_000)
    assert cluster.phase == "Running"
    assert not says(cluster, "Hung")
    # Its pods are there again, and have their time.
    cluster.run("x-learner-0").settle().wait(1799)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


def test_without_a_progress_policy_no_time_counts() -> None:
    cluster = running(*TASKS).report(envSteps=10).settle()
    before = len(cluster.writes)
    cluster.wait(1_000_000)
    assert len(cluster.writes) == before
    assert cluster.decide().requeue_after is None


@pytest.mark.proves("events.md#of-problems/reportrejected")
def test_a_rejected_report_is_shown_until_the_next_good_one() -> None:
    cluster = running(*TASKS)
    for _ in range(2):
        cluster.report(reportedAt=1767225600.5).settle()
    assert cluster.condition("ReportRejected")["message"] == (
        "the report was dropped: reportedAt: must be a time, such as 2026-01-02T03:04:05Z"
    )
    assert [event.reason for event in cluster.events].count(Problem.REPORT_REJECTED) == 1
    cluster.report(envSteps=1).settle()
    assert not says(cluster, "ReportRejected")


def restarted(cluster: ClusterModel) -> list[str]:
    """Let the hung tasks' pods end and their successors come up; the names of new pods."""
    before = cluster.uids
    cluster.settle()
    cluster.end_deleted().settle().run().settle()
    assert cluster.phase == "Running"
    return [name for name, pod in cluster.pods.items() if pod["metadata"]["uid"] != before[name]]


@pytest.mark.proves("roles.md#several-tasks-of-a-type/progresspolicy")
def test_restart_task_without_names_restarts_all_learner_tasks() -> None:
    policy = {"timeoutSeconds": 1800, "action": "RestartTask"}
    tasks = (task("learner"), task("critic", type="learner"), task("collector"))
    cluster = running(*tasks, progressPolicy=policy).pass_time(60).report(envSteps=10)
    cluster.settle().wait(1801)
    assert cluster.status["restartAttempts"] == {"critic": 1, "learner": 1}


@pytest.mark.proves("dijob.md#spec/progresspolicy-action", "dijob.md#spec/progresspolicy-tasks")
@pytest.mark.parametrize(
    ("policy", "tasks"),
    [
        ({"action": "RestartTask"}, {"learner"}),
        ({"action": "RestartTask", "tasks": ["collector"]}, {"collector"}),
        ({"action": "RestartJob"}, {"learner", "collector"}),
    ],
)
def test_a_restart_of_a_hung_job_replaces_the_pods_and_counts_once(
    policy: dict[str, Any], tasks: set[str]
) -> None:
    cluster = training(**policy).wait(1799)
    assert "restartAttempts" not in cluster.status
    cluster.pass_time(1)
    # One write says both.
    cluster.reconcile()
    assert says(cluster, "Hung")
    assert cluster.phase == "Restarting"
    assert cluster.status["restartAttempts"] == dict.fromkeys(sorted(tasks), 1)
    message = cluster.condition("Restarting")["message"]
    assert message.endswith(f"; restarting {', '.join(sorted(tasks))}; restart 1 of 3")
    assert sorted(restarted(cluster)) == sorted(
        f"x-{task}-{index}" for task in tasks for index in range(2)
    )
    # The marks of before are gone: the pods have their first time-out.
    assert not says(cluster, "Hung")
    cluster.wait(3599)
    assert not says(cluster, "Hung")
    assert (cluster.status["restarts"], hung_events(cluster)) == (1, 1)
    assert cluster.status["restartAttempts"] == dict.fromkeys(sorted(tasks), 1)
    cluster.wait(1)
    assert (cluster.status["restarts"], hung_events(cluster)) == (2, 2)


def test_a_hung_job_without_restarts_left_fails() -> None:
    cluster = training(action="RestartTask").edit(backoffLimit=1).wait(1800)
    restarted(cluster)
    cluster.wait(3600)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "NoProgress"
    assert cluster.condition("Failed")["message"].endswith("1 restart of 1 used")


def test_failures_within_a_task_limit_leave_restarts_for_a_hang() -> None:
    tasks = (task("learner"), task("collector", backoffLimit="Unlimited"))
    policy = {**POLICY, "action": "RestartTask"}
    cluster = running(*tasks, progressPolicy=policy, backoffLimit=1)
    for _ in range(3):
        cluster.fail("x-collector-0").wait(0).wait(310)
        cluster.run("x-collector-0").settle()
    cluster.report(envSteps=10).wait(3600)
    assert cluster.phase == "Restarting"
    assert (cluster.status["restarts"], cluster.status["jobRestarts"]) == (4, 1)
    restarted(cluster)
    cluster.wait(3600)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"].endswith("1 restart of 1 used")


def test_a_hung_coordinated_job_restarts_all_its_pods() -> None:
    cluster = test_coordinated.running(
        replica(FIRST), progressPolicy={**POLICY, "action": "RestartJob"}
    )
    cluster.report(envSteps=10).settle().wait(3600)
    assert cluster.phase == "Restarting"
    assert sorted(restarted(cluster)) == sorted(cluster.pods)


@pytest.mark.parametrize("reconciles", [1, 2, 3])
def test_an_operator_crash_repeats_no_restart_of_a_hung_job(reconciles: int) -> None:
    cluster = training(action="RestartTask").pass_time(1800)
    for _ in range(reconciles):
        with suppress(Crash):
            cluster.reconcile(crash_after=1)
    restarted(cluster)
    assert cluster.status["restarts"] == 1
    assert cluster.status["restartAttempts"] == {"learner": 1}


@pytest.mark.parametrize(
    "written",
    [
        3,
        ["x"],
        {"step": "x", "phase": 3, "progressedAt": "soon", "rejected": {}},
        {"step": None, "phaseAt": [], "progressedAt": None},
        {"step": True, "reportedAt": 1},
    ],
)
def test_malformed_progress_in_the_status_is_replaced(written: Any) -> None:
    cluster = running(*TASKS, progressPolicy={**POLICY, "action": "FailJob"})
    cluster.job["status"]["progress"] = written
    cluster.wait(100_000)
    assert cluster.phase == "Running"
    cluster.report(step=10).settle()
    assert cluster.status["progress"]["step"] == 10
    cluster.wait(1800)
    assert cluster.phase == "Failed"


def test_a_step_too_large_for_a_float_is_no_step() -> None:
    cluster = running(*TASKS, progressPolicy=POLICY)
    cluster.job["status"]["progress"] = {"step": 10**400}
    cluster.wait(3600)
    assert says(cluster, "NoSignal")
