"""Pods at a step that lasts although nothing is said to be wrong: reported after a minute."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.cluster.informer_state import transform_pod
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.stalled import PATIENCE
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.kubelet_model import START
from tests.unit.lifecycle.test_blocked import BUSY, PULL, without_node

Object = dict[str, Any]
SINCE = format_time(START)
LEARNER = "x-learner-0"


def starting(**spec: Any) -> ClusterModel:
    """A job whose pods the API server has created, with a field of the learner's spec."""
    cluster = ClusterModel(job(task("learner"), task("collector"))).settle()
    cluster.objects["Pod", LEARNER]["metadata"]["creationTimestamp"] = SINCE
    cluster.objects["Pod", LEARNER]["spec"] |= spec
    return cluster


def initializing(*containers: Object) -> Object:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    conditions.append({"type": "PodReadyToStartContainers", "status": "True"})
    waits = {"name": "di-container", "state": {"waiting": {"reason": "PodInitializing"}}}
    statuses = {"initContainerStatuses": list(containers), "containerStatuses": [waits]}
    return {"phase": "Pending", "conditions": conditions, **statuses}


def runs(name: str, **fields: Any) -> Object:
    return {"name": name, "state": {"running": {"startedAt": SINCE}}, **fields}


def reported_after_a_minute(cluster: ClusterModel) -> Object:
    """The condition once a minute has passed, and not before."""
    before, written = cluster.condition("Starting"), len(cluster.writes)
    cluster.pass_time(PATIENCE - 1)
    assert cluster.reconcile().requeue_after == 1
    assert (cluster.condition("Starting"), len(cluster.writes)) == (before, written)
    cluster.wait(1)
    found = cluster.condition("Starting")
    written = len(cluster.writes)
    cluster.wait(600)
    assert (cluster.condition("Starting"), len(cluster.writes)) == (found, written)
    return found


@pytest.mark.proves("lifecycle.md#pods-that-cannot-run/for-a-minute-by-now-no-scheduler-has")
def test_an_unknown_scheduler_is_named_with_its_pod() -> None:
    cluster = starting(schedulerName="nobody")
    told = reported_after_a_minute(cluster)
    assert told["reason"] == "Unschedulable"
    assert told["message"] == (
        f"1 of 2 pods cannot run, {LEARNER} first: its scheduler, nobody, has not considered it "
        f"since {SINCE}"
    )
    assert (cluster.events[-1].reason, cluster.events[-1].type) == ("Unschedulable", "Warning")
    cluster.run().settle()
    assert cluster.condition("Running")["reason"] == "JobRunning"


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        ({"name": "gpu", "resourceClaimName": "not-there"}, "not-there"),
        ({"name": "gpu", "resourceClaimTemplateName": "gpus"}, "of template gpus"),
    ],
)
def test_resource_claims_of_a_pod_without_a_node_are_named(claim: Object, named: str) -> None:
    told = reported_after_a_minute(starting(resourceClaims=[claim]))
    assert told["reason"] == "Unschedulable"
    assert told["message"].endswith(
        f"its scheduler, default-scheduler, has not considered it since {SINCE}; the "
        f"ResourceClaims that it needs have to exist: {named}"
    )


def test_what_a_scheduler_says_goes_first() -> None:
    cluster = starting(schedulerName="nobody").say("x-collector-0", **BUSY).settle()
    cluster.wait(PATIENCE)
    told = cluster.condition("Starting")
    assert told["message"].startswith("2 of 2 pods cannot run, x-collector-0 first: 0/3 nodes")
    cluster.say("x-collector-0", **PULL).settle()
    assert cluster.condition("Starting")["reason"] == "ImagePullBackOff"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeName": "n1"}},
        {"status": without_node("SchedulingGated", "blocked by 1 gate")},
        {"metadata": {"deletionTimestamp": SINCE}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"creationTimestamp": None}},
    ],
)
def test_pods_that_are_bound_explained_or_over_are_not_stalled(change: Object) -> None:
    pod: Object = {"metadata": {"name": "x", "uid": "u", "creationTimestamp": SINCE}, "spec": {}}
    assert Pod.read(pod).stalled is not None
    for field, values in change.items():
        pod[field] = {**pod.get(field, {}), **values}
    pod["metadata"] = {key: each for key, each in pod["metadata"].items() if each is not None}
    assert Pod.read(pod).stalled is None
    assert Pod.read(transform_pod(pod)).stalled is None


@pytest.mark.proves(
    "lifecycle.md#pods-that-cannot-run/for-a-minute-by-now-an-init-container",
    "events.md#of-its-life/initcontainerrunning",
)
def test_an_init_container_that_runs_for_long_is_named() -> None:
    cluster = starting().say(LEARNER, **initializing(runs("fetch", started=True))).settle()
    told = reported_after_a_minute(cluster)
    assert told["reason"] == "InitContainerRunning"
    assert told["message"] == (
        f"1 of 2 pods cannot run, {LEARNER} first: init container fetch has been running since "
        f"{SINCE}"
    )
    assert (cluster.events[-1].reason, cluster.events[-1].type) == (
        Reason.INIT_CONTAINER_RUNNING,
        "Normal",
    )
    cluster.run().settle()
    assert cluster.condition("Running")["reason"] == "JobRunning"


@pytest.mark.parametrize(
    ("containers", "named"),
    [
        ([runs("proxy", started=True), runs("fetch")], "fetch"),
        ([runs("proxy", started=False)], "proxy"),
        ([runs("proxy", started=True)], None),
        ([{"name": "fetch", "state": {"terminated": {"exitCode": 0}}}], None),
    ],
    ids=["after a sidecar", "a sidecar that starts", "a sidecar that runs", "done"],
)
def test_a_sidecar_counts_until_it_has_started(containers: list[Object], named: str | None) -> None:
    cluster = starting(initContainers=[{"name": "proxy", "restartPolicy": "Always"}])
    cluster.say(LEARNER, **initializing(*containers)).settle().wait(PATIENCE)
    told = cluster.condition("Starting")
    assert told["reason"] == ("InitContainerRunning" if named else "JobStarting")
    assert named is None or f"init container {named} has" in told["message"]


def test_the_pending_timeout_names_the_init_container() -> None:
    cluster = starting().edit(pendingTimeoutSeconds=300)
    cluster.say(LEARNER, **initializing(runs("fetch"))).settle().wait(300)
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert "init container fetch has been running" in failed["message"]


def test_the_cache_forgets_what_was_stalled_once_it_goes_on() -> None:
    pod: Object = {
        "metadata": {
            "name": "x",
            "uid": "u",
            "creationTimestamp": SINCE,
            "ownerReferences": [
                {
                    "apiVersion": "diengine.opendilab.org/v2alpha1",
                    "kind": "DIJob",
                    "name": "x",
                    "uid": "j",
                    "controller": True,
                }
            ],
        },
        "spec": {"schedulerName": "nobody", "resourceClaims": [{"name": "gpu"}]},
    }
    waits = transform_pod(copy.deepcopy(pod))
    assert Pod.read(waits).stalled == Pod.read(pod).stalled
    bound = transform_pod({**pod, "spec": {**pod["spec"], "nodeName": "n1"}})
    assert "creationTimestamp" not in bound["metadata"]
    assert bound["spec"].keys() == {"nodeName", "containers"}
