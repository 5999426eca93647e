"""What is read for a decision before it is made, so that it is made once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from di_api.companions import CompanionKind
from di_operator.lifecycle.needs import Needs, needs
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

COMPANION = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$(JOB)-data"}}
KIND = CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps")


def model(**spec: Any) -> ClusterModel:
    cluster = ClusterModel(job(task("learner"), **spec))
    cluster.settings = replace(cluster.settings, companion_kinds=(KIND,))
    return cluster


def found(cluster: ClusterModel) -> Needs:
    return needs(cluster.snapshot(), cluster.now, cluster.settings)


def test_a_job_without_unwatched_objects_needs_no_reads() -> None:
    assert not found(model())
    assert not found(running())


def test_companions_and_scheduling_objects_are_needed_together() -> None:
    wanted = found(model(companions=[COMPANION], scheduling={"gangScheduler": "volcano"}))
    assert [each.name for each in wanted.companions] == ["x-data"]
    assert [name for _, name in wanted.scheduling_objects] == ["x"]


@pytest.mark.parametrize("spec", [{"suspend": True}, {"suspend": True, "activeDeadlineSeconds": 1}])
def test_a_job_that_gets_no_pods_now_needs_no_reads(spec: dict[str, object]) -> None:
    assert not found(model(companions=[COMPANION], **spec))


def test_a_job_that_is_deleted_needs_no_reads() -> None:
    cluster = model(companions=[COMPANION])
    cluster.job["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert not found(cluster)


def test_nothing_is_made_before_the_needs_are_read() -> None:
    cluster = model(companions=[COMPANION])
    decision = cluster.decide()
    assert decision.actions == ()
    assert decision.requeue_after is not None
