"""What the failures of a job's replicas change for the allocator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from di_api.timestamps import format_time
from di_operator.allocator.model.job import NodeList
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import NOW, job, node, placed, task

GI = 1024**3


def reader_of(tasks: list[Any], failures: Any) -> ClusterReader:
    """Two nodes, and a job that has remembered these failures."""
    reader, body = ClusterReader(read_spec), job("x", *tasks, phase="Pending")
    body["status"]["replicaFailures"] = failures
    nodes = [node("a", 4), node("b", 4)]
    reader.take(Changes.all(jobs=[body], departed=[], nodes=nodes, pods=[], others=[]))
    return reader


def test_a_task_stays_off_a_node_until_its_avoidance_expires() -> None:
    until = NOW + timedelta(hours=1)
    avoid = [{"node": "a", "until": format_time(until)}]
    reader = reader_of([task("learner", 2)], {"learner": {"1": {"restarts": 1, "avoid": avoid}}})

    def where(seconds: float) -> NodeList:
        found = reader.read(granted={}, now=NOW + timedelta(seconds=seconds))
        return FitPolicy().optimize(found.jobs, found.nodes, found.held)[next(iter(found.jobs))]

    assert where(3599) == placed(learner="b b")
    assert where(3600) == placed(learner="a a")


def test_a_task_requests_the_largest_memory_of_its_grown_replicas() -> None:
    grown = {"0": {"memory": {"main": "8Gi"}}, "1": {"memory": {"main": "16Gi"}}, "2": {}}
    learner = task("learner", 3)
    (container,) = learner["template"]["spec"]["containers"]
    container |= {"name": "main", "resources": {"limits": {"memory": "4Gi"}}}
    reader = reader_of([learner], {"learner": grown})
    (info,) = reader.read(granted={}, now=NOW).jobs.values()
    assert info.tasks[0].resources["memory"] == 16 * GI * 1000
