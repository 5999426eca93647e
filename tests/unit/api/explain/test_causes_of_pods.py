"""The cause that is found where pods do not start, fail or are moved."""

from __future__ import annotations

import re
from typing import Any

import pytest

from di_api.explain import Cause, Facts, explain
from tests.unit.api.explain.cluster import (
    BLOCKED,
    FULL,
    POD,
    STORY,
    TAINTED,
    condition,
    event,
    failed,
    node,
    pod,
    seen,
    time,
    unhealthy,
    unscheduled,
)

UID = f"uid-{POD}"
PULL = 'Back-off pulling image "example/cartpol": ErrImagePull: not found'
SELECTED = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
TAINTED_OR_NOT = (
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had "
    "untolerated taint {gpu: x}."
)
UNBOUND = (
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1"
)
LACKS = (
    "task learner needs 1 replica, there is room for 0 on 2 of 2 nodes; closest to one more: gpu-1 "
    "lacks 4 nvidia.com/gpu"
)
NOT_READY = (
    f"{BLOCKED}its volumes or its network (ContainerCreating) have not been ready on its node "
    f"since {time(40)}; kubectl describe pod {POD} says why"
)
TIMED_OUT = (
    f"task learner has 0 of at least 1 pod ready for 60 seconds; {BLOCKED}container di-container: "
    "ErrImagePull: not found"
)
NO_CONFIG_MAP = 'MountVolume.SetUp failed for volume "settings" : configmap "cartpole" not found'
EXEC_FORMAT = "exec /app/learner: exec format error"
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    'create failed: unable to start container process: exec: "trian": executable file not found '
    "in $PATH: unknown"
)
GROWN = (
    "container di-container was OOM-killed with 4Gi of memory, the most that growMemory allows; "
    f"pod {POD} failed first: exit code 137 (OOMKilled)"
)
USED_UP = (
    f"task learner has used its 2 restarts (backoffLimit 2); pod {POD} failed first: exit code 3; "
    "its last lines: OOMKilled / ErrImagePull / quota exceeded"
)
RULE = f"failurePolicy.rules[0] ends the job; pod {POD} failed first: exit code 42"
RUNS = pod(phase="Running", node="gpu-1")
SECOND = pod("cartpole-learner-1", phase="Running", node="gpu-1")
READY = pod(phase="Running", node="gpu-1", ready=True)
NODES = [node(labels={"pool": "gpu"}), node("gpu-2")]
ABSENT = "the template of task learner binds it to node no-such-node, which does not exist"
LOST = f"1 pod lost, {POD} first"
BACK_OFF = ("CrashLoopBackOff", "back-off 10s restarting failed container")
ENDED = {"exitCode": 7, "reason": "Error"}
EVICTED = {"uid": "u", "pod": POD, "time": time(30), "reason": "Evicted"}
BY_API = condition("DisruptionTarget", value=True, reason="EvictionByEvictionAPI")


LIMIT = f'pod {POD} failed first: Evicted: Usage of EmptyDir volume "s" exceeds the limit "5Mi".'
LATE = (
    f"pod {POD} failed first: DeadlineExceeded: Pod was active on the node longer than the "
    "specified deadline; exit code 137"
)


def over_limit() -> dict[str, object]:
    return failed(137, reason="Error") | {
        "status": {"phase": "Failed", "reason": "Evicted", "message": LIMIT}
    }


def refused(reason: str) -> dict[str, object]:
    """A pod that its kubelet has refused."""
    found = pod(phase="Failed", node="gpu-1", reason=reason, message="Pod was rejected: x")
    found["status"].pop("containerStatuses")
    return found


def beside(main: dict[str, object], sidecar: dict[str, object]) -> dict[str, object]:
    """A pod with a sidecar, first in its spec."""
    found = pod(phase="Running", node="gpu-1")
    names = ("shipper", "di-container")
    found["spec"] |= {"restartPolicy": "Never", "containers": [{"name": name} for name in names]}
    found["status"]["containerStatuses"] = [
        {"name": name, "state": state} for name, state in zip(names, (sidecar, main), strict=True)
    ]
    return found


def was(kind: str, message: str) -> dict[str, object]:
    """Fields of a job that runs again after it was in that phase."""
    count = "restarts" if kind == "Restarting" else "reschedules"
    return {
        "status": {count: 1, "failures": [EVICTED] if kind == "Rescheduling" else []},
        "conditions": [condition(kind, value=False, message=message)],
    }


def unfit(message: str, *nodes: dict[str, object], **selector: str) -> Facts:
    """A pod that the scheduler has found no node for."""
    waits = pod(conditions=[unscheduled(message)], spec={"nodeSelector": selector})
    return seen("Starting", "Unschedulable", f"{BLOCKED}{message}", waits, nodes=nodes)


def waits(reason: str, message: str = "", *events: dict[str, object], story: str = "") -> Facts:
    """A pod on a node whose container waits for a reason."""
    held = pod(node="gpu-1", waiting=(reason, message))
    told = story or f"{BLOCKED}container di-container: {reason}"
    return seen("Starting", reason, told, held, events=events)


