"""What the API server is asked about the pods of a job that waits for nodes."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.write_errors import CreateForbidden, TemplateRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

WAITS = Grant(reason=Reason.WAITING_FOR_NODES, message="waiting", needs_dry_run=True)
KINDS = [{"preemptible": True}, {"scheduling": {"gang": True}}]


@pytest.mark.parametrize("kind", KINDS, ids=["preemptible", "gang"])
def test_one_pod_of_each_task_is_tried_and_none_is_made(kind: dict[str, Any]) -> None:
    cluster = ClusterModel(job(task("learner", 2), task("collector", 300), **kind))
    cluster.grant = WAITS
    cluster.reconcile()
    assert cluster.dry_runs == ["x-learner-0", "x-collector-0"]
    assert cluster.pods == {}
    assert cluster.condition("Pending")["message"] == "waiting"


def test_each_template_of_a_replica_is_tried() -> None:
    patch = {"spec": {"priorityClassName": "leaders"}}
    group = task("learner", 2, podsPerReplica=3, leaderTemplatePatch=patch)
    cluster = ClusterModel(job(group, preemptible=True))
    cluster.grant = WAITS
    cluster.reconcile()
    assert cluster.dry_runs == ["x-learner-0-0", "x-learner-0-1"]


def test_a_job_is_not_asked_about_while_it_is_suspended_or_has_pods() -> None:
    cluster = ClusterModel(job(task("learner"), suspend=True, preemptible=True))
    cluster.grant = WAITS
    cluster.settle()
    assert cluster.dry_runs == []
    gang = ClusterModel(job(task("learner", 2), scheduling={"gang": True}))
    gang.settle()
    gang.grant = WAITS
    gang.settle()
    assert gang.dry_runs == []


def test_a_refused_dry_run_is_a_refused_write_of_the_job() -> None:
    cluster = ClusterModel(job(task("learner"), preemptible=True))
    cluster.grant = WAITS
    cluster.refuse_pods = CreateForbidden(message="no PriorityClass with name fast was found")
    cluster.reconcile()
    pending = cluster.condition("Pending")
    assert pending["message"] == "no PriorityClass with name fast was found"
    cluster.refuse_pods = TemplateRefused(message="spec.containers[0].image: Required value")
    cluster.reconcile()
    assert cluster.phase == "Failed"
