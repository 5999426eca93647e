"""Replicas that a queue takes are no losses: nothing is counted, and nothing waits."""

from __future__ import annotations

from tests.unit.lifecycle.test_queued import admitted, tiered, up

EXTRA, POD = "x-work-x0", "x-work-2"


def test_a_replica_that_a_queue_evicts_is_no_loss_and_returns() -> None:
    cluster = admitted(tiered(3)).admit(EXTRA)
    up(cluster)
    for _ in range(4):
        assert POD in cluster.pods
        cluster.evict_workload(EXTRA).settle()
        assert POD in cluster.ending
        cluster.settle().end_deleted().settle()
        assert POD not in cluster.pods
        # No second passes: a replica that was lost twice would wait for its pause.
        cluster.admit(EXTRA)
        up(cluster)
    assert POD in cluster.pods
    assert not cluster.status.get("failures")
    assert not cluster.status.get("replicaFailures")
    assert "ElasticReplicasLost" not in {event.reason for event in cluster.events}


def test_a_replica_lost_without_the_queue_counts() -> None:
    cluster = admitted(tiered(3)).admit(EXTRA)
    up(cluster)
    cluster.delete_pod(POD).settle()
    assert [each["pod"] for each in cluster.status["failures"]] == [POD]
    assert "ElasticReplicasLost" in {event.reason for event in cluster.events}
