"""Pods of jobs with a queue: whether Kueue sees them as ready, lost, or near each other."""

from __future__ import annotations

from typing import Any, Final

import pytest

from di_operator.builders.topology import GATE
from tests.unit.lifecycle.cluster_model import task
from tests.unit.lifecycle.scheduling.kueue_model import (
    CORE,
    QueuedCluster,
    admitted,
    submitted,
    tiered,
    up,
    work,
)

EXTRA, POD = "x-work-x0", "x-work-2"
RACK: Final = "example.com/rack"


def test_pods_ready_of_the_workload_follows_the_pods() -> None:
    def told(cluster: QueuedCluster) -> tuple[str, str]:
        conditions = cluster.workloads[CORE]["status"]["conditions"]
        (found,) = (each for each in conditions if each["type"] == "PodsReady")
        return found["status"], found["reason"]

    cluster = admitted()
    assert told(cluster) == ("True", "Started")
    cluster.fail("x-work-1").settle()
    assert told(cluster) == ("False", "WaitForRecovery")
    assert cluster.states() == {CORE: "admitted"}
    cluster.wait(60)
    up(cluster)
    assert told(cluster) == ("True", "Recovered")


def test_pods_that_have_succeeded_are_as_good_as_ready() -> None:
    cluster = admitted(work(2), task("learner")).succeed("x-work-0").settle()
    conditions = cluster.workloads[CORE]["status"]["conditions"]
    assert any(each["type"] == "PodsReady" and each["status"] == "True" for each in conditions)


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


@pytest.mark.proves("events.md#of-its-life/elasticreplicaslost")
def test_a_replica_lost_without_the_queue_counts() -> None:
    cluster = admitted(tiered(3)).admit(EXTRA)
    up(cluster)
    cluster.delete_pod(POD).settle()
    assert [each["pod"] for each in cluster.status["failures"]] == [POD]
    assert "ElasticReplicasLost" in {event.reason for event in cluster.events}


def near(*tasks: str, **more: str) -> dict[str, Any]:
    return {"topology": [{"tasks": [*tasks], "required": RACK, **more}]}


def test_pods_of_the_core_wait_for_their_domain_and_others_do_not() -> None:
    cluster = admitted(tiered(3, core=2), scheduling=near("work"))
    (pod_set,) = cluster.workloads[CORE]["spec"]["podSets"]
    assert pod_set["topologyRequest"] == {"required": RACK}
    cluster.admit("x-work-x0").settle()
    gated = {name: GATE in str(pod["spec"]) for name, pod in cluster.pods.items()}
    assert gated == {"x-work-0": True, "x-work-1": True, "x-work-2": False}
    assert all(RACK in str(pod["spec"]["affinity"]) for pod in cluster.pods.values())


def test_a_topology_that_kueue_lacks_is_reported_and_not_requested() -> None:
    tasks = work(2), task("learner", 2)
    cluster = submitted(*tasks, scheduling=near("work", "learner", colocate="Tasks"))
    assert not cluster.workloads
    told = cluster.condition("Queued")
    assert (told["status"], told["reason"]) == ("True", "TopologyNotSupported")
    assert "requires it of 2 of work, 2 of learner" in told["message"]
