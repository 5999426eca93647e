"""A row for each kind of failure: what the cluster shows, and the cause that is found."""

from __future__ import annotations

import pytest

from di_api.explain import Cause, Facts, explain
from tests.unit.api.explain.cluster import (
    POD,
    condition,
    event,
    facts,
    job,
    node,
    pod,
    time,
    unhealthy,
    unscheduled,
)

STORY = f"1 pod failed, all 3 restarts are used (backoffLimit 3); pod {POD} failed first: exit code"
BLOCKED = f"1 of 1 pod cannot run, {POD} first: "
FORBIDDEN = f'pods "{POD}" is forbidden: '
EXEC_FORMAT = "exec /app/learner: exec format error"
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    'create failed: unable to start container process: exec: "trian": executable file not found '
    "in $PATH: unknown"
)
TAINTED = (
    "0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}. "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
FULL = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: x}."
SELECTED = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
TAINTED_OR_NOT = (
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had "
    "untolerated taint {gpu: x}."
)
UNBOUND = (
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1"
)
CONFIG_MAP = 'MountVolume.SetUp failed for volume "settings" : configmap "cartpole" not found'
WEBHOOK = (
    'Internal error occurred: failed calling webhook "pods.example.org": failed to call webhook: '
    'Post "https://hook.example.svc:443/": no endpoints available for service "hook"'
)
PULL = 'Back-off pulling image "example/cartpol": ErrImagePull: not found'

