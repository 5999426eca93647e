"""Pods that have a node and do not start there, or are not left to run by their kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.explain import Facts
from tests.unit.api.explain.cluster import (
    BLOCKED,
    POD,
    Object,
    condition,
    event,
    failed,
    pod,
    seen,
    time,
)
from tests.unit.api.explain.first_lines.case import Case

UID: Final = f"uid-{POD}"
_REFUSED: Final = "Liveness probe failed: dial tcp 10.42.0.7:9: connect: connection refused"
_IN_PLACE: Final = "Container di-container failed liveness probe, will be restarted"
_ANOTHER: Final = "uid-of-the-pod-before"


def waits(reason: str, message: str, *, events: Any = (), told: str = "") -> Facts:
    """A pod on a node whose container waits."""
    held = pod(node="gpu-1", waiting=(reason, message))
    text = told or f"{BLOCKED}container di-container: {reason}: {message}"
    return seen("Starting", reason, text, held, events=events)


def creating(reason: str, message: str) -> Facts:
    """A pod that its node does not get ready: its events alone have the cause."""
    told = (
        f"{BLOCKED}its volumes or its network (ContainerCreating) have not been ready on its node "
        f"since {time(40)}; kubectl describe pod {POD} says why"
    )
    return waits("ContainerCreating", "", events=[event(reason, message, uid=UID)], told=told)


def cannot_start(message: str, code: int = 128) -> Facts:
    """A container that the runtime could not start."""
    told = f"1 pod failed, all 3 restarts are used; pod {POD} failed first: exit code {code}"
    ended = failed(code, "StartError", ended={"message": message})
    return seen("Failed", "JobFailed", f"{told} (StartError); its last lines: {message}", ended)


def killed(*, uid: str = UID, message: str = _REFUSED) -> list[Object]:
    """The events of a liveness probe that ends a container."""
    return [
        event("Unhealthy", message, uid=uid),
        event("Killing", "Stopping container di-container", kind="Normal", uid=uid),
    ]


def _restarted_after_a_kill() -> Facts:
    """The pod that was killed is gone, and its successor of the same name runs."""
    told = f"restart 1 of 3; pod {POD} failed first: exit code 137"
    before = condition("Restarting", value=False, message=told, at=46)
    status = {"restarts": 1, "replicas": 1, "readyReplicas": 1}
    runs = pod(phase="Running", node="gpu-1", ready=True)
    events = killed(uid=_ANOTHER)
    return seen("Running", "", "", runs, conditions=[before], status=status, events=events)


def _restarted_in_place() -> Facts:
    last = {"exitCode": 137, "reason": "Error"}
    runs = pod(phase="Running", node="gpu-1", ready=True, restarts=4, last=last)
    events = [
        event("Unhealthy", _REFUSED, uid=UID),
        event("Killing", _IN_PLACE, kind="Normal", uid=UID),
    ]
    return seen("Running", "", "", runs, events=events, status={"replicas": 1, "readyReplicas": 1})


def _succeeded_by_a_kill() -> Facts:
    """Its program exits with 0 on SIGTERM, so a pod that was killed counts as succeeded."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time(44)}
    over = pod(phase="Succeeded", node="gpu-1", ended=ended)
    return seen("Succeeded", "JobSucceeded", "task learner succeeded", over, events=killed())


_PLATFORM: Final = (
    'Back-off pulling image "example/train:1": ErrImagePull: rpc error: code = NotFound desc = '
    'failed to pull and unpack image "docker.io/example/train:1": no match for platform in '
    "manifest: not found"
)
_RATE: Final = (
    'Back-off pulling image "busybox": ErrImagePull: failed to pull and unpack image '
    '"docker.io/library/busybox:latest": failed to copy: httpReadSeeker: failed open: unexpected '
    "status code https://registry-1.docker.io/v2/library/busybox/manifests/sha256:50aa4698: 429 "
    "Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit. "
    "You may increase the limit by authenticating and upgrading"
)
_DENIED: Final = (
    'Back-off pulling image "registry.example.org/team/train:2": ErrImagePull: failed to pull and '
    'unpack image "registry.example.org/team/train:2": failed to resolve reference '
    '"registry.example.org/team/train:2": pull access denied, repository does not exist or may '
    "require authorization: server message: insufficient_scope: authorization failed"
)
_TRUST: Final = (
    'failed to pull image "registry.lan:5000/train:1": failed to resolve reference '
    '"registry.lan:5000/train:1": failed to do request: Head "https://registry.lan:5000/v2/train/'
    'manifests/1": tls: failed to verify certificate: x509: certificate signed by unknown authority'
)
_RUNC: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    "create failed: unable to start container process: "
)

