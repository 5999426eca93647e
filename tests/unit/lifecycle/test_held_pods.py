"""Pods that were deleted and do not end: named in a condition, with what holds them."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.lifecycle.policies.reports.held_pods import PATIENCE
from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

HELD = "x-learner-0"
GRACE = 30
ENDED: dict[str, Any] = {
    "phase": "Failed",
    "containerStatuses": [{"name": "di-container", "state": {"terminated": {"exitCode": 143}}}],
}


def deleted(cluster: ClusterModel, name: str = HELD, **metadata: Any) -> ClusterModel:
    """The job with a pod that was deleted now and that something holds."""
    cluster.delete_pod(name)
    pod = cluster.objects["Pod", name]
    pod["metadata"] |= {"deletionGracePeriodSeconds": GRACE, **metadata}
    pod["spec"]["nodeName"] = "n1"
    return cluster


def told(cluster: ClusterModel) -> tuple[str, str]:
    found = cluster.condition("PodNotEnding")
    return found["status"], found["reason"]


@pytest.mark.proves(
    "lifecycle.md#pods-that-do-not-end/no-container-of-it-runs-and-it-has",
    "events.md#of-problems/podnotending",
    "runbook.md#when-something-is-wrong/a-pod-stays-terminating",
)
def test_a_finalizer_that_holds_a_pod_is_named_until_it_is_gone() -> None:
    cluster = deleted(running(task("learner", 2)), finalizers=["example.org/hold"])
    since = format_time(cluster.now)
    cluster.settle().wait(GRACE)
    cluster.say(HELD, **ENDED)
    cluster.wait(PATIENCE - 1)
    assert not any(each["type"] == "PodNotEnding" for each in cluster.status["conditions"])
    assert cluster.reconcile().requeue_after == 1
    cluster.wait(1)
    assert (cluster.phase, told(cluster)) == ("Rescheduling", ("True", "Finalizer"))
    assert cluster.condition("PodNotEnding")["message"] == (
        f"1 pod not ending, {HELD} first: being deleted since {since}, held by finalizer "
        "example.org/hold"
    )
    written = len(cluster.writes)
    cluster.wait(3600)
    assert len(cluster.writes) == written
    warnings = [event for event in cluster.events if event.reason is Problem.POD_NOT_ENDING]
    assert [event.type for event in warnings] == ["Warning"]
    cluster.end(HELD).settle().run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 1))
    assert told(cluster) == ("False", "PodsEnded")


@pytest.mark.proves("lifecycle.md#pods-that-do-not-end/a-container-of-it-runs-on")
def test_a_kubelet_that_does_not_end_a_pod_is_named() -> None:
    cluster = deleted(running(), finalizers=["example.org/hold"]).settle()
    cluster.wait(GRACE + PATIENCE)
    assert told(cluster) == ("True", "Kubelet")
    assert "the kubelet of node n1 does not end it" in cluster.condition("PodNotEnding")["message"]


@pytest.mark.proves("lifecycle.md#pods-that-do-not-end/no-container-of-it-runs-and-it-has-no")
def test_a_node_that_does_not_release_a_pod_is_named() -> None:
    cluster = deleted(running()).say(HELD, **ENDED).settle().wait(GRACE + PATIENCE)
    assert told(cluster) == ("True", "Node")


def scaled_down() -> ClusterModel:
    cluster = running().scale("collector", 2).settle()
    return deleted(cluster, "x-collector-2")


def suspended() -> ClusterModel:
    return deleted(running().edit(suspend=True).settle())


def made_again() -> ClusterModel:
    old = deleted(running())
    new = ClusterModel(job(uid="uid-new"))
    new.objects, new.version, new.made = old.objects, old.version, old.made
    return new


@pytest.mark.parametrize("cluster", [scaled_down, suspended, made_again])
def test_every_pod_that_is_waited_for_is_reported(cluster: Any) -> None:
    late = cluster().settle().wait(GRACE + PATIENCE)
    assert told(late) == ("True", "Kubelet")
    late.end_deleted().settle()
    assert told(late)[0] == "False"


def test_a_completed_pod_that_is_held_is_reported_and_not_waited_for() -> None:
    cluster = running(task("learner"), task("evaluator")).succeed("x-evaluator-0").pass_time(10)
    cluster.settle()
    cluster.objects["Pod", "x-evaluator-0"]["metadata"] |= {
        "finalizers": ["example.org/hold"],
        "deletionTimestamp": format_time(cluster.now),
        "deletionGracePeriodSeconds": 0,
    }
    cluster.settle().wait(PATIENCE)
    assert (cluster.phase, told(cluster)) == ("Running", ("True", "Finalizer"))
    cluster.succeed(HELD).settle()
    assert (cluster.phase, told(cluster)) == ("Succeeded", ("False", "CauseGone"))


def test_a_pod_on_a_lost_node_is_deleted_and_not_reported() -> None:
    cluster = deleted(running()).settle()
    cluster.objects["Pod", HELD]["status"]["reason"] = "NodeLost"
    cluster.wait(GRACE + PATIENCE).run().settle()
    assert cluster.phase == "Running"
    assert not any(each["type"] == "PodNotEnding" for each in cluster.status["conditions"])


def test_a_pod_of_an_earlier_job_whose_name_is_not_needed_is_not_reported() -> None:
    cluster = made_again()
    pod = cluster.objects.pop(("Pod", HELD))
    pod["metadata"]["name"] = "x-other"
    cluster.objects["Pod", "x-other"] = pod
    cluster.settle().wait(GRACE + PATIENCE)
    message = cluster.condition("PodNotEnding")["message"]
    assert message.startswith("3 pods not ending, x-collector-0 first")