CASES: dict[str, tuple[Facts, Cause]] = {
    "bad image": (
        facts(
            job("Starting", "ImagePullBackOff", f"{BLOCKED}container di-container: {PULL}"),
            pod(node="gpu-1", waiting=("ImagePullBackOff", PULL)),
        ),
        Cause.IMAGE,
    ),
    "bad image until the time-out": (
        facts(
            job(
                "Failed",
                "PendingTimeout",
                "task learner has 0 of at least 1 pod ready for 60 seconds; "
                f"{BLOCKED}container di-container: ErrImagePull: not found",
            )
        ),
        Cause.IMAGE,
    ),
    "image with a name that is none": (
        facts(
            job("Starting", "InvalidImageName", f"{BLOCKED}container c: InvalidImageName"),
            pod(waiting=("InvalidImageName", 'couldn\'t parse image name "A:"')),
        ),
        Cause.IMAGE,
    ),
    "out of memory": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 137 (OOMKilled)"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 137, "reason": "OOMKilled"}),
        ),
        Cause.OUT_OF_MEMORY,
    ),
    "out of memory, at the limit of growth, its pods cleaned up": (
        facts(
            job(
                "Failed",
                "OOMLimit",
                "container di-container was OOM-killed with 4Gi of memory, the most that "
                f"growMemory allows; pod {POD} failed first: exit code 137 (OOMKilled)",
            )
        ),
        Cause.OUT_OF_MEMORY,
    ),
    "crash loop": (
        facts(
            job(
                "Running", "CrashLoopBackOff", f"{BLOCKED}container sidecar ended with exit code 1"
            ),
            pod(
                phase="Running",
                node="gpu-1",
                waiting=("CrashLoopBackOff", "back-off 5m0s restarting failed container=sidecar"),
                last={"exitCode": 1, "reason": "Error"},
            ),
        ),
        Cause.CRASH_LOOP,
    ),
    "quota": (
        facts(
            job(
                "Pending",
                "QuotaExceeded",
                f"{FORBIDDEN}exceeded quota: small, requested: pods=1, used: pods=4",
            )
        ),
        Cause.QUOTA,
    ),
    "taint": (
        facts(
            job("Starting", "Unschedulable", f"{BLOCKED}{TAINTED}"),
            pod(conditions=[unscheduled(TAINTED)]),
        ),
        Cause.TAINT,
    ),
    "no room on a node": (
        facts(
            job("Starting", "Unschedulable", f"{BLOCKED}{FULL}"),
            pod(conditions=[unscheduled(FULL)]),
        ),
        Cause.NO_ROOM,
    ),
    "no node large enough, by the allocator": (
        facts(
            job(
                "Pending",
                "Unschedulable",
                "task learner needs 1 replica, there is room for 0 on 2 of 2 nodes; closest to one "
                "more: gpu-1 lacks 4 nvidia.com/gpu",
            )
        ),
        Cause.NO_ROOM,
    ),
    "a node selector that fits none": (
        facts(
            job("Starting", "Unschedulable", f"{BLOCKED}{SELECTED}"),
            pod(conditions=[unscheduled(SELECTED)]),
        ),
        Cause.NO_SUCH_NODE,
    ),
    "a node selector that fits none, of nodes that have taints too": (
        facts(
            job("Starting", "Unschedulable", f"{BLOCKED}{TAINTED_OR_NOT}"),
            pod(conditions=[unscheduled(TAINTED_OR_NOT)], spec={"nodeSelector": {"pool": "gpus"}}),
            nodes=[node(labels={"pool": "gpu"}), node("gpu-2")],
        ),
        Cause.NO_SUCH_NODE,
    ),
    "a taint of the only nodes that a selector fits": (
        facts(
            job("Starting", "Unschedulable", f"{BLOCKED}{TAINTED_OR_NOT}"),
            pod(conditions=[unscheduled(TAINTED_OR_NOT)], spec={"nodeSelector": {"pool": "gpu"}}),
            nodes=[node(labels={"pool": "gpu"}), node("gpu-2")],
        ),
        Cause.TAINT,
    ),
    "a liveness probe": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 137"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 137, "reason": "Error"}),
            events=[*unhealthy("Liveness", f"uid-{POD}")],
        ),
        Cause.PROBE,
    ),
    "a liveness probe of a pod that failed later": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 1"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
            pod("cartpole-learner-1", phase="Running", node="gpu-1"),
            events=[*unhealthy("Liveness", "uid-cartpole-learner-1")],
        ),
        Cause.BACKOFF_LIMIT,
    ),
    "a readiness probe of a program that failed by itself": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 1"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
            events=[*unhealthy("Readiness", f"uid-{POD}")],
        ),
        Cause.BACKOFF_LIMIT,
    ),
    "a liveness probe that failed once and ended nothing": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 1"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
            events=[unhealthy("Liveness", f"uid-{POD}")[0]],
        ),
        Cause.BACKOFF_LIMIT,
    ),
    "a crash loop, as the container has just ended": (
        facts(
            job("Running", "JobRunning", "1 of 1 pod ready"),
            pod(
                phase="Running",
                node="gpu-1",
                ended={"exitCode": 7, "reason": "Error"},
                last={"exitCode": 7, "reason": "Error"},
                restarts=3,
            ),
        ),
        Cause.CRASH_LOOP,
    ),
    "a container that was started again once": (
        facts(
            job("Running", "JobRunning", "1 of 1 pod ready"),
            pod(
                phase="Running",
                node="gpu-1",
                ended={"exitCode": 7, "reason": "Error"},
                last={"exitCode": 7, "reason": "Error"},
                restarts=1,
            ),
        ),
        Cause.PROGRAM_FAILED,
    ),
    "a readiness probe": (
        facts(
            job("Starting", "JobStarting", "0 of 1 pods ready"),
            pod(phase="Running", node="gpu-1"),
            events=[event("Unhealthy", "Readiness probe failed: refused", uid=f"uid-{POD}")],
        ),
        Cause.PROBE,
    ),
    "a sidecar that ends again and again": (
        facts(
            job("Starting", "CrashLoopBackOff", f"{BLOCKED}container prepare ended"),
            pod(
                node="gpu-1",
                init=True,
                waiting=("CrashLoopBackOff", "back-off 10s restarting failed container=prepare"),
                last={"exitCode": 7, "reason": "Error"},
                spec={"initContainers": [{"name": "prepare", "restartPolicy": "Always"}]},
            ),
        ),
        Cause.CRASH_LOOP,
    ),
    "unbound volume": (
        facts(
            job("Starting", "VolumeNotBound", f"{BLOCKED}{UNBOUND}"),
            pod(conditions=[unscheduled(UNBOUND)]),
        ),
        Cause.VOLUME,
    ),
    "scheduling gate": (
        facts(
            job("Starting", "SchedulingGated", f"{BLOCKED}Scheduling is blocked"),
            pod(conditions=[unscheduled("Scheduling is blocked", "SchedulingGated")]),
        ),
        Cause.SCHEDULING_GATE,
    ),
    "node lost": (
        facts(
            job("Running", "JobRunning", "all 1 pod ready"),
            pod(phase="Running", node="gpu-1"),
            nodes=[node(ready="Unknown", message="Kubelet stopped posting node status.")],
        ),
        Cause.NODE_LOST,
    ),
    "node gone, and the job runs on": (
        facts(
            job("Running", "JobRunning", status={"reschedules": 1}),
            pod(phase="Running", node="gpu-2", ready=True),
            events=[
                event("TaintManagerEviction", f"Marking for deletion Pod rl/{POD}", kind="Normal")
            ],
            nodes=[node("gpu-2")],
        ),
        Cause.NODE_LOST,
    ),
    "deadline": (
        facts(job("Failed", "DeadlineExceeded", "active for longer than 60 seconds")),
        Cause.DEADLINE,
    ),
    "hung": (
        facts(
            job(
                "Running",
                conditions=[condition("Hung", value=True, message="step 12 for 60 seconds")],
            ),
            pod(phase="Running", ready=True, node="gpu-1"),
        ),
        Cause.HUNG,
    ),
    "hung, until it failed": (
        facts(job("Failed", "NoProgress", "step 12 for 60 seconds; all 3 restarts are used")),
        Cause.HUNG,
    ),
    "wrong name": (facts(None, jobs=["cartpole-2", "grpo"]), Cause.WRONG_NAME),
    "service account": (
        facts(
            job(
                "Pending",
                "CreateForbidden",
                f"{FORBIDDEN}error looking up service account rl/trainer: serviceaccount "
                '"trainer" not found',
            )
        ),
        Cause.SERVICE_ACCOUNT,
    ),
    "pods that are too privileged": (
        facts(
            job(
                "Pending", "CreateForbidden", f'{FORBIDDEN}violates PodSecurity "restricted:latest"'
            )
        ),
        Cause.REFUSED,
    ),
    "config map of a volume": (
        facts(
            job(
                "Starting",
                "ContainerCreating",
                f"{BLOCKED}its volumes or its network (ContainerCreating) have not been ready on "
                f"its node since {time(40)}; kubectl describe pod {POD} says why",
            ),
            pod(node="gpu-1", waiting=("ContainerCreating", "")),
            events=[event("FailedMount", CONFIG_MAP, uid=f"uid-{POD}")],
        ),
        Cause.CONFIG_MISSING,
    ),
    "config map of a variable": (
        facts(
            job("Starting", "CreateContainerConfigError", f"{BLOCKED}container di-container: x"),
            pod(
                node="gpu-1",
                waiting=("CreateContainerConfigError", 'configmap "cartpole" not found'),
            ),
        ),
        Cause.CONFIG_MISSING,
    ),
    "volume that cannot be mounted": (
        facts(
            job("Starting", "ContainerCreating", f"{BLOCKED}its volumes or its network"),
            pod(node="gpu-1", waiting=("ContainerCreating", "")),
            events=[event("FailedAttachVolume", "Multi-Attach error", uid=f"uid-{POD}")],
        ),
        Cause.VOLUME,
    ),
    "another task is waited for": (
        facts(
            job("Pending", "JobPending", "task collector waits for task learner"),
            pod(phase="Running", node="gpu-1"),
        ),
        Cause.DEPENDS_ON,
    ),
    "queue": (facts(job("Pending", "WaitingForNodes", "waiting for the allocator")), Cause.QUEUE),
    "webhook of somebody else's is down": (
        facts(job("Pending", "CreateForbidden", WEBHOOK)),
        Cause.WEBHOOK_DOWN,
    ),
    "backoff limit": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 1", status={"restarts": 3}),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
            logs={POD: ["Traceback (most recent call last):", "KeyError: 'reward'"]},
        ),
        Cause.BACKOFF_LIMIT,
    ),
    "backoff limit of a task, its pods gone": (
        facts(
            job(
                "Failed",
                "TaskBackoffLimit",
                f"task learner has used its 2 restarts (backoffLimit 2); pod {POD} failed first: "
                "exit code 3; its last lines: OOMKilled / ErrImagePull / quota exceeded",
            )
        ),
        Cause.BACKOFF_LIMIT,
    ),
    "a rule that ends the job": (
        facts(
            job(
                "Failed",
                "PodFailurePolicy",
                f"failurePolicy.rules[0] ends the job; pod {POD} failed first: exit code 42",
            )
        ),
        Cause.FAILURE_RULE,
    ),
    "init container": (
        facts(
            job(
                "Restarting", "JobRestarting", f"1 pod failed, pod {POD} failed first: exit code 1"
            ),
            pod(phase="Failed", node="gpu-1", init=True, ended={"exitCode": 1, "reason": "Error"}),
        ),
        Cause.INIT_CONTAINER,
    ),
    "a program for another processor": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 255; its last lines: {EXEC_FORMAT}"),
            pod(phase="Failed", node="gpu-1", ended={"exitCode": 255, "reason": "Error"}),
            logs={POD: [EXEC_FORMAT]},
        ),
        Cause.CANNOT_EXECUTE,
    ),
    "a command that is not there": (
        facts(
            job("Failed", "JobFailed", f"{STORY} 128 (StartError)"),
            pod(
                phase="Failed",
                node="gpu-1",
                ended={"exitCode": 128, "reason": "StartError", "message": NO_COMMAND},
            ),
        ),
        Cause.CANNOT_EXECUTE,
    ),
    "a container that the node cannot make": (
        facts(
            job("Starting", "ContainerWaiting", f"{BLOCKED}container c: CreateContainerError: x"),
            pod(node="gpu-1", waiting=("CreateContainerError", "cannot load seccomp profile")),
        ),
        Cause.NOT_MADE,
    ),
    "a command that the shell does not find": (
        facts(job("Failed", "JobFailed", f"{STORY} 127")),
        Cause.CANNOT_EXECUTE,
    ),
    "evicted": (
        facts(
            job("Rescheduling", "JobRescheduling", f"1 pod lost, {POD} first"),
            pod(
                phase="Failed",
                node="gpu-1",
                reason="Evicted",
                message="The node was low on resource: memory.",
            ),
        ),
        Cause.EVICTED,
    ),
    "evicted, and the job runs again": (
        facts(
            job(
                "Running",
                status={
                    "reschedules": 1,
                    "failures": [{"uid": "u", "pod": POD, "time": time(30), "reason": "Evicted"}],
                },
                conditions=[
                    condition("Rescheduling", value=False, message=f"1 pod lost, {POD} first")
                ],
            ),
            pod(phase="Running", ready=True, node="gpu-1"),
        ),
        Cause.EVICTED,
    ),
    "drained": (
        facts(
            job("Rescheduling", "JobRescheduling", f"1 pod lost, {POD} first"),
            pod(
                phase="Failed",
                node="gpu-1",
                conditions=[
                    condition("DisruptionTarget", value=True, reason="EvictionByEvictionAPI")
                ],
            ),
        ),
        Cause.EVICTED,
    ),
    "preempted": (
        facts(
            job("Running", status={"reschedules": 1}),
            pod(phase="Running", ready=True, node="gpu-1"),
            events=[event("Preempted", "Preempted by pod 1f3 on node gpu-1", kind="Normal")],
        ),
        Cause.PREEMPTED,
    ),
    "preempted by the allocator": (
        facts(
            job("Pending", "WaitingForNodes", "waiting for the allocator"),
            events=[event("PodsDeleted", "preempted, 2 pods to end", kind="Normal")],
        ),
        Cause.PREEMPTED,
    ),
    "a node that is lost and may not be read": (
        facts(
            job("Running"),
            pod(phase="Running", node="gpu-1"),
            events=[event("NodeNotReady", "Node is not ready", uid=f"uid-{POD}")],
        ),
        Cause.NODE_LOST,
    ),
    "restarted, and runs again": (
        facts(
            job(
                "Running",
                status={"restarts": 1},
                conditions=[
                    condition(
                        "Restarting",
                        value=False,
                        message=f"restart 1 of 3; pod {POD} failed first: exit code 1",
                    )
                ],
            ),
            pod(phase="Running", ready=True, node="gpu-1"),
        ),
        Cause.PROGRAM_FAILED,
    ),
    "suspended": (facts(job("Pending", "JobSuspended", spec={"suspend": True})), Cause.SUSPENDED),
    "being deleted": (
        facts(job("Running", metadata={"deletionTimestamp": time(59)})),
        Cause.BEING_DELETED,
    ),
    "an operator that is away": (facts(job()), Cause.OPERATOR_SILENT),
    "made a moment ago": (
        facts(job(metadata={"creationTimestamp": "2026-03-01T11:59:55Z"})),
        Cause.STARTING,
    ),
    "a spec that breaks the rules": (
        facts(job("Failed", "InvalidSpec", "spec.tasks: is required")),
        Cause.INVALID_SPEC,
    ),
    "a spec that cannot be read any more": (
        facts(
            job(
                "Running",
                conditions=[condition("SpecInvalid", value=True, reason="Unreadable", message="x")],
            )
        ),
        Cause.INVALID_SPEC,
    ),
    "a template that is refused": (
        facts(job("Failed", "InvalidTemplate", 'Pod "x" is invalid: spec.containers: Required')),
        Cause.INVALID_SPEC,
    ),
    "a name that is taken": (
        facts(job("Failed", "PodNameConflict", f"pod {POD} exists already")),
        Cause.NAME_TAKEN,
    ),
    "a mistake of the operator": (
        facts(
            job(
                "Running",
                conditions=[condition("ReconcileFailed", value=True, message="KeyError: 'x'")],
            )
        ),
        Cause.OPERATOR_FAILED,
    ),
    "succeeded": (facts(job("Succeeded")), Cause.SUCCEEDED),
    "running": (facts(job("Running"), pod(ready=True, phase="Running")), Cause.RUNNING),
}


