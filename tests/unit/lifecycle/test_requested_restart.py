"""A restart that somebody asks for: pods begin anew once, and nothing of it counts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.conditions import is_true, well_formed
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


def anew(cluster: ClusterModel) -> set[str]:
    """Let the job do all there is to do, with a kubelet that helps; the pods that are new."""
    before = uids(cluster)
    for _ in range(6):
        cluster.settle()
        for name in [n for n, p in cluster.pods.items() if "deletionTimestamp" in p["metadata"]]:
            cluster.end(name)
        cluster.settle()
        cluster.run()
    cluster.settle()
    return {name for name, uid in uids(cluster).items() if before.get(name) != uid}


def uids(cluster: ClusterModel) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}


def counts(cluster: ClusterModel) -> tuple[int, int]:
    return cluster.status["restarts"], cluster.status["reschedules"]


def told(cluster: ClusterModel) -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in cluster.events if e.reason == "RestartRequested"]


@pytest.mark.parametrize(
    ("name", "pods", "whose"), [(None, ALL, "the job"), ("learner", LEARNERS, "task learner")]
)
def test_pods_begin_anew_once_and_nothing_counts(
    name: str | None, pods: set[str], whose: str
) -> None:
    cluster = running(*TASKS, backoffLimit=0)
    ask(cluster, name)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert cluster.condition("Restarting")["reason"] == "RestartRequested"
    assert anew(cluster) == pods
    assert cluster.phase == "Running"
    assert counts(cluster) == (0, 0)
    message = f"a restart of {whose} was asked for, {len(pods)} pods to replace"
    assert told(cluster) == [("RestartRequested", message)]
    assert anew(cluster) == set()
    # The same text again is no new request, nor is none.
    ask(cluster, name)
    cluster.edit(restartedAt=None)
    assert anew(cluster) == set()
    ask(cluster, name, "later")
    assert anew(cluster) == pods
    assert counts(cluster) == (0, 0)
    assert len(told(cluster)) == 2


def test_no_new_pod_meets_an_old_one_of_its_task() -> None:
    cluster = running(*TASKS)
    ask(cluster)
    cluster.settle()
    cluster.end("x-learner-0")
    cluster.settle()
    assert "x-learner-0" not in cluster.pods
    cluster.end("x-learner-1")
    cluster.settle()
    assert cluster.pods.keys() >= LEARNERS


def test_requests_for_two_tasks_are_two() -> None:
    cluster = running(*TASKS)
    ask(cluster, "learner")
    ask(cluster, "collector")
    assert anew(cluster) == ALL
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}


def test_one_request_after_the_other_is_heeded_while_pods_end() -> None:
    cluster = running(*TASKS)
    ask(cluster, "learner")
    cluster.settle()
    ask(cluster, "learner", "later")
    assert anew(cluster) == LEARNERS
    assert cluster.status["restartAttempts"] == {"learner": 2}
    assert len(told(cluster)) == 2


def test_a_job_that_is_made_with_the_field_starts_once() -> None:
    cluster = ClusterModel(job(*TASKS, restartedAt="then"))
    assert anew(cluster) == ALL
    assert (cluster.phase, told(cluster)) == ("Running", [])
    assert cluster.status["restartedAt"] == {"job": "then"}


def test_what_waits_has_nothing_to_begin_anew() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    assert (cluster.phase, {*cluster.pods}) == ("Pending", {"x-learner-0"})
    ask(cluster, "collector")
    cluster.settle()
    assert told(cluster) == []
    assert anew(cluster) == {"x-collector-0"}
    assert told(cluster) == []


def test_a_part_of_a_job_that_waits_begins_anew() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    ask(cluster)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert anew(cluster) == {"x-learner-0", "x-collector-0"}
    assert len(told(cluster)) == 1


def test_a_suspended_job_begins_anew_with_its_resumption_only() -> None:
    cluster = running(*TASKS)
    cluster.edit(suspend=True)
    anew(cluster)
    assert not cluster.pods
    ask(cluster)
    anew(cluster)
    assert not cluster.pods
    cluster.edit(suspend=False)
    assert anew(cluster) == ALL
    assert told(cluster) == []


def test_a_failure_that_is_seen_with_it_is_counted_first() -> None:
    cluster = running(*TASKS)
    cluster.fail("x-collector-0")
    ask(cluster)
    assert anew(cluster) == ALL
    assert counts(cluster) == (1, 0)
    assert cluster.phase == "Running"
    cluster = running(*TASKS, backoffLimit=0)
    cluster.fail("x-collector-0")
    ask(cluster)
    cluster.settle()
    assert cluster.phase == "Failed"


def test_a_restart_by_a_rule_is_the_one_that_was_asked_for() -> None:
    policy = {"rules": [{"tasks": ["learner"], "action": "RestartTask"}]}
    cluster = running(*TASKS, failurePolicy=policy)
    cluster.fail("x-learner-0")
    ask(cluster, "learner")
    assert anew(cluster) == LEARNERS
    assert (counts(cluster), told(cluster)) == ((1, 0), [])
    assert cluster.status["restartAttempts"] == {"learner": 1}


def test_what_has_succeeded_begins_anew_but_no_job_that_is_over() -> None:
    cluster = running(*TASKS)
    cluster.succeed(*LEARNERS)
    ask(cluster)
    assert anew(cluster) == ALL
    cluster.succeed()
    ask(cluster, text="later")
    cluster.settle()
    assert cluster.phase == "Succeeded"


def test_those_that_stand_by_are_made_anew_too() -> None:
    cluster = running(task("learner"), task("work", 2, standby=1))
    anew(cluster)
    assert "x-work-standby-0" in cluster.pods
    ask(cluster, "work")
    assert anew(cluster) == {"x-work-0", "x-work-1", "x-work-standby-0"}
    assert counts(cluster) == (0, 0)


def test_a_placed_job_stays_on_its_nodes() -> None:
    cluster = ClusterModel(job(*TASKS, preemptible=True))
    cluster.place(learner="a a", collector="b b")
    anew(cluster)
    ask(cluster)
    assert anew(cluster) == ALL
    assert (cluster.phase, counts(cluster)) == ("Running", (0, 0))
    assert {pod["metadata"]["annotations"]["diengine/node"] for pod in cluster.pods.values()} == {
        *("a", "b")
    }


def test_a_hanging_job_is_restarted_without_being_counted() -> None:
    policy = {"timeoutSeconds": 60, "action": "RestartJob"}
    cluster = running(*TASKS, progressPolicy=policy, backoffLimit=1)
    cluster.pass_time(1)
    cluster.report(envSteps=10)
    cluster.settle()
    ask(cluster)
    cluster.pass_time(61)
    assert anew(cluster) == ALL
    assert counts(cluster) == (0, 0)


@pytest.mark.parametrize("crash_after", range(1, 8))
def test_a_crash_repeats_no_restart(crash_after: int) -> None:
    cluster = running(*TASKS)
    before = uids(cluster)
    ask(cluster)
    for _ in range(3):
        with suppress(Crash):
            cluster.reconcile(crash_after=crash_after)
    anew(cluster)
    assert cluster.pods.keys() == ALL
    assert all(uid != before[name] for name, uid in uids(cluster).items())
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}
    assert counts(cluster) == (0, 0)


def test_a_status_that_was_wiped_restarts_nothing() -> None:
    cluster = running(*TASKS)
    ask(cluster)
    assert anew(cluster) == ALL
    cluster.job["status"] = {}
    assert anew(cluster) == set()
    assert cluster.status["restartedAt"] == {"job": "now"}


@pytest.mark.parametrize(
    "written",
    [None, 3, "x", {"job": 3}, {"job": "x" * 65}, {"tasks": [1]}, {"tasks": {"learner": 1}}],
)
def test_what_cannot_be_read_of_the_status_was_not_heeded(written: Any) -> None:
    cluster = running(*TASKS)
    ask(cluster)
    anew(cluster)
    cluster.job["status"]["restartedAt"] = written
    assert anew(cluster) == ALL
    assert cluster.status["restartedAt"]["job"] == "now"


def test_a_job_with_a_coordinator_begins_anew_as_a_whole() -> None:
    cluster = test_coordinated.running(replica(FIRST))
    ask(cluster)
    cluster.reconcile()
    assert cluster.phase == "Restarting"
    assert anew(cluster) == {"x-coordinator", FIRST}
    assert (cluster.phase, counts(cluster)) == ("Running", (0, 0))
    assert not is_true(well_formed(cluster.status["conditions"]), "Restarting")
    assert anew(cluster) == set()
