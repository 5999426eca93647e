"""What ends pods, and the cause that is found."""

from __future__ import annotations

import pytest

from di_api.explain import Cause, Facts
from tests.unit.api.explain.cluster import (
    BLOCKED,
    POD,
    STORY,
    assert_explained,
    condition,
    event,
    facts,
    job,
    node,
    pod,
    time,
    unhealthy,
)

CASES: dict[str, tuple[Facts, Cause]] = {
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
}


@pytest.mark.parametrize(("seen", "cause"), CASES.values(), ids=CASES)
def test_the_cause_is_found(seen: Facts, cause: Cause) -> None:
    assert_explained(seen, cause)
