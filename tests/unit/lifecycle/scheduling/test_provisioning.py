"""Nodes are asked for before there are pods, once, and the pods take the room that was made."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import SchedulingObjectRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
REQUEST = ("ProvisioningRequest", "x")


def asking(*tasks: Any, **spec: Any) -> ClusterModel:
    tasks = tasks or (task("learner", 2), task("collector", 3, dependsOn=["learner"]))
    cluster = ClusterModel(job(*tasks, scheduling={"provisioningClassName": CLASS}, **spec))
    return cluster.settle()


def say(cluster: ClusterModel, *conditions: tuple[str, str, str]) -> None:
    """What an autoscaler writes: type, status and message."""
    cluster.objects[REQUEST]["status"] = {
        "conditions": [
            {"type": kind, "status": status, "reason": kind, "message": message}
            for kind, status, message in conditions
        ]
    }
    cluster.wait(15)


@pytest.mark.proves(
    "teams.md#feature-by-feature/nodes-asked-for-first",
    "dijob.md#spec/scheduling-provisioningclassname",
)
def test_all_that_a_job_needs_is_asked_for_before_its_first_pod() -> None:
    cluster = asking()
    assert cluster.writes[:3] == [
        "create PodTemplate x-learner",
        "create PodTemplate x-collector",
        "create ProvisioningRequest x",
    ]
    made = cluster.objects[REQUEST]
    assert made["spec"] == {
        "provisioningClassName": CLASS,
        "podSets": [
            {"podTemplateRef": {"name": "x-learner"}, "count": 2},
            {"podTemplateRef": {"name": "x-collector"}, "count": 3},
        ],
    }
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DIJob", "uid-x", True)
    template = cluster.objects["PodTemplate", "x-learner"]["template"]
    assert (template["spec"]["containers"][0]["name"], cluster.pods) == ("di-container", {})
    assert cluster.phase == "Pending"
    assert cluster.condition("Pending")["message"] == (
        "waiting for ProvisioningRequest x: no answer yet"
    )


def test_pods_come_after_provisioning_and_name_their_request() -> None:
    cluster = asking()
    say(cluster, ("Accepted", "True", "accepted"), ("Provisioned", "False", "no capacity yet"))
    assert cluster.pods == {}
    assert "no capacity yet" in cluster.condition("Pending")["message"]
    say(cluster, ("Accepted", "True", "accepted"), ("Provisioned", "True", "there is room"))
    assert [*cluster.pods] == ["x-learner-0", "x-learner-1"]
    notes = cluster.pods["x-learner-0"]["metadata"]["annotations"]
    assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == "x"
    assert notes["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS


def test_a_failed_request_is_reported_and_replaced_once_deleted() -> None:
    cluster = asking()
    say(cluster, ("Failed", "True", "no node group is as large"))
    assert cluster.pods == {}
    message = cluster.condition("Pending")["message"]
    assert message.endswith("unless it is deleted: no node group is as large")
    del cluster.objects[REQUEST]
    cluster.wait(15)
    assert "status" not in cluster.objects[REQUEST]


@pytest.mark.parametrize("late", ["BookingExpired", "CapacityRevoked"])
def test_a_job_provisioned_once_does_not_wait_again(late: str) -> None:
    cluster = asking()
    say(cluster, ("Provisioned", "True", "there is room"), (late, "True", "too late"))
    assert len(cluster.pods) == 2


def test_a_job_that_runs_asks_for_nothing_more() -> None:
    cluster = asking(task("learner", 2))
    say(cluster, ("Provisioned", "True", "there is room"))
    cluster.run().settle()
    assert cluster.phase == "Running"
    cluster.objects[REQUEST]["status"] = {}
    cluster.scale("learner", 3).settle()
    assert len(cluster.pods) == 3
    assert cluster.objects[REQUEST]["spec"]["podSets"][0]["count"] == 2


def test_without_permission_for_requests_the_job_waits_with_a_reason() -> None:
    cluster = ClusterModel(job(task("learner"), scheduling={"provisioningClassName": CLASS}))
    cluster.refuse_scheduling_objects = SchedulingObjectRefused(
        seen=Seen.SCHEDULING_KIND_MISSING, message="nothing in this cluster serves it"
    )
    cluster.settle()
    assert cluster.pods == {}
    assert cluster.condition("Pending")["reason"] == "SchedulingKindMissing"
