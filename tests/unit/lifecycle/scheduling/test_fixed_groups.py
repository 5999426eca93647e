"""A process group of fixed size is replaced as a whole, whatever befalls a member."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.failure.restart_delay import pauses_left
from di_operator.lifecycle.observed.ledger import Ledger, ReplicaRecord
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.kubelet_model import Object

TORCH: Object = {"processGroup": {"framework": "torch"}}
MEMBERS = ["x-learner-0", "x-learner-1", "x-learner-2"]
FIRST, LOST, LAST = MEMBERS
LOSSES = ("evicted", "failed by the node", "preempted", "deleted", "gone")
IN_PLACE: Object = {"rules": [{"action": "RestartInPlace"}]}
TARGET: Object = {"onConditions": ["DisruptionTarget"]}


def trained(replicas: int = 3, fields: Object = TORCH, **spec: Any) -> ClusterModel:
    """A job whose process group has formed, with a collector that is no member."""
    return running(task("learner", replicas, **fields), task("collector"), **spec)


def replaced(cluster: ClusterModel, before: dict[str, str]) -> list[str]:
    """The kubelet ends what is deleted and new pods run; the pods that are new."""
    for _ in range(4):
        cluster.settle().end_deleted()
    cluster.settle().run().settle()
    assert cluster.phase == "Running"
    return [name for name, uid in cluster.uids.items() if before.get(name) != uid]


def members(cluster: ClusterModel) -> tuple[int, set[str]]:
    """Generation and members of the group, which has formed."""
    group = cluster.status["groups"]["learner"]
    assert group["state"] == "Formed"
    return group["generation"], set(group["members"].values())


def whole(cluster: ClusterModel, generation: int) -> bool:
    uids = {uid for name, uid in cluster.uids.items() if "learner" in name}
    return members(cluster) == (generation, uids)


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.proves("process-groups.md#groups-of-a-fixed-size/is-lost-evicted-drained-preempted")
def test_a_lost_member_takes_its_group_along_and_nothing_counts(how: str) -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.lose(LOST, how).settle()
    assert cluster.phase == "Rescheduling"
    message = cluster.condition("Rescheduling")["message"]
    assert message.startswith(f"1 pod lost, {LOST} first")
    assert message.endswith("; all pods of task learner are replaced")
    assert cluster.status["groups"]["learner"]["state"] == "Forming"
    cluster.pass_time(1).fail(*(n for n in (FIRST, LAST) if n not in cluster.ending))
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)


@pytest.mark.parametrize("how", LOSSES)
def test_failures_that_are_seen_together_with_the_loss_before_them_do_not_count(how: str) -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.lose(LOST, how).pass_time(1).fail(FIRST, LAST)
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)


@pytest.mark.parametrize("how", LOSSES)
def test_failures_that_are_seen_before_the_loss_that_caused_them_do_not_count(how: str) -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.fail(FIRST, LAST).wait(0)
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))
    cluster.wait(2)
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))
    cluster.lose(LOST, how)
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)


@pytest.mark.parametrize("policy", [{}, {"failurePolicy": {}}, {"failurePolicy": {"rules": []}}])
@pytest.mark.proves("process-groups.md#groups-of-a-fixed-size/fails")
def test_a_failure_is_counted_once_and_the_others_are_replaced_with_it(policy: Object) -> None:
    cluster = trained(backoffLimit=1, **policy)
    before = cluster.uids
    cluster.fail(LOST, code=137).wait(0)
    assert (cluster.phase, cluster.decide().requeue_after) == ("Running", 5)
    cluster.pass_time(1).fail(FIRST).wait(0)
    cluster.wait(5)
    assert (cluster.phase, cluster.counts) == ("Restarting", (1, 0))
    assert "all pods of task learner are replaced" in cluster.condition("Restarting")["message"]
    cluster.pass_time(1).fail(*(n for n in (LAST,) if n not in cluster.ending))
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((1, 0), True)


@pytest.mark.proves("process-groups.md#groups-of-a-fixed-size/fails-and-a-rule-ignores-it")
def test_an_ignored_failure_takes_the_group_along_and_nothing_counts() -> None:
    ignored = {"onExitCodes": {"operator": "In", "values": [7]}, "action": "Ignore"}
    cluster = trained(backoffLimit=0, failurePolicy={"rules": [ignored]})
    before = cluster.uids
    cluster.fail(LOST, code=7).settle().pass_time(1).fail(*{FIRST, LAST}.difference(cluster.ending))
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)


def test_a_failure_long_before_a_loss_counts_though_both_are_seen_together() -> None:
    cluster = trained()
    before = cluster.uids
    cluster.fail(LOST).pass_time(4).lose(FIRST, "preempted")
    assert replaced(cluster, before) == MEMBERS
    assert (cluster.counts, whole(cluster, 2)) == ((1, 1), True)


def test_members_that_have_all_failed_are_counted_at_once() -> None:
    cluster = trained().fail(*MEMBERS).wait(0)
    assert cluster.counts == (1, 0)


@pytest.mark.parametrize("ahead", [-30, 30, 3600])
def test_a_kubelet_whose_clock_is_wrong_holds_no_failure_up(ahead: int) -> None:
    cluster = trained()
    cluster.pass_time(ahead).fail(LOST).pass_time(-ahead).wait(0)
    assert cluster.counts == (1, 0)


def test_another_task_is_not_replaced_with_the_group() -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.lose("x-collector-0", "preempted")
    assert replaced(cluster, before) == ["x-collector-0"]
    assert whole(cluster, 1)


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.proves(
    "process-groups.md#groups-of-a-fixed-size/is-added-or-removed-the-task-is-scaled"
)
def test_a_group_that_is_scaled_is_replaced_as_a_whole(replicas: int) -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.scale("learner", replicas).settle()
    said = f"replicas changed: learner from 3 to {replicas}; all pods of task learner are replaced"
    assert cluster.condition("Rescheduling")["message"] == said
    cluster.pass_time(1).fail(*(n for n in MEMBERS if n not in cluster.ending))
    names = [f"x-learner-{index}" for index in range(replicas)]
    assert replaced(cluster, before) == names
    assert {cluster.env(name)["WORLD_SIZE"] for name in names} == {str(replicas)}
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)


def test_no_new_member_meets_one_that_was_scaled_away() -> None:
    cluster = trained().scale("learner", 2).settle()
    cluster.end(FIRST, LOST).settle()
    assert set(cluster.pods) == {LAST, "x-collector-0"}
    cluster.end(LAST).settle()
    assert set(cluster.pods) == {FIRST, LOST, "x-collector-0"}


@pytest.mark.parametrize("how", [*LOSSES, "scaled"])
def test_a_group_of_a_job_that_waits_for_other_pods_is_replaced_as_a_whole(how: str) -> None:
    waits = task("collector", dependsOn=["learner"])
    cluster = ClusterModel(job(task("learner", 3, **TORCH), waits, backoffLimit=0)).settle()
    cluster.run(FIRST, LOST).wait(0)
    before = cluster.uids
    cluster.scale("learner", 4) if how == "scaled" else cluster.lose(LOST, how)
    for _ in range(4):
        cluster.settle().end_deleted()
    cluster.settle()
    assert not before.items() & cluster.uids.items()
    assert cluster.status["restarts"] == 0


@pytest.mark.parametrize("how", LOSSES)
def test_members_that_meet_again_in_place_keep_their_pods(how: str) -> None:
    group: Object = {"processGroup": {}}
    cluster = trained(fields=group, failurePolicy=IN_PLACE)
    before = cluster.uids
    cluster.lose(LOST, how)
    assert replaced(cluster, before) == [LOST]
    assert whole(cluster, members(cluster)[0])


def test_variables_with_the_size_are_made_again_though_processes_restart_in_place() -> None:
    cluster = trained(failurePolicy=IN_PLACE)
    before = cluster.uids
    cluster.scale("learner", 2)
    assert replaced(cluster, before) == MEMBERS[:2]


@pytest.mark.parametrize("how", LOSSES)
def test_members_of_an_elastic_group_keep_their_pods(how: str) -> None:
    group = {"framework": "torch", "elastic": True}
    cluster = trained(fields={"processGroup": group, "minReplicas": 2, "maxReplicas": 4})
    before = cluster.uids
    cluster.lose(LOST, how)
    assert replaced(cluster, before) == [LOST]


def test_a_suspended_group_that_goes_on_has_lost_nobody() -> None:
    cluster = trained().edit(suspend=True).settle().edit(suspend=False).settle()
    cluster.end_deleted().settle().run().settle()
    assert (cluster.phase, cluster.counts, whole(cluster, 2)) == ("Running", (0, 0), True)


@pytest.mark.parametrize("writes", range(7))
@pytest.mark.parametrize("how", ["preempted", "scaled"])
def test_an_operator_that_dies_meanwhile_replaces_the_group_once(writes: int, how: str) -> None:
    cluster = trained(backoffLimit=0)
    before = cluster.uids
    cluster.scale("learner", 2) if how == "scaled" else cluster.lose(LOST, how)
    cluster.die_after(writes)
    assert replaced(cluster, before) == (MEMBERS[:2] if how == "scaled" else MEMBERS)
    assert (cluster.counts, whole(cluster, 2)) == ((0, 1), True)
    assert cluster.status["restartAttempts"] == {"learner": 1}


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_replica_of_several_pods_that_lost_one_counts_no_failure(how: str, is_late: bool) -> None:
    rollout = task("rollout", 2, podsPerReplica=2, **TORCH)
    cluster = running(rollout, task("collector"), backoffLimit=0)
    before = cluster.uids
    if is_late:
        cluster.fail("x-rollout-1-0").wait(2)
        cluster.lose("x-rollout-1-1", how)
    else:
        cluster.lose("x-rollout-1-1", how).pass_time(1).fail("x-rollout-1-0")
    assert replaced(cluster, before) == ["x-rollout-1-0", "x-rollout-1-1"]
    assert cluster.counts == (0, 1)


def test_members_wait_for_one_that_was_lost_again() -> None:
    """One that is created alone would wait for the other, give up, and count as failed."""
    cluster = trained(backoffLimit=0)
    cluster.lose(LOST, "evicted")
    assert replaced(cluster, cluster.uids) == MEMBERS
    before = cluster.uids
    cluster.lose(LOST, "evicted")
    for _ in range(4):
        cluster.settle().end_deleted()
    assert [name for name in cluster.uids if "learner" in name] == []
    cluster.pass_time(11)
    assert replaced(cluster, before) == MEMBERS
    assert cluster.counts == (0, 2)


def test_a_record_of_a_member_that_was_scaled_away_delays_no_other() -> None:
    cluster = trained(4, backoffLimit=0)
    for _ in range(2):
        before = cluster.uids
        cluster.lose("x-learner-3", "evicted")
        for _ in range(4):
            cluster.settle().end_deleted()
        replaced(cluster.pass_time(11), before)
    before = cluster.uids
    cluster.lose("x-learner-3", "evicted").scale("learner", 3)
    assert replaced(cluster, before) == MEMBERS


def test_the_delays_of_a_group_read_each_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is lost again and again can leave thousands of records."""
    cluster = trained(40, backoffLimit=0)
    for _ in range(2):
        for index in range(40):
            cluster.lose(f"x-learner-{index}", "evicted")
        for _ in range(4):
            cluster.settle().end_deleted()
        cluster.pass_time(1).settle()
    snapshot = cluster.snapshot()
    read: list[str] = []
    found = Ledger.record

    def record(ledger: Ledger, task: str, replica: str) -> ReplicaRecord:
        read.append(replica)
        return found(ledger, task, replica)

    monkeypatch.setattr(Ledger, "record", record)
    pauses = pauses_left(snapshot, cluster.now)
    assert sorted(pauses) == sorted(f"x-learner-{index}" for index in range(40))
    assert sorted(read) == sorted(map(str, range(40)))
