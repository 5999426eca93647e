"""A job whose steps do not grow any more: the rows F of the acceptance scenarios."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.reasons import Problem, Reason
from tests.unit.lifecycle import test_coordinated
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, running, task
from tests.unit.lifecycle.test_coordinated import FIRST, replica

POLICY = {"timeoutSeconds": 1800, "firstTimeoutSeconds": 3600}
TASKS = (task("learner", 2), task("collector", 2))


def training(*, step: int = 10, **policy: Any) -> ClusterModel:
    """A job that has just reported a step, a while after its start."""
    cluster = running(*TASKS, progressPolicy={**POLICY, **policy})
    cluster.pass_time(60)
    cluster.report(envSteps=step, maxEnvSteps=100)
    cluster.settle()
    return cluster


def says(cluster: ClusterModel, condition: str) -> bool:
    return any(
        one["status"] == "True" for one in cluster.status["conditions"] if one["type"] == condition
    )


def hung_events(cluster: ClusterModel) -> int:
    return sum(event.reason is Problem.HUNG for event in cluster.events)


@pytest.mark.parametrize("growing", [False, True])
def test_f1_reports_that_stop_growing_are_told_of_at_the_timeout(growing: bool) -> None:
    cluster = training(action="Notify")
    pods = cluster.pods
    assert cluster.decide().requeue_after == 1800
    if growing:
        # The program speaks, and says the same again and again.
        cluster.wait(900)
        cluster.report(envSteps=10)
        cluster.wait(899)
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
    assert hung_events(cluster) == 1
    assert (cluster.phase, cluster.pods) == ("Running", pods)
    assert cluster.status["restarts"] == 0

    cluster.report(envSteps=11)
    cluster.settle()
    assert not says(cluster, "Hung")
    cluster.wait(1800)
    assert (says(cluster, "Hung"), hung_events(cluster)) == (True, 2)


def test_f2_growth_in_the_last_second_is_progress() -> None:
    cluster = training(action="FailJob")
    cluster.wait(1799)
    cluster.report(envSteps=10.5)
    cluster.wait(1799)
    assert not says(cluster, "Hung")
    assert cluster.phase == "Running"


@pytest.mark.parametrize("reported", [{"envSteps": 0}, {"envSteps": 10, "phase": "evaluation"}])
def test_f3_before_the_first_step_and_in_a_phase_the_first_timeout_counts(
    reported: dict[str, Any],
) -> None:
    cluster = running(*TASKS, progressPolicy=POLICY)
    cluster.pass_time(60)
    cluster.report(**reported)
    in_a_phase = "phase" in reported
    cluster.wait(3599 if in_a_phase else 3539)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_f3_after_a_phase_the_usual_timeout_counts_anew() -> None:
    cluster = training(action="Notify")
    cluster.wait(1000)
    cluster.report(phase="saving")
    cluster.wait(3000)
    cluster.report(phase="training")
    cluster.wait(1799)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_f4_a_restart_clears_all_marks() -> None:
    cluster = training(action="Notify")
    cluster.wait(1800)
    assert says(cluster, "Hung")
    cluster.fail("x-learner-0")
    cluster.settle()
    assert not says(cluster, "Hung")
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    # It has to load its checkpoint first.
    cluster.wait(3599)
    assert not says(cluster, "Hung")
    cluster.report(envSteps=5)
    cluster.report(envSteps=6)
    cluster.wait(1799)
    assert not says(cluster, "Hung")
    cluster.wait(1)
    assert says(cluster, "Hung")


def test_f4_a_job_that_reported_before_its_restart_and_never_since_hangs() -> None:
    cluster = training(action="Notify")
    cluster.fail("x-learner-0")
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.wait(3600)
    assert says(cluster, "Hung")
    assert not says(cluster, "NoSignal")


@pytest.mark.parametrize("reported", [{}, {"loss": 1}, {"envSteps": "x"}])
def test_f5_without_any_step_nothing_is_done(reported: dict[str, Any]) -> None:
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
    cluster.report(envSteps=1)
    cluster.settle()
    assert not says(cluster, "NoSignal")


def test_f6_fail_job_fails_the_job() -> None:
    cluster = training(action="FailJob")
    cluster.wait(1800)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "NoProgress"
    assert "the reported step is 10 since" in cluster.condition("Failed")["message"]
    assert says(cluster, "Hung")
    assert {Problem.HUNG, Reason.NO_PROGRESS} <= {event.reason for event in cluster.events}
    assert cluster.status["restarts"] == 0


def test_f7_an_outage_begins_the_windows_anew() -> None:
    cluster = training(action="FailJob")
    cluster.wait(1500)
    cluster.reports_since = None
    cluster.wait(400)
    assert cluster.phase == "Running"
    assert cluster.decide().requeue_after == 10
    cluster.reports_since = cluster.now
    cluster.wait(1799)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


def test_f7_what_was_said_before_an_outage_stands() -> None:
    cluster = training(action="Notify")
    cluster.wait(1800)
    cluster.reports_since = None
    cluster.wait(400)
    assert says(cluster, "Hung")
    cluster.reports_since = cluster.now
    cluster.wait(10)
    assert (says(cluster, "Hung"), hung_events(cluster)) == (True, 1)


def test_f7_an_operator_that_has_just_begun_to_lead_knows_of_no_time_before() -> None:
    cluster = training(action="FailJob")
    cluster.pass_time(5000)
    cluster.reports_since = cluster.now
    cluster.settle()
    assert cluster.phase == "Running"


def test_f8_who_has_done_it_all_is_not_judged() -> None:
    cluster = training(action="FailJob")
    cluster.succeed("x-learner-0", "x-learner-1")
    cluster.settle()
    cluster.wait(100_000)
    assert not says(cluster, "Hung")
    assert cluster.phase == "Running"


def test_f8_nor_is_a_job_whose_success_policy_is_met() -> None:
    policy = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 10_000}
    cluster = running(*TASKS, successPolicy=policy, progressPolicy={**POLICY, "action": "FailJob"})
    cluster.report(envSteps=10)
    cluster.succeed("x-learner-0", "x-learner-1")
    cluster.settle()
    cluster.wait(5000)
    assert not says(cluster, "Hung")


def test_f9_a_suspended_job_is_not_judged() -> None:
    cluster = training(action="FailJob")
    cluster.edit(suspend=True)
    cluster.wait(100_000)
    assert cluster.phase == "Pending"
    assert not says(cluster, "Hung")


def test_f9_a_job_below_its_minimum_is_not_judged() -> None:
    cluster = training(action="FailJob")
    cluster.say("x-learner-0", phase="Running")
    cluster.wait(100_000)
    assert cluster.phase == "Running"
    assert not says(cluster, "Hung")
    # Its pods are there again, and have their time.
    cluster.run("x-learner-0")
    cluster.settle()
    cluster.wait(1799)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert cluster.phase == "Failed"


def test_a_job_without_a_policy_is_let_alone() -> None:
    cluster = running(*TASKS)
    cluster.report(envSteps=10)
    cluster.settle()
    before = len(cluster.writes)
    cluster.wait(1_000_000)
    assert len(cluster.writes) == before
    assert cluster.decide().requeue_after is None


def test_a_report_that_makes_no_sense_is_told_of_once_and_until_the_next_good_one() -> None:
    cluster = running(*TASKS)
    for _ in range(2):
        cluster.report(reportedAt=1767225600.5)
        cluster.settle()
    assert cluster.condition("ReportRejected")["message"] == (
        "nothing of it was kept: reportedAt: must be a time, such as 2026-01-02T03:04:05Z"
    )
    assert [event.reason for event in cluster.events].count(Problem.REPORT_REJECTED) == 1
    cluster.report(envSteps=1)
    cluster.settle()
    assert not says(cluster, "ReportRejected")


def restarted(cluster: ClusterModel) -> list[str]:
    """Let the hung tasks' pods end and their successors come up; the names of new pods."""
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    cluster.settle()
    for name, pod in list(cluster.pods.items()):
        if pod["metadata"].get("deletionTimestamp"):
            cluster.end(name)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    return [name for name, pod in cluster.pods.items() if pod["metadata"]["uid"] != before[name]]


