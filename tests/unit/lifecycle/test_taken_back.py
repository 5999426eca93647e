"""Conditions beside those of phases are True for as long as a decision reports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.conditions import (
    BELOW_MINIMUM,
    OWN_ASIDES,
    SUCCESS_CRITERIA_MET,
)
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.scheduling.kueue_model import submitted


def with_condition(cluster: ClusterModel, kind: str) -> ClusterModel:
    """The job with another condition, as an earlier decision has written it."""
    told: dict[str, Any] = {"type": kind, "status": "True", "reason": "Found", "message": "so"}
    told["lastTransitionTime"] = "2026-01-01T11:00:00Z"
    return cluster.patch_status({"conditions": [*cluster.status["conditions"], told]})


@pytest.mark.parametrize("kind", sorted(OWN_ASIDES))
def test_a_condition_whose_cause_has_gone_turns_false(kind: str) -> None:
    cluster = with_condition(running(), kind)
    # It is news, and does not wait as counts do.
    cluster.reconcile()
    assert cluster.condition(kind)["status"] == "False"
    written = len(cluster.writes)
    cluster.pass_time(100).settle()
    assert (cluster.phase, len(cluster.writes)) == ("Running", written)


def test_conditions_of_other_writers_stay_as_they_are() -> None:
    cluster = with_condition(running(), "example.org/Audited")
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"
    assert cluster.condition("example.org/Audited")["status"] == "True"


def without_kueue() -> ClusterModel:
    """A job with a queue in a cluster that does not have Kueue."""
    body = job(suspend=True)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    body["metadata"]["annotations"] = {"diengine/suspended-by": "queue"}
    return ClusterModel(body).settle()


@pytest.mark.parametrize("cluster", [submitted, without_kueue])
def test_a_job_that_leaves_its_queue_is_not_queued(cluster: Callable[[], ClusterModel]) -> None:
    left = cluster()
    assert left.condition("Queued")["status"] == "True"
    del left.job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    left.settle()
    assert left.condition("Queued")["status"] == "False"
    assert left.condition("Pending")["reason"] == "JobSuspended"


def test_a_minimum_without_a_time_limit_is_not_reported() -> None:
    cluster = ClusterModel(job(task("learner"), pendingTimeoutSeconds=300)).settle()
    assert cluster.condition(BELOW_MINIMUM)["status"] == "True"
    del cluster.job["spec"]["pendingTimeoutSeconds"]
    cluster.edit().settle()
    assert cluster.condition(BELOW_MINIMUM)["status"] == "False"


def test_a_success_policy_that_is_taken_away_is_not_met() -> None:
    policy = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30}
    cluster = running(task("learner"), task("collector"), successPolicy=policy)
    cluster.succeed("x-learner-0").settle()
    assert cluster.condition(SUCCESS_CRITERIA_MET)["status"] == "True"
    del cluster.job["spec"]["successPolicy"]
    cluster.edit().settle()
    assert cluster.condition(SUCCESS_CRITERIA_MET)["status"] == "False"


def test_a_condition_stays_while_the_spec_cannot_be_read() -> None:
    cluster = with_condition(running(), BELOW_MINIMUM).edit(tasks="none")
    cluster.settle()
    assert cluster.condition("SpecInvalid")["reason"] == "Unreadable"
    assert cluster.condition(BELOW_MINIMUM)["status"] == "True"


@pytest.mark.proves("dijob.md#status/taskstatus")
@pytest.mark.parametrize("policy", ["Running", "None"])
def test_the_counts_of_an_ended_job_have_no_active_pods(policy: str) -> None:
    cluster = running(cleanPodPolicy=policy, backoffLimit=0).fail("x-learner-0").settle()
    assert cluster.phase == "Failed"
    assert cluster.status["taskStatus"] == {"learner": {"Failed": 1}, "collector": {}}
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (4, 0)
