"""Preemptible jobs: the allocator says how many replicas run and where; gang admission."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from di_operator.builders.pinning import node_of
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task


def waiting(**spec: Any) -> ClusterModel:
    """A preemptible job that the allocator has not looked at yet."""
    cluster = ClusterModel(
        job(task("learner", maxReplicas=4), task("collector", 2), preemptible=True, **spec)
    )
    cluster.grant = Grant()
    return cluster.settle()


def placed(**nodes: str) -> ClusterModel:
    """A preemptible job that runs on nodes."""
    cluster = waiting().place(**nodes or {"learner": "a", "collector": "a b"}).settle()
    cluster.run().settle()
    assert cluster.phase == "Running"
    return cluster


def where(cluster: ClusterModel) -> dict[str, str]:
    """The node of each pod that is not being deleted."""
    return {
        name.removeprefix("x-"): node_of(pod["spec"])
        for name, pod in cluster.pods.items()
        if not pod["metadata"].get("deletionTimestamp")
    }


def uids(cluster: ClusterModel) -> dict[str, str]:
    return {name.removeprefix("x-"): p["metadata"]["uid"] for name, p in cluster.pods.items()}


@pytest.mark.proves(
    "events.md#of-its-life/waitingfornodes",
    "allocation.md#a-job-that-shares/other-jobs-or-pods-use-the-capacity",
    "dijob.md#spec/preemptible",
)
def test_a_job_waits_until_it_is_placed() -> None:
    cluster = waiting()
    assert (cluster.phase, cluster.pods) == ("Pending", {})
    assert cluster.condition("Pending")["reason"] == "WaitingForNodes"


@pytest.mark.proves(
    "events.md#of-its-life/unschedulable",
    "allocation.md#a-job-that-shares/no-node-could-ever-run-it",
)
def test_a_waiting_job_shows_the_allocators_reason() -> None:
    cluster = waiting()
    cluster.grant = Grant(placement={}, reason=Reason.UNSCHEDULABLE, message="needs 8 gpu, a has 4")
    cluster.settle()
    condition = cluster.condition("Pending")
    assert (condition["reason"], condition["message"]) == ("Unschedulable", "needs 8 gpu, a has 4")


@pytest.mark.proves(
    "allocation.md#a-job-that-shares/there-is-free-capacity-for-it",
    "dijob.md#status/placement",
    "dijob.md#status/allocation",
)
def test_replicas_run_where_the_allocator_wants_them() -> None:
    cluster = placed(learner="a a", collector="b")
    assert where(cluster) == {"learner-0": "a", "learner-1": "a", "collector-0": "b"}
    assert cluster.status["placement"] == {"learner": ["a", "a"], "collector": ["b"]}
    assert cluster.status["allocation"] == ["a", "a", "b"]
    assert (cluster.status["replicas"], cluster.status["reschedules"]) == (3, 0)


@pytest.mark.proves("dijob.md#status/batchsize")
def test_what_batch_the_allocator_advises_is_in_the_status() -> None:
    cluster = placed()
    assert "batchSize" not in cluster.status
    grant = cluster.grant
    assert grant is not None
    cluster.grant = replace(grant, batch_size=256)
    cluster.now += timedelta(seconds=60)
    cluster.settle()
    assert cluster.status["batchSize"] == 256
    # An allocator that has just begun has said nothing yet.
    cluster.grant = Grant()
    cluster.now += timedelta(seconds=60)
    cluster.settle()
    assert cluster.status["batchSize"] == 256
    cluster.grant = Grant(placement={}, reason=Reason.WAITING_FOR_NODES, message="waits")
    cluster.settle()
    assert "batchSize" not in cluster.status


@pytest.mark.proves("allocation.md#a-job-that-shares/collectors-are-added-moved-or-taken-away")
def test_collectors_change_without_a_touch_of_the_learner() -> None:
    cluster = placed()
    before = uids(cluster)
    cluster.place(learner="a", collector="a b c").settle()
    assert where(cluster)["collector-2"] == "c"
    assert before.items() <= uids(cluster).items()
    assert cluster.status["reschedules"] == 1
    message = cluster.condition("Rescheduling")["message"]
    assert message == "replicas changed: collector from 2 to 3"


def test_a_collector_that_moves_is_replaced_alone() -> None:
    cluster = placed()
    before = uids(cluster)
    cluster.place(learner="a", collector="a c").settle().end_deleted().settle()
    assert where(cluster) == {"learner-0": "a", "collector-0": "a", "collector-1": "c"}
    kept = {name for name, uid in uids(cluster).items() if before[name] == uid}
    assert kept == {"learner-0", "collector-0"}
    assert (cluster.phase, cluster.status["reschedules"]) == ("Starting", 1)
    message = cluster.condition("Rescheduling")["message"]
    assert message == "1 pod to move, x-collector-1 first"


def test_a_pod_refused_by_the_scheduler_moves_and_is_no_failure() -> None:
    cluster = waiting(backoffLimit=0).place(learner="a", collector="a b").settle()
    cluster.refuse("x-collector-1", "0/2 nodes are available")
    cluster.place(learner="a", collector="a c").settle()
    assert cluster.status["restarts"] == 0
    message = cluster.condition("Rescheduling")["message"]
    words = "the scheduler refused it on node b: 0/2 nodes are available"
    assert message == f"1 pod to move, x-collector-1 ({words}) first"


@pytest.mark.proves(
    "lifecycle.md#checkpoints/the-allocator-moves-the-job-or-changes",
    "allocation.md#a-job-that-shares/the-learners-change-in-number-or-move",
)
def test_a_resized_group_of_learners_restarts() -> None:
    cluster = placed()
    before = uids(cluster)
    cluster.place(learner="a b", collector="a b").settle()
    assert "learner-0" not in where(cluster)
    cluster.end_deleted().settle()
    assert (where(cluster)["learner-0"], where(cluster)["learner-1"]) == ("a", "b")
    after = uids(cluster)
    assert after["learner-0"] != before["learner-0"]
    assert after["collector-0"] == before["collector-0"]
    assert cluster.status["reschedules"] == 1
    # The restarted learners list each other.
    assert cluster.env("x-learner-0")["DI_LEARNER_NODES"].count(",") == 1
    assert cluster.status["allocation"][int(cluster.env("x-learner-1")["DI_RANK"])] == "b"


@pytest.mark.proves(
    "lifecycle.md#checkpoints/suspend-preemption-to-no-nodes-at-all",
    "allocation.md#a-job-that-shares/it-is-preempted",
)
def test_a_preempted_job_ends_its_pods_waits_and_comes_back() -> None:
    cluster = placed()
    cluster.grant = Grant(placement={}, message="others go first")
    cluster.settle()
    assert (cluster.phase, where(cluster)) == ("Pending", {})
    assert cluster.condition("Pending")["message"] == "others go first"
    assert (cluster.status["reschedules"], cluster.status["allocation"]) == (1, [])
    cluster.end_deleted().settle()
    assert cluster.pods == {}
    cluster.place(learner="b", collector="b b").settle().run().settle()
    assert (cluster.phase, set(where(cluster).values())) == ("Running", {"b"})
    assert cluster.counts == (0, 1)


@pytest.mark.proves("allocation.md#a-job-that-shares/it-is-suspended")
def test_a_resumed_job_waits_until_it_is_placed_again() -> None:
    cluster = placed().edit(suspend=True)
    # The allocator decides on no suspended job.
    cluster.grant = Grant()
    cluster.settle().end_deleted().settle()
    assert (cluster.status["placement"], cluster.status["allocation"]) == ({}, [])
    used = cluster.status["replicaSeconds"]
    cluster.pass_time(3600).edit(suspend=False).settle()
    assert (cluster.phase, cluster.pods) == ("Pending", {})
    assert cluster.condition("Pending")["reason"] == "WaitingForNodes"
    cluster.place(learner="b", collector="b b").settle().run().settle()
    assert (cluster.phase, set(where(cluster).values())) == ("Running", {"b"})
    assert cluster.status["replicaSeconds"] == used


@pytest.mark.parametrize("grant", [None, Grant()], ids=["no allocator", "a new leader's"])
def test_without_a_new_word_of_the_allocator_a_job_keeps_its_place(grant: Grant | None) -> None:
    cluster = placed()
    before = uids(cluster)
    cluster.grant = grant
    cluster.settle()
    assert (cluster.phase, uids(cluster)) == ("Running", before)
    assert cluster.status["reschedules"] == 0


def test_a_replacement_goes_where_its_predecessor_was() -> None:
    cluster = placed().fail("x-collector-1").settle()
    assert (where(cluster)["collector-1"], cluster.counts) == ("b", (1, 0))


def test_without_an_allocator_a_preemptible_job_has_its_spec_replicas() -> None:
    cluster = ClusterModel(job(task("learner", 2), preemptible=True)).settle()
    assert len(cluster.pods) == 2
    assert "placement" not in cluster.status


def test_a_crash_after_any_write_of_a_move_leads_to_the_same_end() -> None:
    def moved(crash_after: int | None) -> ClusterModel:
        cluster = placed().place(learner="b b", collector="a c d")
        if crash_after is not None:
            for _ in range(crash_after):
                cluster.reconcile()
            cluster.grant = Grant()  # a new leader, which keeps what the status says
            cluster.settle()
            cluster.place(learner="b b", collector="a c d")
        return cluster.settle().end_deleted().settle()

    clean = moved(None)
    for crash_after in range(4):
        found = moved(crash_after)
        assert (where(found), found.status["reschedules"]) == (where(clean), 1)


def test_a_gang_is_held_back_until_it_fits() -> None:
    cluster = ClusterModel(job(task("learner", 2)))
    cluster.grant = Grant(message="2 of 4 gpu are free", reason=Reason.UNSCHEDULABLE)
    cluster.settle()
    assert (cluster.phase, cluster.pods) == ("Pending", {})
    assert cluster.condition("Pending")["message"] == "2 of 4 gpu are free"
    cluster.grant = Grant()
    assert sum(action.label == "CreatePod" for action in cluster.decide().actions) == 2


def test_a_gang_that_waits_shows_no_pods_until_it_is_released() -> None:
    cluster = ClusterModel(job(task("learner", 2), scheduling={"gang": True}))
    cluster.grant = Grant(message="2 of 4 gpu are free", reason=Reason.WAITING_FOR_NODES)
    cluster.settle()
    counts = ("replicas", "readyReplicas", "taskStatus")
    assert [cluster.status[each] for each in counts] == [0, 0, {"learner": {}}]
    written = len(cluster.writes)
    cluster.reconcile()
    assert len(cluster.writes) == written
    cluster.grant = Grant()
    cluster.settle()
    assert [cluster.status[each] for each in counts] == [2, 0, {"learner": {"Pending": 2}}]
    assert cluster.status["reschedules"] == 0
    cluster.run().settle()
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 0)


def test_a_gang_that_is_scaled_while_it_waits_counts_no_reschedule() -> None:
    cluster = ClusterModel(job(task("learner", 2), scheduling={"gang": True}))
    cluster.grant = Grant(message="2 of 4 gpu are free", reason=Reason.WAITING_FOR_NODES)
    cluster.settle().scale("learner", 3).settle()
    assert cluster.status["replicas"] == 0
    cluster.grant = Grant()
    cluster.settle().run().settle()
    assert (cluster.phase, cluster.status["replicas"]) == ("Running", 3)
    assert cluster.status["reschedules"] == 0


def test_a_gang_that_runs_is_not_held_back_any_more() -> None:
    cluster = ClusterModel(job(task("learner", 2))).settle()
    cluster.grant = Grant(message="2 of 4 gpu are free", reason=Reason.UNSCHEDULABLE)
    cluster.fail("x-learner-1").settle()
    assert len(cluster.pods) == 2


@pytest.mark.parametrize("field", ["nominatedNodeName", "nodeName"])
def test_a_refused_pod_with_a_node_by_now_has_no_refusal(field: str) -> None:
    cluster = waiting().place(learner="a", collector="a b").settle()
    cluster.refuse("x-collector-1", "0/2 nodes are available")
    place = "status" if field == "nominatedNodeName" else "spec"
    cluster.pods["x-collector-1"][place][field] = "b"
    cluster.place(learner="a", collector="a c").settle()
    message = cluster.condition("Rescheduling")["message"]
    assert message == "1 pod to move, x-collector-1 first"
