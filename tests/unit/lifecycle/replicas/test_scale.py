"""Changes of the replica count, and pods that are lost without having failed."""

from __future__ import annotations

import pytest

from di_api.timestamps import format_time
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task


@pytest.mark.proves("events.md#of-its-life/jobrescheduling")
@pytest.mark.proves("dijob.md#spec-tasks/replicas")
def test_added_replicas_get_the_next_ranks_and_count_once() -> None:
    cluster = running()
    before = cluster.uids
    cluster.scale("collector", 5).settle()
    assert [cluster.env(f"x-collector-{index}")["DI_RANK"] for index in (3, 4)] == ["4", "5"]
    assert (cluster.phase, cluster.status["replicas"]) == ("Starting", 6)
    assert cluster.condition("Rescheduling")["message"] == "replicas changed: collector from 3 to 5"
    assert cluster.condition("Starting")["message"] == "created 2 pods, 6 pods in all"
    cluster.run().settle()
    assert (cluster.counts, before.items() <= cluster.uids.items()) == ((0, 1), True)


def test_added_replicas_are_not_looked_for_before_they_are_made() -> None:
    cluster = running().scale("collector", 5)
    assert not cluster.decide().from_absence
    del cluster.objects["Pod", "x-collector-2"]
    decision = cluster.decide()
    assert decision.from_absence
    assert decision.status is not None
    assert decision.status["reschedules"] == 1


@pytest.mark.proves("lifecycle.md#checkpoints/fewer-replicas")
def test_the_highest_indexes_go_with_their_own_grace_period() -> None:
    cluster = running().scale("collector", 1)
    cluster.reconcile()
    deletions = cluster.decide().actions
    assert [(a.label, a.name, a.grace_period_seconds) for a in deletions] == [  # type: ignore[union-attr]
        ("DeletePod", "x-collector-1", None),
        ("DeletePod", "x-collector-2", None),
    ]


def test_a_change_that_keeps_the_sum_is_seen() -> None:
    cluster = running(task("learner", 2), task("collector", 2))
    cluster.edit(tasks=[task("learner", 1), task("collector", 3)]).settle()
    assert cluster.status["reschedules"] == 1
    assert "x-collector-2" in cluster.pods


def test_down_and_up_again_waits_for_the_old_pods_and_counts_two_changes() -> None:
    cluster = running().scale("collector", 1).settle().scale("collector", 3).settle()
    assert cluster.phase == "Rescheduling"
    cluster.end("x-collector-1", "x-collector-2").settle().run().settle()
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 2)
    assert cluster.status["restarts"] == 0


def test_down_and_up_again_unseen_is_no_change() -> None:
    cluster = running().scale("collector", 1).scale("collector", 3).settle()
    assert (cluster.status["reschedules"], cluster.phase) == (0, "Running")


def test_a_scaled_job_succeeds_only_with_all_replicas_of_its_present_spec() -> None:
    cluster = running().succeed().scale("collector", 4).settle()
    assert cluster.phase == "Starting"
    cluster.succeed("x-collector-3").settle()
    assert cluster.phase == "Succeeded"
    assert cluster.status["taskStatus"]["collector"] == {"Succeeded": 4}


def test_a_failure_of_a_removed_replica_is_not_counted() -> None:
    cluster = running(backoffLimit=0).scale("collector", 1).fail("x-collector-2")
    cluster.settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 0)


@pytest.mark.proves("lifecycle.md#checkpoints/a-user-deletes-or-evicts-the-pod-its")
def test_a_deleted_pod_comes_back_under_its_name_and_rank_when_it_is_gone() -> None:
    cluster = running().delete_pod("x-collector-0").settle()
    assert cluster.phase == "Rescheduling"
    cluster.end("x-collector-0").settle()
    assert cluster.env("x-collector-0")["DI_RANK"] == "1"
    assert cluster.status["reschedules"] == 1
    assert cluster.condition("Rescheduling")["message"] == "1 pod lost, x-collector-0 first"


def test_an_object_created_a_moment_ago_and_not_visible_yet_is_waited_for() -> None:
    cluster = ClusterModel(job())
    cluster.reconcile()
    pods = list(cluster.objects)
    invisible = {key: cluster.objects.pop(key) for key in pods[:2]}
    early = cluster.reconcile()
    assert early.actions == ()
    assert early.status is None
    assert early.requeue_after == 2.0
    cluster.objects.update(invisible)
    cluster.pass_time(3).reconcile()
    assert cluster.status["reschedules"] == 0


def test_a_pod_that_vanished_while_starting_is_replaced_after_that_wait() -> None:
    cluster = ClusterModel(job()).settle().pass_time(3)
    cluster.delete_pod("x-learner-0", force=True).settle()
    assert "x-learner-0" in cluster.pods
    assert cluster.status["reschedules"] == 1


def test_a_service_deleted_by_hand_comes_back() -> None:
    cluster = running()
    del cluster.objects["Service", "di-x"]
    cluster.settle()
    assert ("Service", "di-x") in cluster.objects
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 0)


@pytest.mark.proves("lifecycle.md#checkpoints/its-node-is-lost")
def test_a_pod_on_a_lost_node_is_replaced_without_its_kubelet() -> None:
    cluster = running()
    lost = cluster.objects["Pod", "x-learner-0"]
    lost["metadata"]["deletionTimestamp"] = format_time(cluster.now)
    lost["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    )
    cluster.settle()
    assert (cluster.phase, cluster.decide().requeue_after) == ("Rescheduling", 30.0)
    cluster.pass_time(30)
    forced = cluster.decide().actions
    assert [action.grace_period_seconds for action in forced] == [0]  # type: ignore[union-attr]
    cluster.settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Starting", 0)
    assert cluster.status["reschedules"] == 1


def test_a_pod_that_ends_slowly_on_a_good_node_is_never_forced() -> None:
    cluster = running().delete_pod("x-learner-0").settle().pass_time(3600)
    assert cluster.decide().actions == ()


def test_without_recorded_counts_every_missing_pod_is_lost() -> None:
    cluster = running().patch_status({"taskStatus": None})
    cluster.delete_pod("x-collector-1", force=True).settle()
    assert cluster.condition("Rescheduling")["message"] == "1 pod lost, x-collector-1 first"
    assert (cluster.counts, len(cluster.pods)) == ((0, 1), 4)
