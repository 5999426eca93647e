"""The failures that the end-to-end tests seed, as the API server shows them then.

Their words are those of tests/e2e/seeded.py: what a recorded state passes, a real node has to pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.explain import Facts
from tests.e2e.seeded import ABSENT, GPU, SEEDS, WRONG_NAME
from tests.unit.api.explain.cluster import (
    BLOCKED,
    POD,
    TAINTED,
    Object,
    condition,
    event,
    facts,
    failed,
    node,
    pod,
    seen,
    time,
    unhealthy,
    unscheduled,
)
from tests.unit.api.explain.first_lines import programs, starting
from tests.unit.api.explain.first_lines.case import Case
from tests.unit.api.explain.first_lines.nodes import unfit
from tests.unit.api.explain.first_lines.programs import ended
from tests.unit.api.explain.first_lines.refusals import forbidden
from tests.unit.api.explain.first_lines.starting import UID, cannot_start, creating, waits

_PULL: Final = (
    f'Back-off pulling image "{ABSENT}": ErrImagePull: failed to pull and unpack image "{ABSENT}": '
    'failed to do request: Head "http://127.0.0.1:1/v2/none/manifests/1": dial tcp 127.0.0.1:1: '
    "connect: connection refused"
)
_NEVER: Final = f'Container image "{ABSENT}" is not present with pull policy of Never'
_RUNC: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    "create failed: unable to start container process: "
)
_FORBIDDEN: Final = f'pods "{POD}" is forbidden: '
_SELECTOR: Final = (
    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 "
    "nodes are available: 2 Preemption is not helpful for scheduling."
)
_UNBOUND: Final = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
_NO_CLAIM: Final = (
    '0/1 nodes are available: persistentvolumeclaim "none" not found. preemption: 0/1 nodes are '
    "available: 1 Preemption is not helpful for scheduling."
)
_ROOM: Final = "task learner needs 1 replica, there is room for 0 on 1 of 1 node"
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_GROWN: Final = (
    "container di-container was OOM-killed with 48Mi of memory, the most that growMemory allows; "
    f"pod {POD} failed first: exit code 137 (OOMKilled)"
)
_INVALID: Final = (
    f'Pod "{POD}" is invalid: spec.containers[0].securityContext: Invalid value: {{}}: cannot set '
    "`allowPrivilegeEscalation` to false and `privileged` to true"
)
_RULE: Final = f"failurePolicy.rules[0] ends the job; pod {POD} failed first: exit code 42"
_SMALL: Final = {"name": "di-container", "resources": {"limits": {"memory": "48Mi"}}}
_HELD: Final = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "waits"}}]}


def _init(reason: str, message: str) -> Facts:
    held = pod(node="gpu-1", init=True, waiting=(reason, message))
    told = f"{BLOCKED}container prepare: {reason}: {message}"
    return seen("Starting", reason, told, held)


def _unbound() -> Facts:
    of_claim = {"kind": "PersistentVolumeClaim", "name": "waits", "uid": "uid-waits"}
    told = event("ProvisioningFailed", 'storageclass.storage.k8s.io "none" not found')
    held = pod(conditions=[unscheduled(_UNBOUND)], spec=_HELD)
    events = [{**told, "involvedObject": of_claim}]
    return seen("Starting", "VolumeNotBound", f"{BLOCKED}{_UNBOUND}", held, events=events)


def _crashing(name: str, *, init: bool = False) -> Facts:
    last = {"exitCode": 7, "reason": "Error"}
    spec = {"initContainers": [{"name": "prepare", "restartPolicy": "Always"}]} if init else {}
    back_off = ("CrashLoopBackOff", "back-off 40s restarting failed container")
    held = pod(node="gpu-1", init=init, waiting=back_off, last=last, restarts=4, spec=spec)
    told = f"{BLOCKED}container {name} ended with exit code 7, restarts: 4"
    return seen("Starting", "CrashLoopBackOff", told, held)


def _restarted() -> Facts:
    told = f"restart 1 of 3; pod {POD} failed first: exit code 5"
    before = condition("Restarting", value=False, message=told, at=46)
    runs = pod(phase="Running", node="gpu-1", ready=True)
    return seen("Running", "", "", runs, conditions=[before], status={"restarts": 1})


def _unready(*events: Object, **others: Any) -> Facts:
    runs = pod(phase="Running", node="gpu-1")
    return seen("Starting", "JobStarting", "0 of 1 pod ready", runs, events=events, **others)


_STATES: Final[Mapping[str, Facts]] = {
    "pull": waits("ImagePullBackOff", _PULL),
    "never": waits("ErrImageNeverPull", _NEVER),
    "image-name": waits(
        "InvalidImageName",
        'Failed to apply default image tag "No/Name": couldn\'t parse image name "No/Name": '
        "invalid reference format: repository name must be lowercase",
    ),
    "init-image": _init("ErrImageNeverPull", _NEVER),
    "pull-too-long": seen(
        "Failed",
        "PendingTimeout",
        f"task learner has 0 of at least 1 pod ready for 5 seconds; {BLOCKED}container "
        f"di-container: ErrImagePull: {_PULL}",
    ),
    "config-map": waits("CreateContainerConfigError", 'configmap "none" not found'),
    "secret": waits("CreateContainerConfigError", 'secret "none" not found'),
    "config-map-key": waits(
        "CreateContainerConfigError", "couldn't find key level in ConfigMap rl/empty"
    ),
    "secret-key": waits("CreateContainerConfigError", "couldn't find key token in Secret rl/x"),
    "config-map-volume": creating(
        "FailedMount", 'MountVolume.SetUp failed for volume "data" : configmap "none" not found'
    ),
    "secret-volume": creating(
        "FailedMount", 'MountVolume.SetUp failed for volume "data" : secret "none" not found'
    ),
    "claim": seen(
        "Starting",
        "VolumeNotBound",
        f"{BLOCKED}{_NO_CLAIM}",
        pod(conditions=[unscheduled(_NO_CLAIM)]),
    ),
    "unbound": _unbound(),
    "no-folder": creating(
        "FailedMount",
        'MountVolume.SetUp failed for volume "data" : hostPath type check failed: '
        "/no/such/folder is not a directory",
    ),
    "quota": forbidden(
        f"{_FORBIDDEN}exceeded quota: none, requested: requests.{GPU}=1, used: requests.{GPU}=0, "
        f"limited: requests.{GPU}=0",
        "QuotaExceeded",
    ),
    "service-account": forbidden(
        f'{_FORBIDDEN}error looking up service account rl/trainer: serviceaccount "trainer" not '
        "found"
    ),
    "priority-class": forbidden(f"{_FORBIDDEN}no PriorityClass with name none was found"),
    "cores": unfit("0/2 nodes are available: 2 Insufficient cpu.", nodes=[node()]),
    "device": unfit("0/2 nodes are available: 2 Insufficient example.org/none."),
    "gang": seen("Pending", "Unschedulable", f"{_ROOM}; closest to one more: gpu-1 lacks 3992 cpu"),
    "selector": unfit(_SELECTOR, nodes=[node()], nodeSelector={"no": "such-node"}),
    "affinity": unfit(_SELECTOR),
    "taint": unfit(TAINTED),
    "gate": seen(
        "Starting",
        "SchedulingGated",
        f"{BLOCKED}{_GATED}",
        pod(conditions=[unscheduled(_GATED, "SchedulingGated")]),
    ),
    "name-taken": seen("Pending", "PodNameConflict", "pod name-taken-learner-0 is not of this job"),
    "companion-taken": seen(
        "Pending", "CompanionConflict", "ConfigMap companion-taken-settings is not of this job"
    ),
    "template": seen("Failed", "InvalidTemplate", _INVALID),
    "profile": waits(
        "CreateContainerError",
        "failed to generate spec: failed to generate seccomp spec opts: cannot load seccomp "
        'profile "/var/lib/kubelet/seccomp/none-such.json": no such file or directory',
    ),
    "exit": ended(code=3),
    "exception": ended(
        "Traceback (most recent call last):",
        '  File "<string>", line 1, in <module>',
        "KeyError: 'reward'",
    ),
    "segmentation-fault": ended(code=139),
    "rule": seen("Failed", "PodFailurePolicy", _RULE, failed(42)),
    "restarted": _restarted(),
    "memory": ended(code=137, reason="OOMKilled", **_SMALL),
    "memory-limit": seen("Failed", "OOMLimit", _GROWN, failed(137, "OOMKilled")),
    "command": cannot_start(f'{_RUNC}exec: "trian": executable file not found in $PATH: unknown'),
    "no-program": cannot_start(f'{_RUNC}exec: "/etc/passwd": permission denied: unknown'),
    "shell": ended("sh: 1: trian: not found", code=127),
    "init": seen(
        "Failed",
        "JobFailed",
        f"1 pod failed, all 0 restarts are used; pod {POD} failed first: exit code 7",
        failed(7, init=True),
    ),
    "coordinator": _crashing("di-container"),
    "sidecar": _crashing("prepare", init=True),
    "liveness": seen(
        "Failed",
        "JobFailed",
        f"1 pod failed, all 0 restarts are used; pod {POD} failed first: exit code 137",
        failed(137),
        events=unhealthy("Liveness", UID),
    ),
    "readiness": _unready(event("Unhealthy", "Readiness probe failed: ", uid=UID)),
    "killed-with-exit-code-0": starting.CASES["liveness-and-exit-code-0"].facts,
    "module": programs.CASES["module"].facts,
    "host-name": programs.CASES["name"].facts,
    "processor": ended("sh: 1: exec: /tmp/learner: Exec format error", code=126),
    "at-once": seen(
        "Succeeded",
        "JobSucceeded",
        "task learner succeeded",
        pod(
            "at-once-learner-0",
            phase="Succeeded",
            node="gpu-1",
            ended={"exitCode": 0, "reason": "Completed", "startedAt": time(44)},
        ),
    ),
    "deadline": seen("Failed", "DeadlineExceeded", "active for longer than 3 seconds"),
    "pending": seen(
        "Failed", "PendingTimeout", "task learner has 0 of at least 1 pod ready for 5 seconds"
    ),
    "hung": seen(
        "Running",
        "",
        "",
        pod(phase="Running", node="gpu-1", ready=True),
        conditions=[
            condition(
                "Hung", value=True, reason="NoProgress", message="its step is 62 for 3 seconds"
            )
        ],
    ),
    "depends-on": seen(
        "Starting", "JobStarting", "task learner waits for task collector", pod("x-collector-0")
    ),
    "suspended": seen("Pending", "JobSuspended", "suspended", spec={"suspend": True}),
}
CASES: Final[Mapping[str, Case]] = {
    **{name: Case(facts=_STATES[name], says=(seed.says,)) for name, seed in SEEDS.items()},
    WRONG_NAME: Case(facts=facts(None, jobs=["memory"]), says=("there is no job cartpole",)),
}