def ended(code: str, *pods: dict[str, object], **others: Any) -> Facts:
    """A job that failed when its first pod had ended with the code."""
    return seen("Failed", "JobFailed", f"{STORY} {code}", *pods, **others)


def runs(*pods: dict[str, object], **others: Any) -> Facts:
    return seen("Running", "JobRunning", "1 of 1 pod ready", *pods, **others)


ENDS = f"1 pod not ending, {POD} first: being deleted since x, held by finalizer y"
IGNORED = "its scheduler, x, has not considered it since 2026-03-01T11:00:00Z"
CLAIMS = "the ResourceClaims that it needs have to exist: gpu"
CASES: dict[Cause, list[Facts]] = {
    Cause.IMAGE: [
        waits("ImagePullBackOff", PULL),
        waits("InvalidImageName", 'couldn\'t parse image name "A:"'),
        seen("Failed", "PendingTimeout", TIMED_OUT),
    ],
    Cause.TAINT: [unfit(TAINTED), unfit(TAINTED_OR_NOT, *NODES, pool="gpu")],
    Cause.NO_ROOM: [unfit(FULL), seen("Pending", "Unschedulable", LACKS)],
    Cause.NO_SUCH_NODE: [
        seen("Starting", "NodeNotFound", f"{BLOCKED}{ABSENT}", nodes=NODES),
        unfit(SELECTED),
        unfit(TAINTED_OR_NOT, *NODES, pool="gpus"),
    ],
    Cause.PROBE: [
        ended("137", failed(137), events=[*unhealthy("Liveness", UID)]),
        seen(
            "Starting",
            "JobStarting",
            "0 of 1 pods ready",
            RUNS,
            events=[event("Unhealthy", "Readiness probe failed: refused", uid=UID)],
        ),
    ],
    Cause.VOLUME: [
        seen(
            "Starting",
            "VolumeNotBound",
            f"{BLOCKED}{UNBOUND}",
            pod(conditions=[unscheduled(UNBOUND)]),
        ),
        waits("ContainerCreating", "", event("FailedAttachVolume", "Multi-Attach error", uid=UID)),
    ],
    Cause.POD_NOT_ENDING: [
        seen(phase, "", "", pod(), conditions=[condition("PodNotEnding", value=True, message=ENDS)])
        for phase in ("Rescheduling", "Running", "Pending")
    ],
    Cause.NO_SCHEDULER: [seen("Starting", "Unschedulable", f"{BLOCKED}{IGNORED}", pod())],
    Cause.RESOURCE_CLAIM: [
        seen("Starting", "Unschedulable", f"{BLOCKED}{IGNORED}; {CLAIMS}", pod())
    ],
    Cause.STARTING: [
        seen("Starting", "InitContainerRunning", f"{BLOCKED}init container fetch has run", pod())
    ],
    Cause.SCHEDULING_GATE: [
        seen(
            "Starting",
            "SchedulingGated",
            f"{BLOCKED}Scheduling is blocked",
            pod(conditions=[unscheduled("Scheduling is blocked", "SchedulingGated")]),
        )
    ],
    Cause.CONFIG_MISSING: [
        waits(
            "ContainerCreating", "", event("FailedMount", NO_CONFIG_MAP, uid=UID), story=NOT_READY
        ),
        waits("CreateContainerConfigError", 'configmap "cartpole" not found'),
    ],
    Cause.INIT_CONTAINER: [
        seen("Restarting", "JobRestarting", f"1 pod failed, pod {POD}", failed(1, init=True))
    ],
    Cause.CODE: [
        seen(
            "Restarting",
            "JobRestarting",
            f"1 pod failed, pod {POD}",
            failed(1, init=is_init, ended={"message": message}),
        )
        for is_init, message in (
            (False, "code not unpacked: its SHA-256 is 2222, and spec.code.sha256 is 1111"),
            (True, "requirements not installed: pip ended with exit code 1"),
        )
    ],
    Cause.CANNOT_EXECUTE: [
        ended(f"255; its last lines: {EXEC_FORMAT}", failed(255), logs={POD: [EXEC_FORMAT]}),
        ended("128 (StartError)", failed(128, "StartError", ended={"message": NO_COMMAND})),
        ended("127"),
    ],
    Cause.NOT_MADE: [
        seen(
            "Starting",
            "ContainerWaiting",
            f"{BLOCKED}container c: CreateContainerError: x",
            pod(node="gpu-1", waiting=("CreateContainerError", "cannot load seccomp profile")),
        )
    ],
    Cause.OUT_OF_MEMORY: [
        ended("137 (OOMKilled)", failed(137, "OOMKilled")),
        seen("Failed", "OOMLimit", GROWN),
    ],
    Cause.CRASH_LOOP: [
        seen(
            "Running",
            "CrashLoopBackOff",
            f"{BLOCKED}container sidecar ended with exit code 1",
            pod(phase="Running", node="gpu-1", waiting=BACK_OFF, last=ENDED),
        ),
        # The container has just ended.
        runs(pod(phase="Running", node="gpu-1", ended=ENDED, last=ENDED, restarts=3)),
        seen(
            "Starting",
            "CrashLoopBackOff",
            f"{BLOCKED}container prepare ended",
            pod(
                node="gpu-1",
                init=True,
                waiting=BACK_OFF,
                last=ENDED,
                spec={"initContainers": [{"name": "prepare", "restartPolicy": "Always"}]},
            ),
        ),
    ],
    Cause.PROGRAM_FAILED: [
        # One restart is no loop yet.
        runs(pod(phase="Running", node="gpu-1", ended=ENDED, last=ENDED, restarts=1)),
        runs(READY, **was("Restarting", f"pod {POD} failed first: exit code 1")),
    ],
    Cause.BACKOFF_LIMIT: [
        # A probe of another pod, one that ends nothing, and one that failed without an end.
        *(
            ended("1", failed(1), SECOND, events=events)
            for events in (
                unhealthy("Liveness", "uid-cartpole-learner-1"),
                unhealthy("Readiness", UID),
                unhealthy("Liveness", UID)[:1],
            )
        ),
        ended(
            "1",
            failed(1),
            status={"restarts": 3},
            logs={POD: ["Traceback (most recent call last):", "KeyError: 'reward'"]},
        ),
        seen("Failed", "TaskBackoffLimit", USED_UP),
    ],
    Cause.FAILURE_RULE: [seen("Failed", "PodFailurePolicy", RULE)],
    Cause.NODE_LOST: [
        runs(RUNS, nodes=[node(ready="Unknown", message="Kubelet stopped.")]),
        runs(
            pod(phase="Running", node="gpu-2", ready=True),
            status={"reschedules": 1},
            events=[event("TaintManagerEviction", "Marking for deletion", kind="Normal")],
            nodes=[node("gpu-2")],
        ),
        runs(RUNS, events=[event("NodeNotReady", "Node is not ready", uid=UID)]),
    ],
    Cause.EVICTED: [
        seen(
            "Rescheduling",
            "JobRescheduling",
            LOST,
            pod(phase="Failed", node="gpu-1", reason="Evicted", message="low on memory"),
        ),
        runs(READY, **was("Rescheduling", LOST)),
        seen(
            "Rescheduling",
            "JobRescheduling",
            LOST,
            pod(phase="Failed", node="gpu-1", conditions=[BY_API]),
        ),
    ],
    Cause.OVER_LIMIT: [
        seen("Restarting", "JobRestarting", LIMIT, over_limit()),
        seen("Failed", "TaskBackoffLimit", LIMIT),
    ],
    Cause.DEADLINE: [seen("Failed", "JobFailed", LATE)],
    Cause.REJECTED: [
        seen("Rescheduling", "PodRejected", f"{LOST}: NodeAffinity: Pod was rejected: x"),
        seen("Starting", "JobStarting", "created 1 pod", refused("ANameOfNextYear")),
    ],
    Cause.SIDECAR: [
        seen("Running", "SidecarEnded", f"{BLOCKED}container shipper ended with exit code 1"),
        runs(beside({"running": {}}, {"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
        runs(beside({"running": {}}, {"terminated": {"exitCode": 0, "reason": "Completed"}})),
    ],
    Cause.PREEMPTED: [
        runs(
            READY,
            status={"reschedules": 1},
            events=[event("Preempted", "Preempted by pod 1f3 on node gpu-1", kind="Normal")],
        ),
        seen(
            "Pending",
            "WaitingForNodes",
            "waiting for the allocator",
            events=[event("PodsDeleted", "preempted, 2 pods to end", kind="Normal")],
        ),
    ],
}


@pytest.mark.parametrize(
    ("found", "cause"), [(each, cause) for cause, cases in CASES.items() for each in cases]
)
def test_the_cause_of_a_pod_is_found(found: Facts, cause: Cause) -> None:
    explanation = explain(found)
    assert explanation.cause is cause
    assert not re.search(r"\{[a-z]+\}", explanation.summary + explanation.remedy)
    assert "\n" not in explanation.summary


def test_once_the_program_has_failed_its_sidecars_explain_nothing() -> None:
    times = {"finishedAt": "2026-03-01T11:40:00Z"}
    killed: dict[str, object] = {"terminated": {"exitCode": 137, "reason": "OOMKilled", **times}}
    found = beside({"terminated": {"exitCode": 3, "reason": "Error"}}, killed)
    explanation = explain(seen("Restarting", "JobRestarting", "1 pod failed", found))
    assert explanation.cause is Cause.PROGRAM_FAILED


def test_the_name_of_an_absent_node_is_given() -> None:
    explanation = explain(seen("Starting", "NodeNotFound", f"{BLOCKED}{ABSENT}"))
    assert f"{POD} is bound to node no-such-node, and there is no such node" in explanation.summary
