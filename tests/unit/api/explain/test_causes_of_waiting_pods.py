"""What keeps pods from a node, or from running there, and the cause that is found."""

from __future__ import annotations

import pytest

from di_api.explain import Cause, Facts
from tests.unit.api.explain.cluster import (
    BLOCKED,
    FULL,
    POD,
    STORY,
    TAINTED,
    assert_explained,
    event,
    facts,
    job,
    node,
    pod,
    time,
    unhealthy,
    unscheduled,
)

EXEC_FORMAT = "exec /app/learner: exec format error"
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    'create failed: unable to start container process: exec: "trian": executable file not found '
    "in $PATH: unknown"
)
SELECTED = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
TAINTED_OR_NOT = (
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had "
    "untolerated taint {gpu: x}."
)
UNBOUND = (
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1"
)
CONFIG_MAP = 'MountVolume.SetUp failed for volume "settings" : configmap "cartpole" not found'
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
    "a readiness probe": (
        facts(
            job("Starting", "JobStarting", "0 of 1 pods ready"),
            pod(phase="Running", node="gpu-1"),
            events=[event("Unhealthy", "Readiness probe failed: refused", uid=f"uid-{POD}")],
        ),
        Cause.PROBE,
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
}


@pytest.mark.parametrize(("seen", "cause"), CASES.values(), ids=CASES)
def test_the_cause_is_found(seen: Facts, cause: Cause) -> None:
    assert_explained(seen, cause)
