"""What has succeeded stays so, by index in the status, whatever becomes of its pod."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.spec import MAX_PODS
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.completed import dump_completed, read_completed
from di_operator.lifecycle.policy import COUNTS_PERIOD
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task

ONCE = "x-evaluator-0"
TASKS = (task("learner"), task("evaluator"), task("collector", 4))
COMPLETED = "completedIndexes"


def evaluated(*pods: str, **spec: Any) -> ClusterModel:
    """A job that runs, some of whose pods have succeeded."""
    cluster = running(*TASKS, **spec).succeed(*(pods or (ONCE,)))
    return cluster.pass_time(COUNTS_PERIOD).settle()


def delete_held(cluster: ClusterModel, name: str, *, is_seen: bool = True) -> None:
    """Delete a pod that a finalizer of another controller holds, and whose end was seen before."""
    if is_seen:
        cluster.deleted_pods.append(copy.deepcopy(cluster.objects["Pod", name]))
    cluster.objects["Pod", name]["metadata"] |= {
        "finalizers": ["example.org/hold"],
        "deletionTimestamp": format_time(cluster.now),
        "deletionGracePeriodSeconds": 0,
    }


def forget(cluster: ClusterModel, name: str) -> None:
    """A drain, the pod garbage collector or a user takes the pod away."""
    cluster.delete_pod(name, force=True)


@pytest.mark.proves("dijob.md#status/completedindexes")
@pytest.mark.parametrize("lose", [forget, delete_held])
def test_a_completed_pod_that_is_evicted_does_not_run_again(lose: Any) -> None:
    policy = {"tasks": ["learner", "evaluator"], "operator": "All", "gracePeriodSeconds": 30}
    cluster = evaluated(successPolicy=policy)
    assert cluster.status[COMPLETED] == {"evaluator": "0"}
    lose(cluster, ONCE)
    created = cluster.made
    cluster.settle().pass_time(600).settle()
    assert (cluster.phase, cluster.counts, cluster.made) == ("Running", (0, 0), created)
    assert cluster.status["taskStatus"]["evaluator"] == {"Succeeded": 1}
    cluster.succeed("x-learner-0").settle().end_deleted().settle()
    assert cluster.phase == "Succeeded"


def test_the_job_succeeds_although_no_pod_of_it_is_left() -> None:
    cluster = running(*TASKS)
    for name in sorted(cluster.pods):
        cluster.succeed(name).settle()
        forget(cluster, name)
        cluster.settle()
    assert (cluster.phase, cluster.counts) == ("Succeeded", (0, 0))
    assert cluster.condition("Succeeded")["message"] == "6 pods succeeded"
    made = [write for write in cluster.writes if write.startswith("create Pod")]
    assert len(made) == 6


def test_indexes_of_pods_that_end_one_after_the_other_are_one_write() -> None:
    cluster = running(*TASKS).pass_time(COUNTS_PERIOD)
    before = cluster.writes.count("status")
    for number in range(3):
        cluster.succeed(f"x-collector-{number}").reconcile()
    assert cluster.status[COMPLETED] == {"collector": "0"}
    wait = cluster.reconcile().requeue_after
    assert wait is not None
    assert wait <= COUNTS_PERIOD
    cluster.pass_time(wait).reconcile()
    assert cluster.status[COMPLETED] == {"collector": "0-2"}
    assert cluster.writes.count("status") == before + 2


def test_the_index_of_a_pod_that_is_being_deleted_is_written_at_once() -> None:
    cluster = running(*TASKS).succeed(ONCE)
    delete_held(cluster, ONCE)
    cluster.reconcile()
    assert cluster.status[COMPLETED] == {"evaluator": "0"}


@pytest.mark.parametrize("after", [0, 1])
def test_a_pod_that_ends_after_its_sigterm_has_not_succeeded(after: int) -> None:
    cluster = running(*TASKS).succeed(ONCE).pass_time(after)
    # The kubelet has confirmed the end, which ends the grace period.
    delete_held(cluster, ONCE, is_seen=False)
    cluster.reconcile()
    assert COMPLETED not in cluster.status


def test_a_pod_that_is_gone_before_its_index_was_written_does_not_run_again() -> None:
    cluster = running(*TASKS).succeed(ONCE)
    forget(cluster, ONCE)
    cluster.reconcile()
    assert cluster.status[COMPLETED] == {"evaluator": "0"}
    cluster.settle()
    assert ONCE not in cluster.pods


def test_a_gone_pod_of_before_the_restart_of_its_task_runs_again() -> None:
    cluster = running(*TASKS).succeed(ONCE)
    gone = cluster.objects["Pod", ONCE]
    tasks = [
        {**each, "restartedAt": "now"} if each["name"] == "evaluator" else each
        for each in cluster.job["spec"]["tasks"]
    ]
    cluster.edit(tasks=tasks).settle().end_deleted()
    cluster.deleted_pods.append(gone)
    cluster.settle()
    assert ONCE in cluster.pods
    assert COMPLETED not in cluster.status


def test_a_pod_that_ends_after_its_deletion_runs_again() -> None:
    cluster = running(*TASKS)
    cluster.delete_pod(ONCE).succeed(ONCE).pass_time(COUNTS_PERIOD).settle()
    assert COMPLETED not in cluster.status


@given(crash_after=st.integers(0, 3))
def test_a_crash_at_any_write_makes_no_second_run(crash_after: int) -> None:
    cluster = running(*TASKS).succeed(ONCE)
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    cluster.settle()
    forget(cluster, ONCE)
    cluster.settle()
    assert ONCE not in cluster.pods


@pytest.mark.proves("lifecycle.md#completed-indexes/the-job-is-suspended-or-queued-and-goes")
def test_a_suspended_job_resumes_without_what_has_succeeded() -> None:
    cluster = evaluated(ONCE, "x-collector-2").edit(suspend=True).settle().end_deleted().settle()
    forget(cluster, ONCE)
    forget(cluster, "x-collector-2")
    cluster.settle().edit(suspend=False).settle()
    assert sorted(cluster.pods) == [
        *("x-collector-0", "x-collector-1", "x-collector-3", "x-learner-0")
    ]
    cluster.run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))


def test_other_pods_are_replaced_and_do_not_find_the_completed_one() -> None:
    cluster = evaluated("x-collector-1")
    forget(cluster, "x-collector-1")
    cluster.fail("x-learner-0").settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))
    nodes = cluster.env("x-learner-0")["DI_COLLECTOR_NODES"].split(",")
    assert [node.partition(".")[0] for node in nodes] == [
        *("x-collector-0", "localhost", "x-collector-2", "x-collector-3")
    ]


@pytest.mark.proves("lifecycle.md#completed-indexes/the-task-has-fewer-replicas-or-the-index")
def test_a_replica_that_was_scaled_away_begins_again() -> None:
    cluster = evaluated("x-collector-1", "x-collector-3")
    assert cluster.status[COMPLETED] == {"collector": "1,3"}
    cluster.scale("collector", 2).settle().end_deleted().settle()
    assert cluster.status[COMPLETED] == {"collector": "1"}
    forget(cluster, "x-collector-1")
    cluster.settle().scale("collector", 4).settle()
    assert {name for name in cluster.pods if "collector" in name} == {
        *("x-collector-0", "x-collector-2", "x-collector-3")
    }


@pytest.mark.proves("lifecycle.md#completed-indexes/the-task-has-fewer-replicas-or-the-index")
def test_a_vacant_index_is_dropped() -> None:
    cluster = evaluated("x-collector-1")
    tasks = [
        {**each, "replicas": 3, "vacant": [1]} if each["name"] == "collector" else each
        for each in cluster.job["spec"]["tasks"]
    ]
    cluster.edit(tasks=tasks).settle()
    assert COMPLETED not in cluster.status
    assert "x-collector-1" not in cluster.pods
    cluster.edit(tasks=[*TASKS]).settle()
    assert "x-collector-1" in cluster.pods


@pytest.mark.proves("lifecycle.md#completed-indexes/the-task-restarts-as-a-whole-by-a-rule")
@pytest.mark.parametrize("suspended", [False, True])
def test_a_restart_on_request_runs_completed_pods_again(*, suspended: bool) -> None:
    cluster = evaluated()
    if suspended:
        cluster.edit(suspend=True).settle().end_deleted()
    forget(cluster, ONCE)
    cluster.settle()
    tasks = [
        {**each, "restartedAt": "now"} if each["name"] == "evaluator" else each
        for each in cluster.job["spec"]["tasks"]
    ]
    cluster.edit(tasks=tasks, suspend=False).settle()
    assert ONCE in cluster.pods
    assert COMPLETED not in cluster.status


@pytest.mark.proves("lifecycle.md#completed-indexes/the-task-restarts-as-a-whole-by-a-rule")
def test_a_task_that_restarts_as_a_whole_does_so_with_completed_pods() -> None:
    rules = [{"tasks": ["collector"], "action": "RestartTask"}]
    cluster = evaluated("x-collector-1", failurePolicy={"rules": rules})
    forget(cluster, "x-collector-1")
    cluster.fail("x-collector-0").settle().end_deleted().settle()
    assert COMPLETED not in cluster.status
    assert sum("collector" in name for name in cluster.pods) == 4


@pytest.mark.proves("lifecycle.md#completed-indexes/the-replica-of-several-pods-restarts")
def test_a_replica_of_several_pods_restarts_with_its_completed_pods() -> None:
    cluster = running(task("learner"), task("rollout", 2, podsPerReplica=2))
    cluster.succeed("x-rollout-0-1", "x-rollout-1-1").pass_time(COUNTS_PERIOD).settle()
    assert cluster.status[COMPLETED] == {"rollout": "1,3"}
    forget(cluster, "x-rollout-0-1")
    forget(cluster, "x-rollout-1-1")
    cluster.settle().fail("x-rollout-0-0").settle().end_deleted().settle()
    assert cluster.status[COMPLETED] == {"rollout": "3"}
    assert "x-rollout-0-1" in cluster.pods
    assert "x-rollout-1-1" not in cluster.pods


@pytest.mark.proves("lifecycle.md#completed-indexes/the-job-is-suspended-or-queued-and-goes")
def test_a_job_without_nodes_keeps_what_has_succeeded() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 2, maxReplicas=4)))
    cluster.edit(preemptible=True).place(learner="a", collector="a b b b").settle()
    cluster.run().settle().succeed("x-collector-3").settle()
    for nodes in ({"learner": "a", "collector": "a b"}, {"learner": "", "collector": ""}):
        cluster.place(**nodes).settle().end_deleted().settle()
        assert cluster.status[COMPLETED] == {"collector": "3"}
    cluster.place(learner="a", collector="a b b b").settle()
    assert "x-collector-2" in cluster.pods
    assert "x-collector-3" not in cluster.pods


def test_a_task_waits_no_longer_for_one_that_has_succeeded() -> None:
    tasks = (task("learner", dependsOn=["prepare"]), {**task("prepare"), "type": "none"})
    cluster = ClusterModel(job(*tasks)).settle().succeed("x-prepare-0")
    cluster.reconcile()
    forget(cluster, "x-prepare-0")
    cluster.settle()
    assert [*cluster.pods] == ["x-learner-0"]


def test_no_standby_pod_takes_the_place_of_a_completed_one() -> None:
    cluster = running(task("learner"), {**task("work", 2), "standby": 1}).settle().run().settle()
    cluster.succeed("x-work-1").settle()
    forget(cluster, "x-work-1")
    cluster.fail("x-learner-0").settle().run().settle()
    assert "standIns" not in cluster.status
    assert "x-work-1" not in cluster.pods


def test_a_wiped_status_is_rebuilt_from_the_pods() -> None:
    cluster = evaluated()
    cluster.job["status"] = {}
    cluster.settle()
    assert cluster.status[COMPLETED] == {"evaluator": "0"}


def test_the_indexes_stay_while_the_spec_cannot_be_read() -> None:
    cluster = evaluated().edit(tasks="none").settle()
    assert cluster.condition("SpecInvalid")["reason"] == "Unreadable"
    assert cluster.status[COMPLETED] == {"evaluator": "0"}


@given(
    st.dictionaries(
        st.sampled_from(["learner", "collector"]), st.frozensets(st.integers(0, 40), min_size=1)
    )
)
def test_indexes_are_read_as_they_were_written(completed: dict[str, frozenset[int]]) -> None:
    assert read_completed(dump_completed(completed)) == completed


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([0, 1, 2, 3, 7], "0-3,7"), ([5], "5"), ([0, 2, 3], "0,2-3"), ([], None)],
)
def test_indexes_are_written_as_ranges(indexes: list[int], text: str | None) -> None:
    assert dump_completed({"work": frozenset(indexes)}).get("work") == text


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("3-1", []),
        ("1,x,2-", [1]),
        ("-1, 4", []),
        ("999999999", []),
        ("0-3,2-5,1", [0, 1, 2, 3, 4, 5]),
        ("٣", []),
    ],
)
def test_what_is_no_range_is_left_out(text: str, indexes: list[int]) -> None:
    assert read_completed({"work": text}).get("work", frozenset()) == frozenset(indexes)


def test_the_field_of_the_largest_job_is_a_few_kilobytes() -> None:
    every_other = frozenset(range(0, MAX_PODS, 2))
    assert len(dump_completed({"work": every_other})["work"]) < 10 * 1024
    assert dump_completed({"work": frozenset(range(MAX_PODS))}) == {"work": "0-4095"}


def test_many_wide_ranges_by_hand_cost_no_more_than_one() -> None:
    text = ",".join(["0-99999"] * 10_000)
    assert len(read_completed({"work": text})["work"]) == 100_000
