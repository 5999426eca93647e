"""Pods that run and send no more heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, running, task

FIRST, SECOND = "x-learner-0", "x-learner-1"


def beating(*pods: str, within: int = 300) -> ClusterModel:
    """A job of three pods, of which some have just sent a heartbeat, a minute after its start."""
    return beat(running(task("learner", 2), task("collector")).pass_time(60), *pods, within=within)


def beat(cluster: ClusterModel, *pods: str, within: int = 300) -> ClusterModel:
    progress = dict(cluster.status.get("progress") or {})
    at = cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    sent = {pod: {"at": at, "withinSeconds": within} for pod in pods}
    progress["heartbeats"] = {**progress.get("heartbeats", {}), **sent}
    cluster.job["status"]["progress"] = progress
    return cluster.settle()


def is_silent(cluster: ClusterModel) -> bool:
    found = {each["type"]: each["status"] for each in cluster.status["conditions"]}
    return found.get("MemberSilent") == "True"


def events(cluster: ClusterModel) -> int:
    return sum(event.reason is Problem.MEMBER_SILENT for event in cluster.events)


@pytest.mark.proves("lifecycle.md#heartbeats", "events.md#of-problems/membersilent")
def test_a_pod_that_stops_sending_heartbeats_is_named() -> None:
    cluster = beating(FIRST, SECOND)
    pods = cluster.pods
    assert cluster.decide().requeue_after == 300
    cluster.wait(200)
    beat(cluster, FIRST).wait(99)
    assert not is_silent(cluster)
    cluster.wait(1)
    assert is_silent(cluster)
    condition = cluster.condition("MemberSilent")
    assert (condition["reason"], condition["message"]) == (
        "NoHeartbeat",
        f"no heartbeat from {SECOND}; the first is silent since 2026-01-01T12:01:00Z, for "
        "longer than 300 seconds",
    )
    cluster.wait(3600)
    assert f"from {SECOND}, {FIRST};" in cluster.condition("MemberSilent")["message"]
    assert (events(cluster), cluster.phase, cluster.pods) == (1, "Running", pods)
    beat(cluster, FIRST, SECOND)
    assert not is_silent(cluster)


def test_a_pod_that_never_sent_a_heartbeat_is_not_silent() -> None:
    cluster = beating(FIRST, within=10_000).wait(9000)
    assert not is_silent(cluster)
    assert not is_silent(beating().wait(100_000))


def test_a_replaced_pod_is_not_judged_by_the_heartbeat_of_the_earlier_one() -> None:
    cluster = beating(FIRST, SECOND)
    cluster.pass_time(10).fail(FIRST).settle()
    cluster.run().settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)
    assert not is_silent(cluster.wait(1000))
    beat(cluster, FIRST).wait(300)
    assert is_silent(cluster)


def test_silence_is_counted_again_after_an_outage_of_reports() -> None:
    cluster = beating(FIRST, SECOND)
    cluster.reports_since = None
    cluster.wait(1000)
    assert not is_silent(cluster)
    cluster.reports_since = cluster.now
    cluster.wait(299)
    assert not is_silent(cluster)
    cluster.wait(1)
    assert is_silent(cluster)
    cluster.reports_since = None
    cluster.wait(100)
    assert is_silent(cluster)


@pytest.mark.parametrize("written", [7, [], {"x": 1}, {"": {"at": 1}}, {"a": {"at": "x"}}])
def test_malformed_heartbeats_are_ignored(written: Any) -> None:
    cluster = beating()
    cluster.job["status"]["progress"] = {"heartbeats": written}
    assert not is_silent(cluster.wait(100_000))
