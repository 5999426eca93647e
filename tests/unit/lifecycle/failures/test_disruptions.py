"""Failure rules about pods that the API server deletes: evicted, drained, preempted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, running, task
from tests.unit.lifecycle.kubelet_model import Object
from tests.unit.lifecycle.test_coordinated import coordinated

REASONS = ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"]
LOST = "x-collector-0"
CODES: Object = {"onExitCodes": {"operator": "In", "values": [143]}}


def ruled(action: str, **rule: Any) -> ClusterModel:
    rules = [{"onConditions": ["DisruptionTarget"], "action": action, **rule}]
    return running(task("learner"), task("collector", 2), failurePolicy={"rules": rules})


def disrupt(cluster: ClusterModel, name: str, reason: str = REASONS[0]) -> ClusterModel:
    """The API server deletes a pod that runs, and says why."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    cluster.objects["Pod", name]["status"]["conditions"].append(target)
    return cluster.delete_pod(name)


@pytest.mark.parametrize("reason", REASONS)
def test_a_rule_counts_a_pod_that_the_cluster_deletes(reason: str) -> None:
    cluster = disrupt(ruled("Restart"), LOST, reason).settle()
    assert (cluster.phase, cluster.counts) == ("Restarting", (1, 0))
    message = f"1 pod failed, restart 1 of 3; pod {LOST} failed first: {reason}"
    assert cluster.condition("Restarting")["message"] == message
    assert cluster.ending == [LOST]
    assert [write for write in cluster.writes if write.startswith("delete")] == []
    cluster.end(LOST).settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))
    assert [loss["reason"] for loss in cluster.status["failures"]] == [reason]


def test_a_rule_ends_the_job_when_the_cluster_deletes_a_pod() -> None:
    cluster = disrupt(ruled("FailJob"), LOST).settle()
    assert (cluster.phase, cluster.condition("Failed")["reason"]) == ("Failed", "PodFailurePolicy")


def test_a_rule_replaces_the_task_of_a_pod_that_the_cluster_deletes() -> None:
    cluster = disrupt(ruled("RestartTask"), LOST).settle()
    assert (cluster.counts, cluster.ending) == ((1, 0), [LOST, "x-collector-1"])


def test_a_rule_keeps_a_replica_away_from_the_node_that_deleted_it() -> None:
    cluster = ruled("Restart", avoidNode=True)
    cluster.objects["Pod", LOST]["spec"]["nodeName"] = "n1"
    disrupt(cluster, LOST).settle().end(LOST).settle()
    terms = cluster.objects["Pod", LOST]["spec"]["affinity"]["nodeAffinity"]
    assert "n1" in str(terms["requiredDuringSchedulingIgnoredDuringExecution"])


def test_the_limit_of_restarts_holds_for_pods_that_the_cluster_deletes() -> None:
    cluster = ruled("Restart").edit(backoffLimit=0)
    assert disrupt(cluster, LOST).settle().phase == "Failed"


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("policy", [None, {"rules": []}, "Ignore"])
def test_a_pod_that_the_cluster_deletes_is_listed_with_its_reason(policy: Any, reason: str) -> None:
    cluster = ruled("Ignore") if policy == "Ignore" else running(failurePolicy=policy)
    disrupt(cluster, LOST, reason).settle()
    assert (cluster.phase, cluster.counts) == ("Rescheduling", (0, 1))
    assert [loss["reason"] for loss in cluster.status["failures"]] == [reason]
    assert cluster.condition("Rescheduling")["message"] == f"1 pod lost, {LOST} first"


@pytest.mark.parametrize("rule", [{}, CODES, {"onReasons": ["Error"]}])
def test_rules_without_conditions_say_nothing_about_deleted_pods(rule: Object) -> None:
    cluster = running(failurePolicy={"rules": [{"action": "FailJob", **rule}]})
    cluster.fail(LOST, code=143)
    cluster.objects["Pod", LOST]["status"]["phase"] = "Running"
    cluster.objects["Pod", LOST]["status"]["conditions"] = []
    assert disrupt(cluster, LOST).settle().counts == (0, 1)


def test_a_pod_that_a_user_deletes_is_no_disruption() -> None:
    assert ruled("FailJob").delete_pod(LOST).settle().counts == (0, 1)


def test_a_failure_that_a_rule_ignores_is_not_called_a_loss() -> None:
    policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]}
    cluster = running(failurePolicy=policy).fail(LOST, code=7).settle()
    assert cluster.counts == (0, 1)
    message = f"1 pod failed, which a rule ignores; pod {LOST} failed first: exit code 7"
    assert cluster.condition("Rescheduling")["message"] == message


def test_a_coordinator_that_is_evicted_is_counted_by_a_rule() -> None:
    rules = [{"onConditions": ["DisruptionTarget"], "action": "Restart"}]
    cluster = coordinated(failurePolicy={"rules": rules}).settle().run().settle()
    disrupt(cluster, "x-coordinator").settle()
    assert (cluster.phase, cluster.counts) == ("Restarting", (1, 0))
    cluster.end("x-coordinator").settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))


def test_a_coordinator_that_is_evicted_without_a_rule_is_replaced_uncounted() -> None:
    cluster = coordinated().settle().run().settle()
    disrupt(cluster, "x-coordinator").settle()
    assert (cluster.phase, cluster.counts) == ("Rescheduling", (0, 1))
