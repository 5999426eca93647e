"""Tasks of which an eviction may take only so many pods at a time."""

from __future__ import annotations

from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import SchedulingObjectRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

BUDGET = ("PodDisruptionBudget", "x-learner")


def test_a_budget_is_made_before_the_pods_and_belongs_to_the_job() -> None:
    cluster = ClusterModel(job(task("learner", 4, maxUnavailable=1), task("collector", 2)))
    cluster.settle()
    assert cluster.writes[0] == "create PodDisruptionBudget x-learner"
    made = cluster.objects[BUDGET]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DIJob", "uid-x", True)
    assert made["spec"] == {
        "minAvailable": 3,
        "selector": {"matchLabels": {"diengine/job": "x", "diengine/task-name": "learner"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    selected = made["spec"]["selector"]["matchLabels"].items()
    assert {
        name for name, pod in cluster.pods.items() if selected <= pod["metadata"]["labels"].items()
    } == {f"x-learner-{index}" for index in range(4)}
    assert ("PodDisruptionBudget", "x-collector") not in cluster.objects


def test_a_budget_follows_the_replicas_and_is_restored() -> None:
    cluster = ClusterModel(job(task("learner", 2, maxUnavailable=0))).settle().run()
    cluster.settle().edit(tasks=[task("learner", 3, maxUnavailable=0)]).settle()
    assert cluster.objects[BUDGET]["spec"]["minAvailable"] == 3
    cluster.objects[BUDGET]["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    cluster.objects[BUDGET]["spec"]["maxUnavailable"] = 1
    cluster.settle()
    assert "maxUnavailable" not in cluster.objects[BUDGET]["spec"]
    labels = {"diengine/job": "x", "diengine/task-name": "learner"}
    assert cluster.objects[BUDGET]["spec"]["selector"] == {"matchLabels": labels}
    del cluster.objects[BUDGET]
    cluster.settle()
    assert BUDGET in cluster.objects


def test_more_than_there_are_leaves_none_that_have_to_stay() -> None:
    cluster = ClusterModel(job(task("learner", 2, maxUnavailable=5))).settle()
    assert cluster.objects[BUDGET]["spec"]["minAvailable"] == 0


def test_without_permission_for_budgets_the_job_waits_with_a_reason() -> None:
    cluster = ClusterModel(job(task("learner", 1, maxUnavailable=0)))
    cluster.refuse_scheduling_objects = SchedulingObjectRefused(
        seen=Seen.SCHEDULING_OBJECT_REFUSED,
        message="PodDisruptionBudget (policy/v1) x-learner: may not create",
    )
    cluster.settle()
    assert cluster.pods == {}
    (told,) = (each for each in cluster.job["status"]["conditions"] if each["type"] == "Pending")
    assert told["reason"] == "SchedulingObjectRefused"
    assert "may not create" in told["message"]