def test_all_learner_tasks_are_restarted_where_none_is_named() -> None:
    policy = {"timeoutSeconds": 1800, "action": "RestartTask"}
    tasks = (task("learner"), task("critic", type="learner"), task("collector"))
    cluster = running(*tasks, progressPolicy=policy)
    cluster.pass_time(60)
    cluster.report(envSteps=10)
    cluster.settle()
    cluster.wait(1801)
    assert cluster.status["restartAttempts"] == {"critic": 1, "learner": 1}


@pytest.mark.parametrize(
    ("policy", "tasks"),
    [
        ({"action": "RestartTask"}, {"learner"}),
        ({"action": "RestartTask", "tasks": ["collector"]}, {"collector"}),
        ({"action": "RestartJob"}, {"learner", "collector"}),
    ],
)
def test_f1_a_restart_makes_the_pods_anew_once_and_counts_once(
    policy: dict[str, Any], tasks: set[str]
) -> None:
    cluster = training(**policy)
    cluster.wait(1799)
    assert "restartAttempts" not in cluster.status
    cluster.pass_time(1)
    # One write says both.
    cluster.reconcile()
    assert says(cluster, "Hung")
    assert cluster.phase == "Restarting"
    assert cluster.status["restartAttempts"] == dict.fromkeys(sorted(tasks), 1)
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
    assert cluster.status["restarts"] == 2
    assert hung_events(cluster) == 2


