"""Restarts that users request: pods are replaced once, and no counter moves."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.conditions import is_true, well_formed
from tests.unit.lifecycle import test_coordinated
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task
from tests.unit.lifecycle.test_coordinated import FIRST, replica

TASKS = (task("learner", 2), task("collector", 2))
LEARNERS = {"x-learner-0", "x-learner-1"}
ALL = LEARNERS | {"x-collector-0", "x-collector-1"}


def ask(cluster: ClusterModel, task_name: str | None = None, text: str = "now") -> None:
    """What `di restart` writes."""
    if task_name is None:
        cluster.edit(restartedAt=text)
        return
    tasks = [
        {**each, "restartedAt": text} if each["name"] == task_name else each
        for each in cluster.job["spec"]["tasks"]
    ]
    cluster.edit(tasks=tasks)


def replaced(cluster: ClusterModel) -> set[str]:
    """The pods that are new once the operator and the kubelet have done all they can."""
    before = cluster.uids
    for _ in range(6):
        cluster.settle().end_deleted().settle()
        cluster.run()
    cluster.settle()
    return {name for name, uid in cluster.uids.items() if before.get(name) != uid}


def told(cluster: ClusterModel) -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in cluster.events if e.reason == "RestartRequested"]


@pytest.mark.proves(
    "lifecycle.md#restarting-when-asked-to",
    "dijob.md#spec/restartedat",
    "events.md#of-its-life/restartrequested",
)
@pytest.mark.parametrize(
    ("name", "pods", "whose"), [(None, ALL, "the job"), ("learner", LEARNERS, "task learner")]
)
def test_a_requested_restart_replaces_the_pods_once_and_counts_nothing(
    name: str | None, pods: set[str], whose: str
) -> None:
    cluster = running(*TASKS, backoffLimit=0)
    ask(cluster, name)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert cluster.condition("Restarting")["reason"] == "RestartRequested"
    assert (replaced(cluster), cluster.phase, cluster.counts) == (pods, "Running", (0, 0))
    message = f"a restart of {whose} was asked for, {len(pods)} pods to replace"
    assert (told(cluster), replaced(cluster)) == ([("RestartRequested", message)], set())
    # The same text again is no new request, nor is none.
    ask(cluster, name)
    cluster.edit(restartedAt=None)
    assert replaced(cluster) == set()
    ask(cluster, name, "later")
    assert (replaced(cluster), cluster.counts, len(told(cluster))) == (pods, (0, 0), 2)


CODE = {"configMap": "a", "sha256": "1" * 64}


@pytest.mark.proves("dijob.md#spec/code-revision", "own-code.md#push")
def test_a_change_of_the_code_replaces_the_pods_once_and_counts_nothing() -> None:
    cluster = running(*TASKS, backoffLimit=0, code=CODE)
    assert cluster.status["restartedAt"] == {"code": "1" * 64}
    pushed = {"configMap": "b", "sha256": "2" * 64}
    cluster.edit(code=pushed)
    cluster.reconcile()
    assert (cluster.phase, told(cluster)) == (
        "Restarting",
        [("RestartRequested", "spec.code was changed, 4 pods to replace")],
    )
    assert (replaced(cluster), cluster.phase, cluster.counts) == (ALL, "Running", (0, 0))
    assert (replaced(cluster), cluster.status["restartedAt"]) == (set(), {"code": "2" * 64})
    # A revision is only shown; requirements are part of what pods have.
    cluster.edit(code={**pushed, "revision": "abc"})
    assert replaced(cluster) == set()
    cluster.edit(code={**pushed, "requirements": "a.txt"})
    assert (replaced(cluster), cluster.counts) == (ALL, (0, 0))
    assert cluster.status["restartedAt"] == {"code": f"{'2' * 64} a.txt"}


def test_pods_that_wait_start_with_the_changed_code_without_a_restart() -> None:
    cluster = running(*TASKS, code=CODE)
    cluster.edit(suspend=True)
    for _ in range(3):
        cluster.settle().end_deleted()
    cluster.edit(code={"configMap": "b", "sha256": "2" * 64})
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    bundles = {
        volume["configMap"]["name"]
        for pod in cluster.pods.values()
        for volume in pod["spec"]["volumes"]
        if volume["name"] == "di-code-bundle"
    }
    assert (bundles, told(cluster), len(cluster.pods)) == ({"b"}, [], 4)


def test_no_new_pod_meets_an_old_one_of_its_task() -> None:
    cluster = running(*TASKS)
    ask(cluster)
    cluster.settle().end("x-learner-0").settle()
    assert "x-learner-0" not in cluster.pods
    cluster.end("x-learner-1").settle()
    assert cluster.pods.keys() >= LEARNERS


@pytest.mark.proves("dijob.md#spec-tasks/restartedat")
def test_requests_for_two_tasks_are_two() -> None:
    cluster = running(*TASKS)
    ask(cluster, "learner")
    ask(cluster, "collector")
    assert replaced(cluster) == ALL
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}


def test_a_request_for_a_task_leaves_that_for_the_job_handled() -> None:
    cluster = running(*TASKS)
    ask(cluster)
    assert replaced(cluster) == ALL
    ask(cluster, "learner", "later")
    assert (replaced(cluster), replaced(cluster)) == (LEARNERS, set())
    handled = cluster.status["restartedAt"]
    assert (handled["job"], handled["tasks"]["learner"]) == ("now", "later")


def test_a_second_request_is_handled_while_pods_end() -> None:
    cluster = running(*TASKS)
    ask(cluster, "learner")
    cluster.settle()
    ask(cluster, "learner", "later")
    assert (replaced(cluster), cluster.status["restartAttempts"]) == (LEARNERS, {"learner": 2})
    assert len(told(cluster)) == 2


def test_a_job_that_is_made_with_the_field_starts_once() -> None:
    cluster = ClusterModel(job(*TASKS, restartedAt="then"))
    assert (replaced(cluster), cluster.phase, told(cluster)) == (ALL, "Running", [])
    assert cluster.status["restartedAt"] == {"job": "then"}


def test_a_waiting_job_ignores_a_restart_request() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    assert (cluster.phase, {*cluster.pods}) == ("Pending", {"x-learner-0"})
    ask(cluster, "collector")
    cluster.settle()
    assert (told(cluster), replaced(cluster), told(cluster)) == ([], {"x-collector-0"}, [])


def test_a_requested_restart_covers_the_pods_of_a_waiting_job() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    ask(cluster)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert (replaced(cluster), len(told(cluster))) == ({"x-learner-0", "x-collector-0"}, 1)


def test_a_suspended_job_restarts_when_it_is_resumed() -> None:
    cluster = running(*TASKS).edit(suspend=True)
    replaced(cluster)
    assert not cluster.pods
    ask(cluster)
    replaced(cluster)
    assert not cluster.pods
    cluster.edit(suspend=False)
    assert (replaced(cluster), told(cluster)) == (ALL, [])


def test_a_failure_that_is_seen_with_it_is_counted_first() -> None:
    cluster = running(*TASKS).fail("x-collector-0")
    ask(cluster)
    assert (replaced(cluster), cluster.counts, cluster.phase) == (ALL, (1, 0), "Running")
    cluster = running(*TASKS, backoffLimit=0).fail("x-collector-0")
    ask(cluster)
    cluster.settle()
    assert cluster.phase == "Failed"


def test_a_restart_by_a_rule_is_the_one_that_was_asked_for() -> None:
    policy = {"rules": [{"tasks": ["learner"], "action": "RestartTask"}]}
    cluster = running(*TASKS, failurePolicy=policy).fail("x-learner-0")
    ask(cluster, "learner")
    assert (replaced(cluster), cluster.counts, told(cluster)) == (LEARNERS, (1, 0), [])
    assert cluster.status["restartAttempts"] == {"learner": 1}


def test_succeeded_pods_restart_and_finished_jobs_do_not() -> None:
    cluster = running(*TASKS).succeed(*LEARNERS)
    ask(cluster)
    assert replaced(cluster) == ALL
    cluster.succeed()
    ask(cluster, text="later")
    cluster.settle()
    assert cluster.phase == "Succeeded"


def test_a_requested_restart_replaces_standby_pods() -> None:
    cluster = running(task("learner"), task("work", 2, standby=1))
    replaced(cluster)
    assert "x-work-standby-0" in cluster.pods
    ask(cluster, "work")
    assert replaced(cluster) == {"x-work-0", "x-work-1", "x-work-standby-0"}
    assert cluster.counts == (0, 0)


def test_a_placed_job_stays_on_its_nodes() -> None:
    cluster = ClusterModel(job(*TASKS, preemptible=True))
    cluster.place(learner="a a", collector="b b")
    replaced(cluster)
    ask(cluster)
    assert (replaced(cluster), cluster.phase, cluster.counts) == (ALL, "Running", (0, 0))
    assert {pod["metadata"]["annotations"]["diengine/node"] for pod in cluster.pods.values()} == {
        *("a", "b")
    }


def test_a_hanging_job_is_restarted_without_being_counted() -> None:
    policy = {"timeoutSeconds": 60, "action": "RestartJob"}
    cluster = running(*TASKS, progressPolicy=policy, backoffLimit=1).pass_time(1)
    cluster.report(envSteps=10).settle()
    ask(cluster)
    cluster.pass_time(61)
    assert (replaced(cluster), cluster.counts) == (ALL, (0, 0))


@pytest.mark.parametrize("crash_after", range(1, 8))
def test_a_crash_repeats_no_restart(crash_after: int) -> None:
    cluster = running(*TASKS)
    before = cluster.uids
    ask(cluster)
    for _ in range(3):
        with suppress(Crash):
            cluster.reconcile(crash_after=crash_after)
    replaced(cluster)
    assert cluster.pods.keys() == ALL
    assert all(uid != before[name] for name, uid in cluster.uids.items())
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}
    assert cluster.counts == (0, 0)


def test_a_status_that_was_wiped_restarts_nothing() -> None:
    cluster = running(*TASKS)
    ask(cluster)
    assert replaced(cluster) == ALL
    cluster.job["status"] = {}
    assert (replaced(cluster), cluster.status["restartedAt"]) == (set(), {"job": "now"})


@pytest.mark.parametrize(
    "written",
    [None, 3, "x", {"job": 3}, {"job": "x" * 65}, {"tasks": [1]}, {"tasks": {"learner": 1}}],
)
def test_a_malformed_handled_request_counts_as_unhandled(written: Any) -> None:
    cluster = running(*TASKS)
    ask(cluster)
    replaced(cluster)
    cluster.job["status"]["restartedAt"] = written
    assert (replaced(cluster), cluster.status["restartedAt"]["job"]) == (ALL, "now")


def test_a_coordinated_job_restarts_as_a_whole() -> None:
    cluster = test_coordinated.running(replica(FIRST))
    ask(cluster)
    cluster.reconcile()
    assert (cluster.phase, replaced(cluster)) == ("Restarting", {"x-coordinator", FIRST})
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))
    assert not is_true(well_formed(cluster.status["conditions"]), "Restarting")
    assert replaced(cluster) == set()