@pytest.mark.parametrize(("seen", "cause"), CASES.values(), ids=CASES)
def test_the_cause_is_found(seen: Facts, cause: Cause) -> None:
    found = explain(seen)
    assert found.cause is cause
    assert "{" not in found.summary + found.remedy.replace("{gpu", "")
    assert "\n" not in found.summary


def test_an_old_failure_does_not_explain_what_is_wrong_now() -> None:
    """It ran out of memory once; now the image of its new pod is gone."""
    seen = facts(
        job(
            "Starting",
            status={
                "restarts": 1,
                "failures": [
                    {"pod": POD, "time": time(1), "exitCode": 137, "reason": "OOMKilled"},
                ],
            },
        ),
        pod(waiting=("ErrImagePull", "not found")),
    )
    assert explain(seen).cause is Cause.IMAGE


def test_what_once_kept_pods_from_running_does_not_explain_a_restart() -> None:
    """They waited for a node, ran, failed and run again, some hours after an eviction."""
    story = f"restart 1 of 3; pod {POD} failed first: exit code 1"
    seen = facts(
        job(
            "Running",
            status={
                "restarts": 1,
                "failures": [
                    {"pod": POD, "time": time(1), "reason": "Evicted"},
                    {"pod": POD, "time": time(40), "exitCode": 1, "reason": "Error"},
                ],
            },
            conditions=[condition("Restarting", value=False, message=story)],
        ),
        pod(ready=True, phase="Running", node="gpu-1"),
        events=[event("FailedScheduling", FULL), event("Evicted", "The node was low on memory.")],
    )
    found = explain(seen)
    assert found.cause is Cause.PROGRAM_FAILED
    assert found.summary.startswith("cartpole runs, after it was restarted or moved once: ")