def test_f1_a_restart_that_is_not_allowed_any_more_fails_the_job() -> None:
    cluster = training(action="RestartTask")
    cluster.edit(backoffLimit=1)
    cluster.wait(1800)
    restarted(cluster)
    cluster.wait(3600)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "NoProgress"
    assert cluster.condition("Failed")["message"].endswith("1 restart of 1 used")


def test_f1_failures_of_a_task_with_its_own_limit_do_not_count_for_it() -> None:
    tasks = (task("learner"), task("collector", backoffLimit="Unlimited"))
    policy = {**POLICY, "action": "RestartTask"}
    cluster = running(*tasks, progressPolicy=policy, backoffLimit=1)
    for _ in range(3):
        cluster.fail("x-collector-0")
        cluster.wait(0)
        cluster.wait(310)
        cluster.run("x-collector-0")
        cluster.settle()
    cluster.report(envSteps=10)
    cluster.wait(3600)
    assert cluster.phase == "Restarting"
    assert (cluster.status["restarts"], cluster.status["jobRestarts"]) == (4, 1)
    restarted(cluster)
    cluster.wait(3600)
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"].endswith("1 restart of 1 used")


def test_f1_a_coordinated_job_begins_anew_with_all_its_pods() -> None:
    cluster = test_coordinated.running(
        replica(FIRST), progressPolicy={**POLICY, "action": "RestartJob"}
    )
    cluster.report(envSteps=10)
    cluster.settle()
    cluster.wait(3600)
    assert cluster.phase == "Restarting"
    assert sorted(restarted(cluster)) == sorted(cluster.pods)


@pytest.mark.parametrize("reconciles", [1, 2, 3])
def test_f1_an_operator_that_is_killed_at_a_write_repeats_nothing(reconciles: int) -> None:
    cluster = training(action="RestartTask")
    cluster.pass_time(1800)
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
def test_whatever_anybody_wrote_of_a_jobs_progress_is_read_and_replaced(written: Any) -> None:
    cluster = running(*TASKS, progressPolicy={**POLICY, "action": "FailJob"})
    cluster.job["status"]["progress"] = written
    cluster.wait(100_000)
    assert cluster.phase == "Running"
    cluster.report(step=10)
    cluster.settle()
    assert cluster.status["progress"]["step"] == 10
    cluster.wait(1800)
    assert cluster.phase == "Failed"


def test_a_step_that_no_float_can_tell_is_none() -> None:
    cluster = running(*TASKS, progressPolicy=POLICY)
    cluster.job["status"]["progress"] = {"step": 10**400}
    cluster.wait(3600)
    assert says(cluster, "NoSignal")
