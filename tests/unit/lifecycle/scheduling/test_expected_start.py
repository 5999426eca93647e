"""The expected start of a waiting job: the latest forecast of the allocator, and its first one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from di_api.expected_completion import ExpectedCompletion
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.kubelet_model import START


def start(minutes: float) -> ExpectedCompletion:
    at = START + timedelta(minutes=minutes)
    return ExpectedCompletion(
        earliest=at, expected=at + timedelta(minutes=5), latest=at + timedelta(minutes=10)
    )


def foretold(minutes: float | None) -> Grant:
    return Grant(
        placement={},
        reason=Reason.WAITING_FOR_NODES,
        message="waiting for nodes that other jobs have",
        expected_start=None if minutes is None else start(minutes),
    )


def waiting(minutes: float | None) -> ClusterModel:
    cluster = ClusterModel(job(task("learner"), preemptible=True))
    cluster.grant = foretold(minutes)
    return cluster.settle()


@pytest.mark.proves("lifecycle.md#expected-start")
def test_a_waiting_job_shows_its_expected_start_and_the_first_one() -> None:
    cluster = waiting(30)
    first = "2026-01-01T12:40:00Z"
    assert cluster.status["expectedStart"] == {**start(30).dump(), "promised": first}
    cluster.wait(600)
    cluster.grant = foretold(60)
    cluster.settle()
    assert cluster.status["expectedStart"] == {**start(60).dump(), "promised": first}
    # There is no forecast any more.
    cluster.wait(600)
    cluster.grant = foretold(None)
    cluster.settle()
    assert cluster.status["expectedStart"] == {"promised": first}


def test_a_job_with_nodes_has_no_expected_start() -> None:
    cluster = waiting(30)
    cluster.grant = Grant(placement={"learner": ("a",)})
    cluster.settle()
    assert "expectedStart" not in cluster.status


def test_a_suspended_job_has_no_expected_start() -> None:
    cluster = waiting(30).edit(suspend=True).settle()
    assert "expectedStart" not in cluster.status


def test_a_slightly_later_start_is_not_written() -> None:
    cluster = waiting(30)
    before = len(cluster.writes)
    cluster.wait(120)
    cluster.grant = foretold(31)
    cluster.settle()
    assert len(cluster.writes) == before
    assert cluster.status["expectedStart"]["expected"] == start(30).dump()["expected"]


@pytest.mark.parametrize("written", ["soon", {"promised": "soon"}, {"promised": 3}])
def test_a_hand_written_expected_start_is_replaced(written: object) -> None:
    cluster = waiting(None)
    cluster.job["status"]["expectedStart"] = written
    cluster.grant = foretold(30)
    cluster.wait(60).settle()
    assert cluster.status["expectedStart"] == {
        **start(30).dump(),
        "promised": "2026-01-01T12:40:00Z",
    }
