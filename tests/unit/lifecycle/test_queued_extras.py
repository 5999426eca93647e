"""Replicas that a queue takes are no losses: nothing is counted, and nothing waits."""

from __future__ import annotations

from tests.unit.lifecycle.test_queued import admitted, gone, tiered, up

EXTRA, POD = "x-work-x0", "x-work-2"


def test_what_a_queue_takes_is_not_lost_and_is_back_when_it_is_admitted_again() -> None:
    cluster = admitted(tiered(3))
    cluster.admit(EXTRA)
    up(cluster)
    for _ in range(4):
        assert POD in cluster.pods
        cluster.evict_workload(EXTRA)
        cluster.settle()
        assert "deletionTimestamp" in cluster.pods[POD]["metadata"]
        gone(cluster)
        assert POD not in cluster.pods
        # No second passes: a replica that was lost twice would wait for its pause.
        cluster.admit(EXTRA)
        up(cluster)

    assert POD in cluster.pods
    assert not cluster.status.get("failures")
    assert not cluster.status.get("replicaFailures")
    assert "ElasticReplicasLost" not in {event.reason for event in cluster.events}


def test_one_that_is_lost_otherwise_still_counts() -> None:
    cluster = admitted(tiered(3))
    cluster.admit(EXTRA)
    up(cluster)
    cluster.delete_pod(POD)
    cluster.settle()
    assert [each["pod"] for each in cluster.status["failures"]] == [POD]
    assert "ElasticReplicasLost" in {event.reason for event in cluster.events}
