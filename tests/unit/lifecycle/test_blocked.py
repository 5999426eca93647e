"""Pods that cannot run: what is said of them, how often, and until when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.cluster.informer_state import transform_pod
from di_operator.lifecycle.observed.blockers import (
    BLOCKED_REASONS,
    MAX_TEXT,
    Blocker,
    find_blocker,
)
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.stalled import PATIENCE
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle import test_coordinated
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.kubelet_model import START

Object = dict[str, Any]

ENDED = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}


def waiting(reason: str, message: str = "", *, name: str = "main", **more: Any) -> Object:
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {"name": name, "ready": False, "image": "i:1", "state": state, **more}


def on_node(*containers: Object, init: tuple[Object, ...] = ()) -> Object:
    scheduled = {"type": "PodScheduled", "status": "True"}
    return {
        "conditions": [scheduled],
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
    }


def without_node(reason: str, message: str) -> Object:
    one = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [{**one, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


RUNS = {"name": "main", "ready": True, "state": {"running": {}}}
PULL = on_node(waiting("ErrImagePull", "no such host"))
LOOPS = waiting("CrashLoopBackOff", "back-off 10s", restartCount=4, lastState={"terminated": ENDED})
CRASH = on_node(LOOPS)
SIDECAR = on_node(RUNS, init=(LOOPS,))
BUSY = without_node("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
NO_CLAIM = '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def row(status: Object, reason: Reason | None, message: str) -> tuple[Object, Reason | None, str]:
    return status, reason, message


CASES = {
    "nothing yet": row({}, None, ""),
    "just created": row(on_node(waiting("ContainerCreating")), None, ""),
    "init containers first": row(on_node(waiting("PodInitializing")), None, ""),
    "runs": row(on_node(RUNS), None, ""),
    "pull": row(PULL, Reason.IMAGE_PULL_BACK_OFF, "container main: ErrImagePull: no such host"),
    "pull again": row(
        on_node(waiting("ImagePullBackOff", "Back-off")),
        Reason.IMAGE_PULL_BACK_OFF,
        "container main: ImagePullBackOff: Back-off",
    ),
    "never": row(
        on_node(waiting("ErrImageNeverPull", "not present")),
        Reason.ERR_IMAGE_NEVER_PULL,
        "container main: ErrImageNeverPull: not present",
    ),
    "name": row(
        on_node(waiting("InvalidImageName")),
        Reason.INVALID_IMAGE_NAME,
        "container main: InvalidImageName",
    ),
    "config": row(
        on_node(waiting("CreateContainerConfigError", 'secret "x" not found')),
        Reason.CREATE_CONTAINER_CONFIG_ERROR,
        'container main: CreateContainerConfigError: secret "x" not found',
    ),
    "crash": row(
        CRASH,
        Reason.CRASH_LOOP_BACK_OFF,
        "container main ended with exit code 137 (OOMKilled), restarts: 4",
    ),
    "another reason": row(
        on_node(waiting("PostStartHookError", "exit 1")),
        Reason.CONTAINER_WAITING,
        "container main: PostStartHookError: exit 1",
    ),
    "init container": row(
        on_node(waiting("PodInitializing"), init=(waiting("ErrImagePull", name="fetch"),)),
        Reason.IMAGE_PULL_BACK_OFF,
        "container fetch: ErrImagePull",
    ),
    "sidecar": row(
        on_node(RUNS, waiting("ErrImagePull", name="logs")),
        Reason.IMAGE_PULL_BACK_OFF,
        "container logs: ErrImagePull",
    ),
    "no node": row(BUSY, Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient cpu."),
    "no node, no word": row(
        without_node("Unschedulable", ""), Reason.UNSCHEDULABLE, "the scheduler does not say why"
    ),
    "no claim": (without_node("Unschedulable", NO_CLAIM), Reason.VOLUME_NOT_BOUND, NO_CLAIM),
    "unbound": (without_node("Unschedulable", UNBOUND), Reason.VOLUME_NOT_BOUND, UNBOUND),
    "gated": row(
        without_node("SchedulingGated", "blocked by 1 gate"),
        Reason.SCHEDULING_GATED,
        "blocked by 1 gate",
    ),
}


@pytest.mark.proves(
    "lifecycle.md#pods-that-cannot-run/*",
    "events.md#of-its-life/errimageneverpull",
    "events.md#of-its-life/invalidimagename",
    "events.md#of-its-life/createcontainerconfigerror",
    "events.md#of-its-life/containerwaiting",
    "events.md#of-its-life/volumenotbound",
    "events.md#of-its-life/schedulinggated",
)
@pytest.mark.parametrize("case", CASES)
def test_a_blocked_pod_is_explained(case: str) -> None:
    status, reason, message = CASES[case]
    found = find_blocker({"status": status})
    assert found == (Blocker(reason=reason, message=message) if reason else None)
    assert reason is None or reason in BLOCKED_REASONS


@pytest.mark.parametrize("case", CASES)
def test_the_cache_keeps_what_explains_a_blocked_pod(case: str) -> None:
    status, _, _ = CASES[case]
    kept = transform_pod({"metadata": {"name": "x", "uid": "u"}, "status": status})["status"]
    assert find_blocker({"status": kept}) == find_blocker({"status": status})


def test_the_cache_keeps_no_more_of_pods_that_run_or_start() -> None:
    quiet = [on_node(RUNS), on_node(waiting("ContainerCreating"))]
    for status in quiet:
        kept = transform_pod({"metadata": {"name": "x", "uid": "u"}, "status": status})["status"]
        assert kept == {"conditions": [], "containerStatuses": []}


def test_long_messages_of_other_components_are_cut() -> None:
    status = on_node(waiting("ErrImagePull", "<html>" + "x" * 100_000))
    kept = transform_pod({"metadata": {"name": "x", "uid": "u"}, "status": status})["status"]
    text = kept["containerStatuses"][0]["state"]["waiting"]["message"]
    found = find_blocker({"status": kept})
    assert len(text) == MAX_TEXT
    assert found is not None
    assert len(found.message) == MAX_TEXT


def preparing(since: datetime, status: str = "False", phase: str = "Pending") -> Object:
    """A pod on its node, and whether its volumes and network are ready."""
    shown = on_node(waiting("ContainerCreating"))
    ready = {"type": "PodReadyToStartContainers", "status": status}
    ready["lastTransitionTime"] = format_time(since)
    return {**shown, "phase": phase, "conditions": [ready, *shown["conditions"]]}


@pytest.mark.parametrize(
    ("status", "phase", "found"),
    [("False", "Pending", True), ("True", "Pending", False), ("False", "Failed", False)],
    ids=["not ready", "the image is pulled", "has ended"],
)
def test_the_cache_keeps_since_when_a_pod_is_prepared(
    status: str, phase: str, *, found: bool
) -> None:
    body = {"metadata": {"name": "x", "uid": "u"}, "status": preparing(START, status, phase)}
    kept = transform_pod(body)
    stalled = Pod.read(kept).stalled
    assert (stalled is not None and stalled.since == START) is found
    assert found or not any("lastTransitionTime" in one for one in kept["status"]["conditions"])


def starting() -> ClusterModel:
    cluster = ClusterModel(job(task("learner"), task("collector", 3))).settle()
    assert cluster.phase == "Starting"
    return cluster


@pytest.mark.proves("events.md#of-its-life/imagepullbackoff")
def test_the_phase_names_the_first_pod_and_how_many_until_they_run() -> None:
    cluster = starting().say("x-collector-2", **BUSY).say("x-collector-1", **PULL)
    cluster.settle()
    condition = cluster.condition("Starting")
    assert (condition["status"], condition["reason"]) == ("True", "ImagePullBackOff")
    assert condition["message"] == (
        "2 of 4 pods cannot run, x-collector-1 first: container main: ErrImagePull: no such host"
    )
    event = cluster.events[-1]
    assert (event.reason, event.type) == (Reason.IMAGE_PULL_BACK_OFF, "Warning")
    assert event.message == condition["message"]
    cluster.run("x-collector-1", "x-learner-0").settle()
    assert cluster.condition("Starting")["reason"] == "Unschedulable"
    cluster.say("x-collector-2", **on_node(waiting("ContainerCreating"))).settle()
    condition = cluster.condition("Starting")
    assert (condition["reason"], condition["message"]) == ("JobStarting", "2 of 4 pods ready")
    cluster.run().settle()
    assert cluster.condition("Running")["reason"] == "JobRunning"


@pytest.mark.proves("lifecycle.md#pods-that-cannot-run/for-too-little-free-capacity-and-the")
def test_pods_behind_others_wait_for_nodes_and_give_no_warning() -> None:
    cluster = starting()
    cluster.could_run = True
    cluster.say("x-collector-1", **BUSY).settle()
    condition = cluster.condition("Starting")
    assert condition["reason"] == "WaitingForNodes"
    assert condition["message"] == (
        "1 of 4 pods wait for nodes that other pods have, x-collector-1 first: "
        "0/3 nodes are available: 3 Insufficient cpu."
    )
    assert (cluster.events[-1].reason, cluster.events[-1].type) == (
        Reason.WAITING_FOR_NODES,
        "Normal",
    )
    written = len(cluster.writes)
    cluster.reconcile()
    assert len(cluster.writes) == written
    cluster.say("x-collector-1", **on_node(waiting("ContainerCreating"))).settle()
    assert cluster.condition("Starting")["reason"] == "JobStarting"


def test_a_refusal_for_another_reason_stays_unschedulable() -> None:
    cluster = starting()
    cluster.could_run = True
    message = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    cluster.say("x-collector-1", **without_node("Unschedulable", message)).settle()
    assert cluster.condition("Starting")["reason"] == "Unschedulable"


@pytest.mark.proves(
    "lifecycle.md#pods-that-cannot-run/for-a-minute-by-now-its-node-has-not",
    "events.md#of-its-life/containercreating",
)
def test_volumes_that_stay_unready_are_reported() -> None:
    cluster = starting()
    written, told = len(cluster.writes), len(cluster.events)
    cluster.say("x-learner-0", **preparing(cluster.now, "True"))
    for name in ("x-collector-1", "x-collector-2"):
        cluster.say(name, **preparing(cluster.now))
    since = format_time(cluster.now)
    left = cluster.decide().requeue_after
    assert left is not None
    assert left <= PATIENCE
    cluster.pass_time(PATIENCE - 1)
    decision = cluster.reconcile()
    assert (len(cluster.writes), len(cluster.events)) == (written, told)
    assert decision.requeue_after == 1
    cluster.pass_time(1).settle()
    condition = cluster.condition("Starting")
    assert condition["reason"] == "ContainerCreating"
    assert condition["message"] == (
        "2 of 4 pods cannot run, x-collector-1 first: its volumes or its network "
        f"(ContainerCreating) have not been ready on its node since {since}; "
        "kubectl describe pod x-collector-1 says why"
    )
    written, told = len(cluster.writes), len(cluster.events)
    assert cluster.events[-1].reason is Reason.CONTAINER_CREATING
    cluster.pass_time(600)
    assert cluster.reconcile().requeue_after is None
    assert (len(cluster.writes), len(cluster.events)) == (written, told)
    # What the kubelet itself says goes first.
    cluster.say("x-collector-1", **PULL).settle()
    assert cluster.condition("Starting")["reason"] == "ImagePullBackOff"
    cluster.run().settle()
    assert cluster.condition("Running")["reason"] == "JobRunning"


def test_the_pending_timeout_names_unready_volumes() -> None:
    cluster = ClusterModel(job(task("learner"), pendingTimeoutSeconds=300)).settle()
    cluster.say("x-learner-0", **preparing(cluster.now)).pass_time(300).settle()
    failed = cluster.condition("Failed")
    assert failed["reason"] == "PendingTimeout"
    assert "x-learner-0 first: its volumes or its network" in failed["message"]


def test_an_unchanged_blocker_is_written_once() -> None:
    cluster = starting().say("x-learner-0", **PULL).settle()
    written, told = len(cluster.writes), len(cluster.events)
    for attempt in ("ImagePullBackOff", "ErrImagePull"):
        cluster.say("x-learner-0", **on_node(waiting(attempt, "no such host")))
        cluster.pass_time(1)
        cluster.decide()
        cluster.reconcile()
    assert (len(cluster.writes), len(cluster.events)) == (written, told)


@pytest.mark.proves("events.md#of-its-life/crashloopbackoff")
def test_a_running_job_reports_blocked_pods() -> None:
    cluster = running().say("x-collector-1", phase="Running", **SIDECAR).settle()
    assert cluster.condition("Running")["reason"] == "CrashLoopBackOff"
    assert "x-collector-1 first" in cluster.condition("Running")["message"]
    cluster.run("x-collector-1").settle()
    condition = cluster.condition("Running")
    assert (condition["reason"], condition["message"]) == ("JobRunning", "4 of 4 pods ready")


def test_a_dependent_task_reports_why_the_other_cannot_run() -> None:
    cluster = ClusterModel(job(task("collector", 2, dependsOn=["learner"]), task("learner")))
    cluster.settle()
    assert cluster.condition("Pending")["reason"] == "JobPending"
    cluster.say("x-learner-0", **PULL).settle()
    assert cluster.condition("Pending")["reason"] == "ImagePullBackOff"


@pytest.mark.proves("events.md#of-its-life/jobrestarting")
def test_a_reason_of_the_job_precedes_blocked_pods() -> None:
    cluster = starting().say("x-collector-1", **PULL).settle()
    cluster.fail("x-learner-0", code=3).reconcile()
    restarting = cluster.condition("Restarting")
    assert (restarting["status"], restarting["reason"]) == ("True", "JobRestarting")
    assert "exit code 3" in restarting["message"]
    cluster.edit(suspend=True).settle()
    assert cluster.condition("Pending")["reason"] == "JobSuspended"


def test_a_replica_that_crashes_again_and_again_is_not_active() -> None:
    name = test_coordinated.FIRST
    cluster = test_coordinated.running(test_coordinated.replica(name))
    counts = cluster.status["replicaStatus"]["Collector"]
    assert counts["active"] == 1
    cluster.say(name, phase="Running", **CRASH).settle()
    assert cluster.status["replicaStatus"]["Collector"]["active"] == 0
    assert cluster.condition("Running")["reason"] == "CrashLoopBackOff"
    assert f"1 of 2 pods cannot run, {name} first" in cluster.condition("Running")["message"]
