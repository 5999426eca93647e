"""Pods that the cluster refuses, evicts or takes away: not counted, and slower each time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.kubelet_model import Object
from tests.unit.lifecycle.test_coordinated import coordinated

LEARNER = "x-learner-0"
NODE_LOSS = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}


def attempts(cluster: ClusterModel, lose: Any, seconds: int) -> list[int]:
    """Lose the learner as soon as it has a pod; the times at which it got one, in seconds."""
    times, uid, began = [], cluster.uids[LEARNER], cluster.now
    lose(cluster)
    while (cluster.now - began).total_seconds() < seconds:
        cluster.settle().end_deleted()
        cluster.settle()
        if LEARNER in cluster.uids and cluster.uids[LEARNER] != uid:
            uid = cluster.uids[LEARNER]
            times.append(int((cluster.now - began).total_seconds()))
            lose(cluster)
        cluster.pass_time(1)
    return times


def evict_by_api(cluster: ClusterModel) -> None:
    """An eviction as a drain asks for it."""
    cluster.run(LEARNER).settle().delete_pod(LEARNER)
    cluster.pods[LEARNER]["status"]["conditions"] = [NODE_LOSS]


@pytest.mark.parametrize(
    "lose",
    [
        lambda c: c.reject(LEARNER),
        lambda c: c.evict(LEARNER),
        lambda c: c.delete_pod(LEARNER, force=True),
        evict_by_api,
    ],
    ids=["rejected", "evicted by its kubelet", "vanished", "evicted by request"],
)
def test_pods_that_are_lost_again_are_created_ever_later(lose: Any) -> None:
    cluster = running(task("learner"), backoffLimit=2)
    times = attempts(cluster, lose, 300)
    delays = [after - before for before, after in pairwise(times)]
    assert 4 <= len(times) <= 7
    assert delays == sorted(delays)
    assert delays[0] >= 10
    assert cluster.status["restarts"] == 0


def test_a_pod_that_a_user_deletes_is_created_again_at_once() -> None:
    cluster = running(task("learner"))
    for _ in range(3):
        uid = cluster.uids[LEARNER]
        cluster.delete_pod(LEARNER).settle().end_deleted()
        assert cluster.settle().uids[LEARNER] != uid
        cluster.run().settle()


@pytest.mark.proves("events.md#of-its-life/podrejected")
def test_a_rejected_pod_is_reported_in_the_kubelets_words() -> None:
    cluster = ClusterModel(job(task("learner"), backoffLimit=2)).settle()
    for _ in range(2):
        cluster.reject(LEARNER, "TopologyAffinityError").settle()
    found = cluster.condition("Rescheduling")
    assert found["reason"] == "PodRejected"
    assert found["message"] == (
        "1 pod lost, x-learner-0 first: TopologyAffinityError: Pod was rejected: "
        "TopologyAffinityError; x-learner-0 is created again after 10 s"
    )
    warnings = [event for event in cluster.events if event.reason is Reason.POD_REJECTED]
    assert len(warnings) == 2
    assert Reason.POD_REJECTED.event_type == "Warning"
    assert cluster.counts == (0, 2)


def test_a_job_whose_pods_are_rejected_ends_by_its_pending_timeout() -> None:
    cluster = ClusterModel(job(task("learner"), pendingTimeoutSeconds=120)).settle()
    for _ in range(130):
        if LEARNER in cluster.pods and cluster.pods[LEARNER]["status"]["phase"] == "Pending":
            cluster.reject(LEARNER)
        cluster.settle().pass_time(1)
    found = cluster.condition("Failed")
    assert (cluster.phase, found["reason"]) == ("Failed", "PendingTimeout")
    assert "Pod was rejected: NodeAffinity" in found["message"]
    assert cluster.status["restarts"] == 0


@pytest.mark.parametrize(
    ("rule", "phase"),
    [
        ({"action": "RestartTask"}, "Rescheduling"),
        ({"tasks": ["learner"], "action": "FailJob"}, "Rescheduling"),
        ({"onReasons": ["OutOfcpu"], "action": "FailJob"}, "Failed"),
    ],
    ids=str,
)
def test_only_rules_that_name_the_reason_decide_about_rejected_pods(
    rule: Object, phase: str
) -> None:
    cluster = running(task("learner", 2), failurePolicy={"rules": [rule]})
    cluster.reject(LEARNER, "OutOfcpu").reconcile()
    assert cluster.phase == phase


@pytest.mark.parametrize("limit", [3, "Unlimited"])
def test_an_eviction_for_its_own_limit_counts_as_a_failure(limit: int | str) -> None:
    cluster = running(task("learner"), task("collector", backoffLimit=limit))
    cluster.evict("x-collector-0", own_limit=True).reconcile()
    assert cluster.counts == (1, 0)
    assert cluster.condition("Restarting")["message"].endswith(
        'failed first: Evicted: Usage of EmptyDir volume "s" exceeds the limit "50Mi".; '
        "exit code 137"
    )


def test_evictions_for_its_own_limit_end_a_job_at_its_limit() -> None:
    cluster = running(task("learner"), task("collector", backoffLimit=3))
    for _ in range(4):
        cluster.evict("x-collector-0", own_limit=True).settle().pass_time(60).settle()
    assert (cluster.phase, cluster.condition("Failed")["reason"]) == ("Failed", "TaskBackoffLimit")


def test_a_rejected_coordinator_is_reported_in_the_kubelets_words() -> None:
    cluster: ClusterModel = coordinated()
    cluster.settle().reject("x-coordinator", "OutOfcpu").reconcile()
    found = cluster.condition("Rescheduling")
    assert (found["reason"], cluster.counts) == ("PodRejected", (0, 1))
    assert "(OutOfcpu: Pod was rejected: OutOfcpu)" in found["message"]


def test_a_rejected_pod_of_an_elastic_tier_gets_a_warning() -> None:
    tier = task("collector", 4, minReplicas=2, elastic={})
    cluster = running(task("learner"), tier)
    cluster.reject("x-collector-3").settle()
    messages = [event.message for event in cluster.events if event.reason is Reason.POD_REJECTED]
    assert messages == [
        "pod x-collector-3 of the elastic tier: NodeAffinity: Pod was rejected: NodeAffinity"
    ]
    assert cluster.phase == "Running"


def test_a_rejected_standby_pod_is_replaced_after_a_minute() -> None:
    cluster = running(task("learner"), task("collector", 2, standby=1))
    (standby,) = (name for name in cluster.pods if "standby" in name)
    cluster.reject(standby).settle()
    assert standby in cluster.pods
    cluster.pass_time(60).settle()
    assert standby not in cluster.pods
    assert [name for name in cluster.pods if "standby" in name] == ["x-collector-standby-1"]


def test_old_losses_are_forgotten_when_others_are_noted() -> None:
    cluster = running(task("learner"), task("collector", 2))
    cluster.reject("x-collector-0").settle().pass_time(601).run().settle()
    cluster.reject("x-collector-1").settle()
    assert [*cluster.status["replicaFailures"]["collector"]] == ["1"]


def bound_to(node: str) -> ClusterModel:
    made = task("learner")
    made["template"]["spec"]["nodeName"] = node
    return ClusterModel(job(made))


@pytest.mark.proves(
    "lifecycle.md#pods-that-cannot-run/the-template-of-its-task-names-a-node",
    "events.md#of-its-life/nodenotfound",
)
def test_a_node_that_does_not_exist_is_reported_with_its_name() -> None:
    cluster = bound_to("no-such-node")
    cluster.nodes = frozenset({"n1"})
    words = "the template of task learner binds it to node no-such-node, which does not exist"
    cluster.settle()
    found = cluster.condition("Starting")
    assert (found["reason"], found["message"]) == (
        "NodeNotFound",
        f"1 of 1 pod cannot run, {LEARNER} first: {words}",
    )
    times = attempts(cluster, lambda c: c.delete_pod(LEARNER, force=True), 200)
    assert len(times) <= 5
    found = cluster.condition("Rescheduling")
    assert (found["reason"], found["message"]) == (
        "NodeNotFound",
        f"1 of 1 pod cannot run, {LEARNER} first: {words}",
    )


def test_without_known_nodes_the_second_pod_is_reported() -> None:
    cluster = bound_to("no-such-node").settle()
    assert cluster.condition("Starting")["reason"] == "JobStarting"
    cluster.pass_time(40).delete_pod(LEARNER, force=True).settle()
    found = cluster.condition("Starting")
    assert found["reason"] == "NodeNotFound"
    assert found["message"].endswith("check that the node exists")


@pytest.mark.parametrize("nodes", [None, frozenset({"n1"})])
def test_a_pod_bound_to_a_node_that_exists_is_left_alone(nodes: frozenset[str] | None) -> None:
    cluster = bound_to("n1")
    cluster.nodes = nodes
    cluster.settle()
    cluster.say(LEARNER, startTime="2026-01-01T12:00:00Z")
    assert cluster.settle().condition("Starting")["reason"] == "JobStarting"
