"""tasks[].onCompletion: what follows when every pod of a task has succeeded."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.defaults import success_policy_patch
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

ONCE = "x-evaluator-0"
POLICY = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30}


def evaluated(action: str | None, **spec: Any) -> ClusterModel:
    """A job that runs, whose evaluator has an action on its completion."""
    fields: dict[str, Any] = {} if action is None else {"onCompletion": action}
    return running(task("learner"), task("collector", 2), task("evaluator", **fields), **spec)


@pytest.mark.proves("lifecycle.md#completed-tasks/absent")
def test_without_an_action_the_other_tasks_run_on() -> None:
    cluster = evaluated(None).succeed(ONCE).settle().pass_time(600).settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))


@pytest.mark.proves("lifecycle.md#completed-tasks/completejob")
@pytest.mark.parametrize("policy", [None, POLICY])
def test_complete_job_ends_the_job_beside_its_policy(policy: Any) -> None:
    cluster = evaluated("CompleteJob", **({"successPolicy": policy} if policy else {}))
    cluster.succeed(ONCE).reconcile()
    met = cluster.condition("SuccessCriteriaMet")
    assert met["message"] == "task evaluator succeeded; 3 other pods to end within 30 seconds"
    cluster.pass_time(1).settle().end_deleted().settle()
    assert (cluster.phase, cluster.counts) == ("Succeeded", (0, 0))


def test_complete_job_leaves_the_policy_of_the_job_in_force() -> None:
    cluster = evaluated("CompleteJob", successPolicy=POLICY)
    cluster.succeed("x-learner-0").settle().end_deleted().settle()
    assert cluster.condition("Succeeded")["message"] == "task learner succeeded"


@pytest.mark.proves("lifecycle.md#completed-tasks/failjob", "events.md#of-its-life/taskcompleted")
def test_fail_job_fails_the_job() -> None:
    cluster = evaluated("FailJob").succeed(ONCE).settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "TaskCompleted")
    assert failed["message"] == "task evaluator succeeded, and its onCompletion is FailJob"


@pytest.mark.proves("lifecycle.md#completed-tasks/restarttask", "dijob.md#spec-tasks/oncompletion")
def test_restart_task_runs_the_task_again_and_no_other() -> None:
    cluster = evaluated("RestartTask")
    before = cluster.uids
    cluster.succeed(ONCE).reconcile()
    assert cluster.condition("Restarting")["message"] == (
        "task evaluator succeeded, and its onCompletion is RestartTask; all pods of task evaluator "
        "are replaced; restart 1 of 3"
    )
    cluster.settle().run().settle()
    others = {name: uid for name, uid in before.items() if name != ONCE}
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))
    assert {name: uid for name, uid in cluster.uids.items() if name != ONCE} == others
    assert cluster.uids[ONCE] != before[ONCE]
    assert "completedIndexes" not in cluster.status


@pytest.mark.proves("lifecycle.md#completed-tasks/restartjob")
def test_restart_job_runs_all_tasks_again() -> None:
    cluster = evaluated("RestartJob")
    before = cluster.uids
    cluster.succeed(ONCE).settle().end_deleted().settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))
    assert cluster.uids.keys() == before.keys()
    assert not {*cluster.uids.values()} & {*before.values()}


@pytest.mark.parametrize("action", ["RestartTask", "RestartJob"])
def test_restarts_on_completion_end_with_the_backoff_limit(action: str) -> None:
    cluster = running(task("learner", onCompletion=action), backoffLimit=2)
    for _ in range(2):
        cluster.succeed().settle().end_deleted().settle().run().settle()
        assert cluster.phase == "Running"
    cluster.succeed().settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"], cluster.counts) == ("Failed", "TaskCompleted", (2, 0))
    assert failed["message"].endswith("; 2 restarts of 2 used")


@pytest.mark.parametrize("action", ["FailJob", "RestartTask", "RestartJob"])
def test_success_of_the_job_comes_before_actions_on_completion(action: str) -> None:
    cluster = evaluated(action, successPolicy=POLICY)
    cluster.succeed(ONCE, "x-learner-0", "x-collector-0", "x-collector-1").settle()
    assert (cluster.phase, cluster.counts) == ("Succeeded", (0, 0))


def test_every_pod_of_the_task_has_to_succeed() -> None:
    cluster = running(task("learner"), task("evaluator", 2, onCompletion="FailJob"))
    cluster.succeed(ONCE).settle().pass_time(600).settle()
    assert cluster.phase == "Running"
    cluster.delete_pod(ONCE, force=True).succeed("x-evaluator-1").settle()
    assert cluster.phase == "Failed"


def test_a_suspended_job_is_not_restarted_on_completion() -> None:
    cluster = evaluated("RestartTask").succeed(ONCE).edit(suspend=True).settle()
    cluster.end_deleted().settle()
    assert cluster.counts == (0, 0)


@pytest.mark.parametrize(
    ("action", "named"),
    [(None, ["learner"]), ("CompleteJob", ["learner"]), ("RestartJob", []), ("FailJob", [])],
)
def test_the_default_policy_leaves_out_tasks_with_other_actions(
    action: str | None, named: list[str]
) -> None:
    fields: dict[str, Any] = {} if action is None else {"onCompletion": action}
    learner = task("learner", **fields)
    patch = success_policy_patch(job(learner), None)
    assert [each["value"]["tasks"] for each in patch] == ([named] if named else [])
