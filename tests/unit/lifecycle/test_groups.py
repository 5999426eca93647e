"""Who belongs to a process group: the rows D of the acceptance scenarios."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.decide import Decision
from di_operator.lifecycle.reasons import Problem, Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, Object, job, task

GROUP: Object = {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600}
LEARNERS = [f"x-learner-{index}" for index in range(4)]


def elastic(replicas: int = 4, **fields: Any) -> ClusterModel:
    """A job whose pods are made, and do not run yet."""
    group = {"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4, **fields}
    cluster = ClusterModel(job(task("learner", replicas, **group), backoffLimit=99))
    cluster.settle()
    return cluster


def look(cluster: ClusterModel) -> Decision:
    """Reconcile until nothing is left to do at this moment."""
    for _ in range(10):
        decision = cluster.reconcile()
        if not decision.actions and decision.status is None:
            return decision
    raise AssertionError("no fixed point")


def join(cluster: ClusterModel, *indexes: int) -> Decision:
    cluster.run(*(LEARNERS[index] for index in indexes))
    return look(cluster)


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


def test_d1_a_world_is_formed_when_nobody_has_joined_for_the_last_call() -> None:
    cluster = elastic()
    assert told(cluster)["state"] == "Forming"
    join(cluster, 0)
    cluster.pass_time(10)
    waits = join(cluster, 1)
    assert waits.requeue_after == 60
    cluster.pass_time(59)
    look(cluster)
    assert world(cluster) == (0, [])
    cluster.pass_time(1)
    look(cluster)
    assert world(cluster) == (1, [0, 1])
    assert group(cluster)["members"] == uids(cluster, 0, 1)
    assert told(cluster) == {
        "generation": 1,
        "state": "Formed",
        "worldSize": 2,
        "masterAddress": "x-learner-0.di-x.rl.svc.cluster.local",
        "members": [0, 1],
    }
    event = next(each for each in cluster.events if each.reason is Reason.GROUP_FORMED)
    assert event.message == "task learner: generation 1 with 2 members"


def test_d2_with_all_of_them_it_is_formed_at_once() -> None:
    cluster = elastic()
    join(cluster, 0, 1)
    join(cluster, 2)
    assert world(cluster) == (0, [])
    join(cluster, 3)
    assert world(cluster) == (1, [0, 1, 2, 3])


def test_d3_who_trickles_in_does_not_put_it_off_past_the_deadline() -> None:
    cluster = elastic()
    for passed in range(0, 600, 50):
        # Two that stay, and one that comes again and again.
        join(cluster, 0, 1)
        cluster.fail(LEARNERS[2])
        look(cluster)
        join(cluster, 2)
        assert world(cluster) == (0, []), passed
        cluster.pass_time(50)
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2])


def test_d4_there_is_no_world_below_the_least() -> None:
    cluster = elastic()
    assert join(cluster, 3).requeue_after == 600
    cluster.pass_time(600)
    look(cluster)
    assert world(cluster) == (0, [])
    assert group(cluster)["state"] == "InsufficientReplicas"
    short = cluster.condition("InsufficientReplicas")
    assert (short["status"], short["reason"]) == ("True", "DeadlinePassed")
    assert "task learner had 1 of at least 2 members" in short["message"]
    assert [each.reason for each in cluster.events].count(Problem.INSUFFICIENT_REPLICAS) == 1
    assert cluster.phase == "Starting"

    cluster.pass_time(5000)
    join(cluster, 1)
    assert cluster.condition("InsufficientReplicas")["status"] == "False"
    cluster.pass_time(60)
    look(cluster)
    assert world(cluster) == (1, [1, 3])


def test_d5_a_new_pod_takes_the_place_of_the_old_one_and_the_dead_are_no_members() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    before = uids(cluster, 0, 1, 2)
    cluster.fail(LEARNERS[3])
    look(cluster)
    assert world(cluster) == (1, [])
    assert group(cluster)["members"] == before
    cluster.run()
    look(cluster)
    assert world(cluster) == (2, [0, 1, 2, 3])
    assert group(cluster)["members"] == uids(cluster, 0, 1, 2, 3)
    assert before.items() <= group(cluster)["members"].items()

    # And one that nobody was seen to leave.
    cluster.delete_pod(LEARNERS[0], force=True)
    cluster.settle()
    cluster.run()
    look(cluster)
    assert world(cluster) == (3, [0, 1, 2, 3])


@given(crash_after=st.integers(0, 6), seconds=st.integers(0, 59))
def test_d6_an_operator_that_dies_in_between_leaves_the_same_world(
    crash_after: int, seconds: int
) -> None:
    cluster = elastic()
    cluster.run(*LEARNERS[:2])
    for passed in (0, seconds, 60 - seconds):
        cluster.pass_time(passed)
        for limit in (crash_after, None):
            try:
                cluster.reconcile(crash_after=limit)
            except Crash:
                continue
    # The time of the join is that of the first write that held, which is this very moment.
    look(cluster)
    assert world(cluster) == (1, [0, 1])
    assert group(cluster)["since"] == "2026-01-01T12:01:00Z"


def test_d7_with_all_that_are_left_to_want_it_is_formed_at_once() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2)
    assert world(cluster) == (0, [])
    tasks = [{**cluster.job["spec"]["tasks"][0], "replicas": 3, "maxReplicas": 3}]
    cluster.edit(tasks=tasks)
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2])


@pytest.mark.parametrize("placed", [False, True])
def test_d8_who_stays_keeps_its_pod(placed: bool) -> None:
    cluster = elastic(2)
    if placed:
        cluster = ClusterModel(job(task("learner", 2, **elastic_fields()), preemptible=True))
        cluster.place(learner="a b")
        cluster.settle()
    join(cluster, 0, 1)
    first = uids(cluster, 0, 1)
    for replicas in (4, 3):
        if placed:
            cluster.place(learner=" ".join("abcd"[:replicas]))
        else:
            cluster.scale("learner", replicas)
        cluster.settle()
        for name, pod in cluster.pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                cluster.end(name)
        cluster.run()
        look(cluster)
        assert len(cluster.pods) == replicas
        assert uids(cluster, 0, 1) == first
    assert world(cluster) == (3, [0, 1, 2])
    assert cluster.status["restarts"] == 0


def elastic_fields() -> Object:
    return {"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4}


def test_d9_one_that_stays_pending_is_taken_in_when_it_comes() -> None:
    cluster = elastic()
    cluster.refuse(LEARNERS[3], "no room")
    join(cluster, 0, 1, 2)
    cluster.pass_time(60)
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2])
    cluster.pass_time(1000)
    assert look(cluster).requeue_after is None
    join(cluster, 3)
    assert world(cluster) == (2, [0, 1, 2, 3])


def test_a_program_that_ends_is_no_member_that_left() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.succeed(LEARNERS[0])
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2, 3])
    cluster.succeed()
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert group(cluster)["generation"] == 1


def test_a_suspended_job_has_a_world_again_when_it_goes_on() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.edit(suspend=True)
    look(cluster)
    assert group(cluster) == {"generation": 1, "state": "Forming", "members": {}}
    for name in LEARNERS:
        cluster.end(name)
    look(cluster)
    cluster.pass_time(3600)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.run()
    look(cluster)
    assert world(cluster) == (2, [0, 1, 2, 3])


def test_the_processes_of_a_pod_count() -> None:
    cluster = elastic(processGroup={**GROUP, "processesPerReplica": 2})
    join(cluster, 0, 1, 2, 3)
    assert told(cluster)["worldSize"] == 8


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
def test_a_status_edited_by_hand_holds_nobody_up(written: object) -> None:
    cluster = elastic()
    join(cluster, 0, 1)
    cluster.patch_status({"groups": None})
    cluster.patch_status({"groups": written})
    look(cluster)
    cluster.pass_time(60)
    look(cluster)
    assert world(cluster)[1] == [0, 1]


def test_the_file_is_put_back_and_no_restoration_is_told_of_news() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    assert Reason.NODE_LISTS_RESTORED not in [each.reason for each in cluster.events]
    cluster.objects["ConfigMap", "di-x"]["data"]["groups.learner"] = "{}"
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2, 3])
    del cluster.objects["ConfigMap", "di-x"]
    look(cluster)
    assert world(cluster) == (1, [0, 1, 2, 3])
    restored = [each for each in cluster.events if each.reason is Reason.NODE_LISTS_RESTORED]
    assert len(restored) == 2


def test_a_group_of_fixed_size_has_a_world_of_all() -> None:
    cluster = ClusterModel(job(task("learner", 2, processGroup={"framework": "torch"})))
    cluster.settle()
    assert cluster.env(LEARNERS[0])["DI_GROUP_FILE"] == "/etc/diengine/nodes/groups.learner"
    cluster.run(LEARNERS[1])
    look(cluster)
    cluster.pass_time(599)
    look(cluster)
    assert world(cluster) == (0, [])
    join(cluster, 0)
    assert world(cluster) == (1, [0, 1])
    cluster.scale("learner", 3)
    cluster.settle()
    cluster.run()
    look(cluster)
    assert world(cluster) == (2, [0, 1, 2])


def test_other_jobs_have_no_groups_and_no_file() -> None:
    policy = {"rules": [{"action": "RestartTask"}]}
    cluster = ClusterModel(job(task("learner", 2), failurePolicy=policy))
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert "groups" not in cluster.status
    assert not any(kind == "ConfigMap" for kind, _ in cluster.objects)


def test_the_pods_find_the_file() -> None:
    cluster = elastic()
    spec = cluster.pods[LEARNERS[1]]["spec"]
    assert cluster.env(LEARNERS[1])["DI_GROUP_FILE"] == "/etc/diengine/nodes/groups.learner"
    assert spec["volumes"] == [{"name": "di-nodes", "configMap": {"name": "di-x"}}]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount["name"]) == ("/etc/diengine/nodes", "di-nodes")


def test_a_restart_of_the_whole_task_forms_a_world_of_the_new_pods() -> None:
    cluster = elastic()
    join(cluster, 0, 1, 2, 3)
    cluster.patch_status({"restartAttempts": {"learner": 1}})
    look(cluster)
    assert world(cluster) == (1, [])
    for name in [*cluster.pods]:
        if "deletionTimestamp" in cluster.pods[name]["metadata"]:
            cluster.end(name)
    cluster.settle()
    cluster.run()
    look(cluster)
    assert world(cluster) == (2, [0, 1, 2, 3])
