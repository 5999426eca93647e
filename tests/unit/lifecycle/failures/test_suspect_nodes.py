"""Nodes that several jobs avoid."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from di_operator.lifecycle.observed.suspect_nodes import SuspectNodes
from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, running, task
from tests.unit.lifecycle.kubelet_model import START

RULE = {"onExitCodes": {"operator": "In", "values": [201]}, "avoidNode": True}
HOUR = timedelta(hours=1)


def failed_on(node: str) -> ClusterModel:
    """A job whose learner failed on a node by a rule that blames the node."""
    cluster = running(task("learner", 2), failurePolicy={"rules": [RULE]})
    cluster.pods["x-learner-0"]["spec"]["nodeName"] = node
    return cluster.fail("x-learner-0", code=201).settle()


def avoiding(uid: str, node: str, minutes: int = 60) -> dict[str, Any]:
    """A raw job with a record of a node that its replica avoids."""
    until = (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    records = {"learner": {"0": {"restarts": 1, "avoid": [{"node": node, "until": until}]}}}
    return {"metadata": {"uid": uid}, "status": {"replicaFailures": records}}


def test_a_node_that_two_jobs_avoid_is_suspect() -> None:
    suspects = SuspectNodes()
    suspects.follow("ADDED", avoiding("a", "gpu-1"))
    suspects.follow("ADDED", avoiding("b", "gpu-2"))
    assert suspects.jobs(START) == {}
    suspects.follow("MODIFIED", avoiding("b", "gpu-1"))
    assert suspects.jobs(START) == {"gpu-1": 2}
    suspects.follow("DELETED", avoiding("a", "gpu-1"))
    assert suspects.jobs(START) == {}


def test_a_node_check_counts_as_a_failure_does() -> None:
    suspects = SuspectNodes()
    until = (START + HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    checked = {"avoidedNodes": {"learner": {"gpu-1": until}}}
    suspects.follow("ADDED", {"metadata": {"uid": "a"}, "status": checked})
    suspects.follow("ADDED", avoiding("b", "gpu-1"))
    assert suspects.jobs(START) == {"gpu-1": 2}


def test_a_suspicion_ends_with_the_avoidance_of_the_first_job() -> None:
    suspects = SuspectNodes()
    suspects.follow("ADDED", avoiding("a", "gpu-1", minutes=10))
    suspects.follow("ADDED", avoiding("b", "gpu-1"))
    assert suspects.jobs(START + timedelta(minutes=9)) == {"gpu-1": 2}
    assert suspects.jobs(START + timedelta(minutes=10)) == {}


@pytest.mark.parametrize("status", [None, 3, {"replicaFailures": 3, "avoidedNodes": [3]}])
def test_an_edited_status_suspects_nothing(status: Any) -> None:
    suspects = SuspectNodes()
    suspects.follow("ADDED", {"metadata": {"uid": "a"}, "status": status})
    suspects.follow("ADDED", {"metadata": None, "status": status})
    assert suspects.jobs(START) == {}


@pytest.mark.proves("lifecycle.md#suspect-nodes", "events.md#of-problems/nodesuspect")
def test_a_job_that_avoids_a_suspect_node_shows_it_until_it_is_over() -> None:
    cluster = failed_on("gpu-1")
    suspects = SuspectNodes()
    suspects.follow("MODIFIED", cluster.job)
    suspects.follow("ADDED", avoiding("other", "gpu-1"))
    cluster.suspect_nodes = dict(suspects.jobs(cluster.now))
    cluster.settle()
    found = cluster.condition("NodeSuspect")
    assert (found["status"], found["reason"]) == ("True", "SeveralJobs")
    assert found["message"] == ("avoided by several jobs after failures or checks: gpu-1 (2 jobs)")
    assert cluster.events[-1].reason is Problem.NODE_SUSPECT
    cluster.suspect_nodes = {}
    cluster.settle()
    assert cluster.condition("NodeSuspect")["status"] == "False"


def test_a_job_with_pods_on_a_suspect_node_shows_it() -> None:
    cluster = running(task("learner"))
    cluster.pods["x-learner-0"]["spec"]["nodeName"] = "gpu-9"
    cluster.suspect_nodes = {"gpu-9": 3}
    cluster.settle()
    assert "gpu-9 (3 jobs)" in cluster.condition("NodeSuspect")["message"]


def test_a_job_elsewhere_shows_no_suspect_node() -> None:
    cluster = running(task("learner"))
    cluster.suspect_nodes = {"gpu-9": 3}
    cluster.settle()
    assert not [each for each in cluster.status["conditions"] if each["type"] == "NodeSuspect"]