def test_a_pod_that_has_found_a_node_waits_for_none() -> None:
    seen = facts(
        job("Starting"),
        pod(node="gpu-1", waiting=("ContainerCreating", "")),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_what_was_told_of_the_job_before_its_phase_does_not_explain_it() -> None:
    old = {
        "type": "Warning",
        "reason": "QuotaExceeded",
        "message": "exceeded quota: small",
        "involvedObject": {"kind": "DIJob", "name": "cartpole"},
        "lastTimestamp": time(49),
    }
    pods = [pod(node="gpu-1", waiting=("ContainerCreating", ""))]
    assert explain(facts(job("Starting"), *pods, events=[old])).cause is Cause.STARTING
    new = {**old, "lastTimestamp": time(51)}
    assert explain(facts(job("Starting"), *pods, events=[new])).cause is Cause.QUOTA


def test_what_is_said_of_a_pod_that_is_well_by_now_explains_nothing() -> None:
    seen = facts(
        job("Starting"),
        pod(ready=True, phase="Running"),
        pod("cartpole-collector-0"),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_an_explanation_shows_the_first_failing_pod_its_end_and_its_last_lines() -> None:
    later = pod(
        "cartpole-collector-0",
        phase="Failed",
        node="gpu-2",
        ended={"exitCode": 143, "finishedAt": time(47)},
    )
    seen = facts(
        job("Failed", "JobFailed", f"{STORY} 1", status={"restarts": 3}),
        later,
        pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
        logs={POD: [f"line {number}" for number in range(30)], "cartpole-collector-0": ["no"]},
        nodes=[node("gpu-1"), node("gpu-2")],
    )
    found = explain(seen)
    assert found.summary == (
        f"cartpole failed after it was restarted 3 times: the program of {POD} failed"
    )
    shown = {each.label: each.text for each in found.evidence}
    assert shown["first"] == f"{POD}/di-container, exit code 1, on node gpu-1"
    assert shown["restarts"] == "3 (backoffLimit 3)"
    assert shown["node"] == "gpu-1 is ready"
    assert shown["last log"].splitlines() == [f"line {number}" for number in range(10, 30)]
    assert found.remedy == "di logs cartpole --previous: correct what ended it"


def test_a_name_that_is_nearly_right_is_told() -> None:
    assert explain(facts(None, jobs=["cartpole-2"])).remedy == "did you mean cartpole-2?"
    assert "di list -A" in explain(facts(None)).remedy