CASES: Final[Mapping[str, Case]] = {
    "liveness-while-the-job-goes-on": Case(facts=_restarted_after_a_kill(), says=(_REFUSED,)),
    "liveness-in-place": Case(
        facts=_restarted_in_place(), says=(_REFUSED,), never=("nothing keeps",)
    ),
    "liveness-and-exit-code-0": Case(facts=_succeeded_by_a_kill(), says=(_REFUSED, POD)),
    "startup-probe": Case(
        facts=seen(
            "Restarting",
            "JobRestarting",
            f"1 pod failed; pod {POD} failed first: exit code 137",
            failed(137),
            events=killed(
                message="Startup probe failed: HTTP probe failed with statuscode: 503", uid=UID
            ),
        ),
        says=("Startup probe failed: HTTP probe failed with statuscode: 503",),
    ),
    "missing-key": Case(
        facts=waits("CreateContainerConfigError", "couldn't find key lr in ConfigMap rl/settings"),
        says=("couldn't find key lr in ConfigMap rl/settings",),
        never=("does not exist",),
    ),
    "missing-key-of-a-secret": Case(
        facts=waits("CreateContainerConfigError", "couldn't find key token in Secret rl/wandb"),
        says=("couldn't find key token in Secret rl/wandb",),
        never=("does not exist",),
    ),
    "missing-key-of-a-volume": Case(
        facts=creating(
            "FailedMount",
            'MountVolume.SetUp failed for volume "settings" : references non-existent config key: '
            "lr.yaml",
        ),
        says=("references non-existent config key: lr.yaml",),
        never=("does not exist",),
    ),
    "wrong-arch": Case(
        facts=seen(
            "Failed",
            "JobFailed",
            f"1 pod failed; pod {POD} failed first: exit code 255",
            failed(255),
            logs={POD: ["exec /app/learner: exec format error", "", ""]},
        ),
        says=("exec /app/learner: exec format error", "another processor", "image"),
    ),
    "wrong-arch-without-a-log": Case(
        facts=cannot_start(f'{_RUNC}exec: "/app/learner": exec format error: unknown'),
        says=("exec format error", "another processor", "image"),
    ),
    "no-x-bit": Case(
        facts=cannot_start(f'{_RUNC}exec: "/app/train.sh": permission denied: unknown'),
        says=('exec: "/app/train.sh": permission denied', "not executable"),
        never=("processor",),
    ),
    "no-program": Case(
        facts=cannot_start(
            f'{_RUNC}exec: "/manager": stat /manager: no such file or directory: unknown'
        ),
        says=('exec: "/manager": stat /manager: no such file or directory',),
        never=("processor",),
        thread="https://github.com/pl4nty/cloudflare-kubernetes-gateway/issues/123",
    ),
    "no-driver": Case(
        facts=cannot_start(
            f"{_RUNC}error during container init: error running prestart hook #0: exit status 1, "
            "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: "
            "initialization error: nvml error: driver not loaded: unknown"
        ),
        says=("nvml error: driver not loaded",),
    ),
    "runs-as-root": Case(
        facts=waits(
            "CreateContainerConfigError",
            'container has runAsNonRoot and image will run as root (pod: "cartpole-learner-0_rl'
            '(d7ec6cb8)", container: di-container)',
        ),
        says=("container has runAsNonRoot and image will run as root",),
        never=("ConfigMap", "does not exist"),
        thread="https://github.com/kubernetes-sigs/external-dns/issues/4003",
    ),
    "pull-rate": Case(
        facts=waits("ImagePullBackOff", _RATE),
        says=("toomanyrequests: You have reached your pull rate limit",),
        thread="https://github.com/kata-containers/kata-containers/issues/10109",
    ),
    "pull-denied": Case(
        facts=waits("ImagePullBackOff", _DENIED),
        says=("registry.example.org/team/train:2", "pull access denied"),
    ),
    "pull-certificate": Case(
        facts=waits("ErrImagePull", _TRUST),
        says=("registry.lan:5000/train:1", "x509: certificate signed by unknown authority"),
    ),
    "pull-platform": Case(
        facts=waits("ImagePullBackOff", _PLATFORM),
        says=("no match for platform in manifest",),
    ),
    "network-plugin": Case(
        facts=creating(
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup "
            'network for sandbox "1f81d650b5e9": plugin type="calico" failed (add): error getting '
            'ClusterInformation: Get "https://10.233.0.1:443/apis/crd.projectcalico.org/v1/'
            'clusterinformations/default": dial tcp 10.233.0.1:443: i/o timeout',
        ),
        says=("failed to setup network for sandbox", "dial tcp 10.233.0.1:443: i/o timeout"),
        thread="https://github.com/kubernetes-sigs/kubespray/issues/9897",
    ),
    "attached-elsewhere": Case(
        facts=creating(
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-80c52f0e" Volume is already exclusively attached '
            "to one node and can't be attached to another",
        ),
        says=('Multi-Attach error for volume "pvc-80c52f0e"', "already exclusively attached"),
        thread="https://github.com/longhorn/longhorn/issues/5345",
    ),
    "nfs-server-away": Case(
        facts=creating(
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32 Mounting '
            "command: mount Mounting arguments: -t nfs nas:/data /var/lib/kubelet/x Output: "
            "mount.nfs: Connection timed out",
        ),
        says=("mount.nfs: Connection timed out",),
        thread="https://github.com/rook/nfs/issues/34",
    ),
}
