"""Vacant indexes: which pods go, which stay, and what the node lists contain."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, running, task

DOMAIN = "di-x.rl.svc.cluster.local"


def vacate(cluster: ClusterModel, replicas: int, *vacant: int, name: str = "rollout") -> None:
    """The change that di-server writes."""
    tasks = [
        {**each, "replicas": replicas, "vacant": [*vacant]} if each["name"] == name else each
        for each in cluster.job["spec"]["tasks"]
    ]
    cluster.edit(tasks=tasks)


def settled(cluster: ClusterModel) -> dict[str, str]:
    """Deleted pods end, all pods become ready; the UIDs that pods have then."""
    for _ in range(2):
        cluster.settle()
        cluster.end_deleted()
    cluster.settle().run().settle()
    return cluster.uids


def of(*indexes: int) -> set[str]:
    return {f"x-rollout-{index}" for index in indexes}


def grown() -> ClusterModel:
    return running(task("learner"), task("rollout", 4))


def test_only_the_replica_of_the_vacant_index_goes() -> None:
    cluster = grown()
    before = settled(cluster)
    vacate(cluster, 3, 1)
    after = settled(cluster)
    assert after == {name: uid for name, uid in before.items() if name != "x-rollout-1"}
    assert cluster.phase == "Running"
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (4, 4)
    assert (cluster.status["reschedules"], cluster.status["restarts"]) == (1, 0)
    assert cluster.status["taskStatus"]["rollout"] == {"Running": 3}


def test_the_next_replica_takes_the_vacant_index_and_is_no_loss() -> None:
    cluster = grown()
    vacate(cluster, 3, 1)
    before = settled(cluster)
    vacate(cluster, 4)
    decision = cluster.decide()
    assert not decision.from_absence
    after = settled(cluster)
    assert {*after} - {*before} == of(1)
    assert all(after[name] == uid for name, uid in before.items())
    assert cluster.status["reschedules"] == 2


def test_node_lists_leave_the_vacant_index_out() -> None:
    cluster = grown()
    vacate(cluster, 3, 1)
    settled(cluster)
    vacate(cluster, 4, 1)
    settled(cluster)
    told = cluster.env("x-rollout-4")
    names = ["x-rollout-0", "", "x-rollout-2", "x-rollout-3", "x-rollout-4"]
    listed = [f"{name}.{DOMAIN}" if name else "localhost" for name in names]
    assert (told["DI_ROLLOUT_NODES"].split(","), told["DI_TASK_RANK"]) == (listed, "4")
    # It has the rank that is free, and finds itself there.
    assert told["DI_RANK"] == "2"
    by_rank = [f"x-learner-0.{DOMAIN}", listed[0], listed[4], *listed[2:4]]
    assert told["DI_NODES"].split(",") == by_rank


@pytest.mark.parametrize(
    ("replicas", "vacant", "there"),
    [
        (4, (1,), of(0, 2, 3, 4)),
        (2, (1,), of(0, 2)),
        (1, (1,), of(0)),
        (3, (), of(0, 1, 2)),
        (3, (1, 2), of(0, 3, 4)),
        (3, (7,), of(0, 1, 2)),
    ],
)
def test_the_replicas_follow_from_the_stored_vacancies(
    replicas: int, vacant: tuple[int, ...], there: set[str]
) -> None:
    cluster = grown()
    vacate(cluster, 3, 1)
    settled(cluster)
    vacate(cluster, replicas, *vacant)
    assert ({*settled(cluster)}, cluster.phase) == ({"x-learner-0", *there}, "Running")


def test_a_failed_replica_above_a_vacancy_counts_and_returns() -> None:
    cluster = running(task("learner"), task("rollout", 4), failurePolicy={"replicaBackoffLimit": 3})
    vacate(cluster, 3, 1)
    before = settled(cluster)
    cluster.fail("x-rollout-3")
    after = settled(cluster)
    assert {name for name in after if after[name] != before[name]} == of(3)
    assert cluster.status["restarts"] == 1
    assert [*cluster.status["replicaFailures"]["rollout"]] == ["3"]


@pytest.mark.parametrize("index", [0, 3])
def test_a_replica_lost_beside_a_vacancy_counts_once(index: int) -> None:
    cluster = grown()
    vacate(cluster, 3, 1)
    settled(cluster)
    del cluster.objects["Pod", f"x-rollout-{index}"]
    decision = cluster.decide()
    assert decision.from_absence
    assert {*settled(cluster)} == {"x-learner-0", *of(0, 2, 3)}
    assert cluster.status["reschedules"] == 2


def test_success_does_not_need_vacant_replicas() -> None:
    cluster = running(task("rollout", 4))
    vacate(cluster, 3, 1)
    settled(cluster)
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"


def test_replicas_of_several_pods_are_left_out_whole() -> None:
    cluster = running(task("rollout", 3, podsPerReplica=2, processGroup={"framework": "torch"}))
    before = settled(cluster)
    vacate(cluster, 2, 1)
    after = settled(cluster)
    assert {*before} - {*after} == {"x-rollout-1-0", "x-rollout-1-1"}
    vacate(cluster, 3, 1)
    assert {*settled(cluster)} - {*after} == {"x-rollout-3-0", "x-rollout-3-1"}
    told = cluster.env("x-rollout-3-1")
    assert (told["DI_REPLICA_INDEX"], told["DI_REPLICA_RANK"]) == ("3", "1")
    assert (told["MASTER_ADDR"], told["RANK"]) == (f"x-rollout-3-0.{DOMAIN}", "1")
    assert told["DI_ROLLOUT_NODES"].split(",")[2:4] == ["localhost", "localhost"]
    assert "replicaAttempts" not in cluster.status


def test_a_pod_lost_while_a_vacancy_fills_replaces_its_replica() -> None:
    cluster = running(task("rollout", 3, podsPerReplica=2))
    vacate(cluster, 2, 1)
    before = settled(cluster)
    del cluster.objects["Pod", "x-rollout-2-0"]
    vacate(cluster, 3)
    after = settled(cluster)
    kept = {name for name in before if after.get(name) == before[name]}
    assert (kept, len(after)) == ({"x-rollout-0-0", "x-rollout-0-1"}, 6)
    assert cluster.status["replicaAttempts"] == {"rollout": {"2": 1}}


def test_group_members_are_listed_by_index() -> None:
    group: dict[str, Any] = {"processGroup": {"elastic": True}, "minReplicas": 1, "maxReplicas": 4}
    cluster = running(task("rollout", 3, **group))
    vacate(cluster, 2, 0)
    settled(cluster)
    found = cluster.status["groups"]["rollout"]
    assert (found["state"], sorted(found["members"])) == ("Formed", ["1", "2"])


@pytest.mark.parametrize("writes", range(1, 8))
def test_an_operator_that_dies_at_any_write_takes_the_right_one(writes: int) -> None:
    cluster = grown()
    vacate(cluster, 3, 1)
    cluster.die_after(writes)
    assert {*settled(cluster)} == {"x-learner-0", *of(0, 2, 3)}
    assert cluster.status["reschedules"] == 1
