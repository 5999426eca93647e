"""The members of a process group."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.decide import Decision
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, task
from tests.unit.lifecycle.kubelet_model import Object

GROUP: Object = {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600}
ELASTIC: Object = {"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4}
LEARNERS = [f"x-learner-{index}" for index in range(4)]


def elastic(replicas: int = 4, **fields: Any) -> ClusterModel:
    """A job whose pods are made, and do not run yet."""
    group = {**ELASTIC, **fields}
    cluster = ClusterModel(job(task("learner", replicas, **group), backoffLimit=99))
    return cluster.settle()


def join(cluster: ClusterModel, *indexes: int) -> Decision:
    cluster.run(*(LEARNERS[index] for index in indexes))
    return cluster.wait(0).decide()


def group(cluster: ClusterModel) -> Object:
    found: Object = cluster.status["groups"]["learner"]
    return found


def told(cluster: ClusterModel) -> Object:
    """What the file says."""
    found: Object = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.learner"])
    return found


def world(cluster: ClusterModel) -> tuple[int, list[int]]:
    """Generation and members, as status and file have them."""
    found, file = group(cluster), told(cluster)
    assert (file["generation"], file["state"]) == (found["generation"], found["state"])
    if found["state"] != "Formed":
        assert (file["members"], file["worldSize"], file["masterAddress"]) == ([], 0, "")
        return found["generation"], []
    assert file["members"] == sorted(map(int, found["members"]))
    return found["generation"], file["members"]


def uids(cluster: ClusterModel, *indexes: int) -> dict[str, str]:
    return {
        str(index): cluster.objects["Pod", LEARNERS[index]]["metadata"]["uid"] for index in indexes
    }


@pytest.mark.proves(
    "process-groups.md#generations",
    "dijob.md#spec-tasks/processgroup-lastcallseconds",
    "events.md#of-its-life/groupformed",
    "dijob.md#status/groups",
)
def test_a_group_forms_after_the_last_call_without_a_new_member() -> None:
    cluster = elastic()
    assert told(cluster)["state"] == "Forming"
    join(cluster, 0)
    cluster.pass_time(10)
    waits = join(cluster, 1)
    assert waits.requeue_after == 60
    cluster.pass_time(59).wait(0)
    assert world(cluster) == (0, [])
    cluster.pass_time(1).wait(0)
    assert (world(cluster), group(cluster)["members"]) == ((1, [0, 1]), uids(cluster, 0, 1))
    assert told(cluster) == {
        "generation": 1,
        "state": "Formed",
        "worldSize": 2,
        "masterAddress": "x-learner-0.di-x.rl.svc.cluster.local",
        "members": [0, 1],
    }
    event = next(each for each in cluster.events if each.reason is Reason.GROUP_FORMED)
    assert event.message == "task learner: generation 1 with 2 members"


def test_a_group_forms_at_once_when_all_members_have_joined() -> None:
    cluster = elastic(processGroup={**GROUP, "processesPerReplica": 2})
    join(cluster, 0, 1)
    join(cluster, 2)
    assert world(cluster) == (0, [])
    join(cluster, 3)
    assert (world(cluster), told(cluster)["worldSize"]) == ((1, [0, 1, 2, 3]), 8)


@pytest.mark.proves("dijob.md#spec-tasks/processgroup-deadlineseconds")
def test_late_members_do_not_delay_the_group_past_the_deadline() -> None:
    cluster = elastic()
    for passed in range(0, 600, 50):
        # Two that stay, and one that comes again and again.
        join(cluster, 0, 1)
        cluster.fail(LEARNERS[2]).wait(0)
        join(cluster, 2)
        assert world(cluster) == (0, []), passed
        cluster.pass_time(50)
    cluster.wait(0)
    assert world(cluster) == (1, [0, 1, 2])


@pytest.mark.proves("events.md#of-problems/insufficientreplicas")
def test_no_group_forms_below_the_minimum_of_members() -> None:
    cluster = elastic()
    assert join(cluster, 3).requeue_after == 600
    cluster.pass_time(600).wait(0)
    assert (world(cluster), group(cluster)["state"]) == ((0, []), "InsufficientReplicas")
    short = cluster.condition("InsufficientReplicas")
    assert (short["status"], short["reason"]) == ("True", "DeadlinePassed")
    assert "task learner had 1 of at least 2 members" in short["message"]
    assert [each.reason for each in cluster.events].count(Problem.INSUFFICIENT_REPLICAS) == 1
    assert cluster.phase == "Starting"
    cluster.fail(LEARNERS[3]).wait(0)
    assert (group(cluster)["state"], group(cluster)["members"]) == ("InsufficientReplicas", {})
    cluster.pass_time(5000)
    join(cluster, 3)
    join(cluster, 1)
    assert cluster.condition("InsufficientReplicas")["status"] == "False"
    cluster.pass_time(60).wait(0)
    assert world(cluster) == (1, [1, 3])


@pytest.mark.proves("process-groups.md#generations")
def test_a_new_pod_takes_its_predecessors_place_in_the_group() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    before = uids(cluster, 0, 1, 2)
    cluster.fail(LEARNERS[3]).wait(0)
    assert (world(cluster), group(cluster)["members"]) == ((1, []), before)
    cluster.run().wait(0)
    assert world(cluster) == (2, [0, 1, 2, 3])
    assert group(cluster)["members"] == uids(cluster, 0, 1, 2, 3)
    assert before.items() <= group(cluster)["members"].items()
    # And after a pod that vanished.
    cluster.delete_pod(LEARNERS[0], force=True).settle().run().wait(0)
    assert world(cluster) == (3, [0, 1, 2, 3])


@given(crash_after=st.integers(0, 6), seconds=st.integers(0, 59))
def test_an_operator_crash_does_not_change_the_group(crash_after: int, seconds: int) -> None:
    cluster = elastic().run(*LEARNERS[:2])
    for passed in (0, seconds, 60 - seconds):
        cluster.pass_time(passed)
        for limit in (crash_after, None):
            try:
                cluster.reconcile(crash_after=limit)
            except Crash:
                continue
    # The time of the join is that of the first write that held, which is this very moment.
    cluster.wait(0)
    assert world(cluster) == (1, [0, 1])
    assert group(cluster)["since"] == "2026-01-01T12:01:00Z"


def test_a_group_forms_at_once_when_its_size_falls_to_its_members() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2)
    assert world(cluster) == (0, [])
    tasks = [{**cluster.job["spec"]["tasks"][0], "replicas": 3, "maxReplicas": 3}]
    cluster.edit(tasks=tasks).wait(0)
    assert world(cluster) == (1, [0, 1, 2])


@pytest.mark.proves(
    "process-groups.md#elastic-groups",
    "dijob.md#spec-tasks/processgroup-elastic",
    "allocation.md#a-job-that-shares/learners-that-are-an-elastic-group-do",
)
@pytest.mark.parametrize("placed", [False, True])
def test_scaling_keeps_the_pods_that_stay(placed: bool) -> None:
    cluster = elastic(2)
    if placed:
        cluster = ClusterModel(job(task("learner", 2, **ELASTIC), preemptible=True))
        cluster.place(learner="a b").settle()
    join(cluster, 0, 1)
    first = uids(cluster, 0, 1)
    for replicas in (4, 3):
        if placed:
            cluster.place(learner=" ".join("abcd"[:replicas]))
        else:
            cluster.scale("learner", replicas)
        cluster.settle().end_deleted().run().wait(0)
        assert (len(cluster.pods), uids(cluster, 0, 1)) == (replicas, first)
    assert (world(cluster), cluster.status["restarts"]) == ((3, [0, 1, 2]), 0)


def test_a_pending_member_joins_when_it_runs() -> None:
    cluster = elastic().refuse(LEARNERS[3], "no room")
    join(cluster, 0, 1, 2)
    cluster.pass_time(60).wait(0)
    assert world(cluster) == (1, [0, 1, 2])
    cluster.pass_time(1000)
    assert cluster.wait(0).decide().requeue_after is None
    join(cluster, 3)
    assert world(cluster) == (2, [0, 1, 2, 3])


def test_a_member_that_succeeded_stays_in_the_group() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.succeed(LEARNERS[0]).wait(0)
    assert world(cluster) == (1, [0, 1, 2, 3])
    cluster.succeed().settle()
    assert (cluster.phase, group(cluster)["generation"]) == ("Succeeded", 1)


def test_a_resumed_job_forms_its_group_again() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.edit(suspend=True).wait(0)
    assert group(cluster) == {"generation": 1, "state": "Forming", "members": {}}
    cluster.end(*LEARNERS)
    cluster.wait(0).pass_time(3600).edit(suspend=False).settle()
    cluster.run().wait(0)
    assert world(cluster) == (2, [0, 1, 2, 3])


@pytest.mark.parametrize(
    "written",
    [
        None,
        7,
        {"learner": []},
        {"learner": {"generation": -1, "state": "Formed", "members": {}}},
        {"learner": {"generation": 2**63 - 1, "state": "Formed", "members": {}}},
        {"learner": {"generation": True, "state": "Formed", "members": {}}},
        {"learner": {"generation": 1, "state": "Reformed", "members": {}}},
        {"learner": {"generation": 1, "state": "Formed", "members": {"99999999999": "u"}}},
        {"learner": {"generation": 1, "state": "Formed", "members": {"x": "u"}}},
        {"learner": {"generation": 1, "state": "Formed", "members": {"0": 7}}},
        {"learner": {"generation": 1, "state": "Forming", "members": {"0": "u"}, "since": "9"}},
        {
            "learner": {
                "generation": 1,
                "state": "Forming",
                "members": {"0": "u"},
                "since": "2999-01-01T00:00:00Z",
            }
        },
    ],
    ids=str,
)
def test_an_edited_group_status_does_not_block_the_group(written: object) -> None:
    cluster = elastic()
    join(cluster, 0, 1)
    cluster.patch_status({"groups": None}).patch_status({"groups": written}).wait(0)
    cluster.pass_time(60).wait(0)
    assert world(cluster)[1] == [0, 1]


def test_a_group_file_that_was_changed_is_restored_with_an_event() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    assert Reason.NODE_LISTS_RESTORED not in [each.reason for each in cluster.events]
    cluster.objects["ConfigMap", "di-x"]["data"]["groups.learner"] = "{}"
    cluster.wait(0)
    assert world(cluster) == (1, [0, 1, 2, 3])
    del cluster.objects["ConfigMap", "di-x"]
    cluster.wait(0)
    assert world(cluster) == (1, [0, 1, 2, 3])
    restored = [each for each in cluster.events if each.reason is Reason.NODE_LISTS_RESTORED]
    assert len(restored) == 2


def test_a_group_of_fixed_size_forms_with_all_members_only() -> None:
    cluster = ClusterModel(job(task("learner", 2, processGroup={"framework": "torch"})))
    cluster.settle()
    assert cluster.env(LEARNERS[0])["DI_GROUP_FILE"] == "/etc/diengine/nodes/groups.learner"
    cluster.run(LEARNERS[1]).wait(0).pass_time(599).wait(0)
    assert world(cluster) == (0, [])
    join(cluster, 0)
    assert world(cluster) == (1, [0, 1])
    cluster.scale("learner", 3).settle()
    assert world(cluster) == (1, [])
    cluster.end_deleted().settle().run().wait(0)
    assert world(cluster) == (2, [0, 1, 2])


def test_a_restarted_task_forms_a_group_of_its_new_pods() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.patch_status({"restartAttempts": {"learner": 1}}).wait(0)
    assert world(cluster) == (1, [])
    cluster.end_deleted().settle().run().wait(0)
    assert world(cluster) == (2, [0, 1, 2, 3])
