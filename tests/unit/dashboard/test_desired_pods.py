"""The pods of a job on the page are those that it is to have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from di_dashboard.views.desired_pods import missing_pods
from di_dashboard.views.pods import grid, in_table
from tests.unit.cli.conftest import condition, job, pod

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Object = dict[str, Any]


def _job(phase: str = "Starting", *, task: Object | None = None, **status: Any) -> Object:
    """A job with a learner and two collectors, or with one task of its own."""
    found = job("x", phase, **status)
    tasks = [{"type": "learner"}, {"type": "collector", "replicas": 2}]
    found["spec"] = {"tasks": [task] if task else tasks}
    return found


def _names(body: Object, *there: str) -> list[str]:
    return [each.name for each in missing_pods(body, there, NOW)]


def test_pods_that_do_not_exist_are_missing() -> None:
    assert _names(_job(), "x-learner-0") == ["x-collector-0", "x-collector-1"]
    assert _names(_job("Running"), "x-learner-0", "x-collector-0", "x-collector-1") == []


def test_replicas_of_several_pods_and_vacant_indexes_have_their_names() -> None:
    several = {"type": "learner", "replicas": 2, "podsPerReplica": 2, "vacant": [0]}
    assert _names(_job(task=several), "x-learner-1-0") == [
        "x-learner-1-1",
        "x-learner-2-0",
        "x-learner-2-1",
    ]


def test_a_placed_job_has_as_many_replicas_as_it_has_nodes() -> None:
    placed = _job("Running", placement={"learner": ["gpu-1"], "collector": ["gpu-1"]})
    assert _names(placed) == ["x-learner-0", "x-collector-0"]


@pytest.mark.parametrize(
    "body",
    [
        _job("Succeeded"),
        _job("Failed"),
        _job("Pending", conditions=[condition("Pending", "WaitingForNodes", "waits")]),
        {**_job(), "spec": {**_job()["spec"], "suspend": True}},
        {"spec": {"tasks": "none"}, "status": {"phase": "Starting"}},
        {},
    ],
)
def test_a_job_that_is_to_have_no_pods_misses_none(body: Object) -> None:
    assert _names(body) == []


def test_a_missing_pod_has_its_cause() -> None:
    refused = condition("Pending", "QuotaExceeded", "exceeded quota: team")
    (why,) = {each.why for each in missing_pods(_job("Pending", conditions=[refused]), (), NOW)}
    assert why == "QuotaExceeded: exceeded quota: team"
    record = {"restarts": 2, "lastFailure": "2026-03-01T11:59:30Z"}
    delayed = _job("Running", replicaFailures={"collector": {"1": record}})
    found = {each.name: each.why for each in missing_pods(delayed, ["x-learner-0"], NOW)}
    assert found["x-collector-0"] == ""
    assert found["x-collector-1"] == (
        "failed 2 times, the last time 30s ago; it is created again after a delay"
    )


def test_a_completed_index_has_succeeded() -> None:
    body = _job("Running", completedIndexes={"collector": "0-1"})
    done = {each.name: each.is_done for each in missing_pods(body, (), NOW)}
    assert done == {"x-learner-0": False, "x-collector-0": True, "x-collector-1": True}


def test_the_table_has_every_pod_and_those_with_a_problem_first() -> None:
    there = pod("x", "learner", 0, 0)
    lines = grid([there], NOW, missing_pods(_job(), ["x-learner-0"], NOW))
    assert [(line.name, line.good, len(line.cells)) for line in lines] == [
        ("learner", 1, 1),
        ("collector", 0, 2),
    ]
    assert [(each.name, each.state, each.exists) for each in in_table(lines)] == [
        ("x-collector-0", "NotCreated", False),
        ("x-collector-1", "NotCreated", False),
        ("x-learner-0", "Running", True),
    ]
