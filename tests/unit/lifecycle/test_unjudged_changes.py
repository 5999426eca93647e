"""Changes of a running or finished job that neither the webhook nor the policy has refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, running, task

Spec = dict[str, Any]


def with_image(spec: Spec) -> None:
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    spec["tasks"][0]["template"] = {"spec": {"containers": [{**container, "image": "train:2"}]}}


KEEP_PODS: dict[str, Callable[[Spec], object]] = {
    "template": with_image,
    "group": lambda spec: spec.update(group="other"),
    "volumes": lambda spec: spec.update(volumes=[{"name": "data", "emptyDir": {}}]),
    "dependsOn": lambda spec: spec["tasks"][1].update(dependsOn=["learner"]),
    "maxUnavailable": lambda spec: spec["tasks"][1].update(maxUnavailable=1),
    "drain": lambda spec: spec["tasks"][1].update(drain={"command": ["drain"]}),
    "service": lambda spec: spec["tasks"][1].update(
        service={"ports": [{"name": "http", "port": 80}]}
    ),
    "ports": lambda spec: spec["tasks"][1].update(ports=[{"name": "rpc"}]),
    "successPolicy": lambda spec: spec.update(successPolicy={"tasks": ["learner"]}),
    "checkpoint": lambda spec: spec.update(checkpoint={"persistentVolumeClaim": "claim"}),
    "scheduling": lambda spec: spec.update(scheduling={"gang": True}),
    "companions": lambda spec: spec.update(companions=[]),
}
OTHER_PODS: dict[str, Callable[[Spec], object]] = {
    "one task more": lambda spec: spec["tasks"].append(task("evaluator")),
    "one task less": lambda spec: spec["tasks"].pop(),
    "another name": lambda spec: spec["tasks"][1].update(name="other"),
    "another order": lambda spec: spec["tasks"].reverse(),
    "another type": lambda spec: spec["tasks"][1].update(type="evaluator"),
    "podsPerReplica": lambda spec: spec["tasks"][1].update(podsPerReplica=2),
    "standby": lambda spec: spec["tasks"][1].update(standby=1),
    "processGroup": lambda spec: spec["tasks"][1].update(processGroup={"framework": "torch"}),
}


def change(cluster: ClusterModel, edit: Callable[[Spec], object]) -> None:
    edit(cluster.job["spec"])
    cluster.edit()


@pytest.mark.parametrize("what", KEEP_PODS)
def test_pods_that_run_stay_when_what_may_not_change_does(what: str) -> None:
    cluster = running()
    before = cluster.uids
    change(cluster, KEEP_PODS[what])
    cluster.settle().pass_time(60).settle()
    assert (cluster.phase, cluster.uids) == ("Running", before)


def test_a_pod_that_is_replaced_has_the_changed_template() -> None:
    cluster = running()
    change(cluster, with_image)
    cluster.fail("x-learner-0").settle().run().settle()
    (container,) = cluster.pods["x-learner-0"]["spec"]["containers"]
    assert container["image"] == "train:2"


@pytest.mark.parametrize("what", KEEP_PODS | OTHER_PODS)
def test_a_job_goes_on_and_ends_when_what_may_not_change_does(what: str) -> None:
    cluster = running()
    change(cluster, (KEEP_PODS | OTHER_PODS)[what])
    for _ in range(4):
        cluster.settle().pass_time(60).run().settle()
    assert cluster.phase == "Running"
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize("what", KEEP_PODS | OTHER_PODS)
def test_a_finished_job_stays_as_it_is_whatever_changes(what: str) -> None:
    cluster = running()
    cluster.succeed().settle()
    written, status = len(cluster.writes), cluster.status
    change(cluster, (KEEP_PODS | OTHER_PODS)[what])
    cluster.settle().pass_time(60).settle()
    assert (cluster.writes[written:], cluster.status) == ([], status)


def test_a_job_that_asks_for_far_too_many_pods_keeps_those_it_has() -> None:
    cluster = running()
    before = cluster.uids
    change(cluster, lambda spec: spec["tasks"][1].update(replicas=100_000))
    cluster.settle().pass_time(60).settle()
    assert (cluster.phase, cluster.uids) == ("Running", before)
    condition = cluster.condition("SpecInvalid")
    assert (condition["status"], condition["reason"]) == ("True", "Unreadable")
    assert "may reach 100001 pods" in condition["message"]
