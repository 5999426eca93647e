"""Jobs whose learners wait or whose GPUs are idle, for tests of idlePolicy."""

from __future__ import annotations

from typing import Any

from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, running, task

POLICY = {"waitingShare": 80, "seconds": 600}
TASKS = (task("learner", 2), task("collector", 2))
EVERY = 60


def training(**policy: Any) -> ClusterModel:
    """A job that has run for a minute, of an operator that may suspend it."""
    cluster = running(*TASKS, idlePolicy={**POLICY, **policy})
    cluster.suspend_idle_jobs = True
    return cluster.wait(60)


def waits(cluster: ClusterModel, seconds: int, share: float = 0.9, **more: Any) -> ClusterModel:
    """The learners report the share of waiting now, and each minute for so long."""
    return reports(cluster, seconds, learnerWaitFrac=share, **more)


def reports(cluster: ClusterModel, seconds: int, **numbers: Any) -> ClusterModel:
    """The job reports these numbers now, and each minute for so long."""
    cluster.report(**numbers).settle()
    for _ in range(seconds // EVERY):
        cluster.wait(EVERY).report(**numbers).settle()
    return cluster


def belongs_to_multikueue(cluster: ClusterModel) -> None:
    """The job becomes the copy of one in another cluster."""
    cluster.job["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}


def is_idle(cluster: ClusterModel) -> bool:
    found = {each["type"]: each["status"] for each in cluster.status["conditions"]}
    return found.get("Idle") == "True"


def events(cluster: ClusterModel) -> int:
    return sum(event.reason is Problem.IDLE for event in cluster.events)
