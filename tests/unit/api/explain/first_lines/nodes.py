"""Pods that get no node, or whose node refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.explain import Facts
from tests.unit.api.explain.cluster import (
    BLOCKED,
    POD,
    Object,
    event,
    node,
    pod,
    seen,
    unscheduled,
)
from tests.unit.api.explain.first_lines.case import Case

_CORDON: Final = "node.kubernetes.io/unschedulable"
_CORDONED: Final = (
    "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: "
    "1 Preemption is not helpful for scheduling."
)
_NO_GANG: Final = "task learner needs 1 replica; none of 1 nodes admits its pods"
_PREEMPTION: Final = (
    " preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
)


def cordoned(name: str = "gpu-1") -> Object:
    """A node on which `kubectl cordon` was run."""
    found = node(name)
    taint = {"key": _CORDON, "effect": "NoSchedule", "timeAdded": "2026-03-01T11:30:00Z"}
    found["spec"] = {"unschedulable": True, "taints": [taint]}
    return found


def unfit(message: str, *, nodes: Any = (), **spec: Any) -> Facts:
    """A pod for which the scheduler has found no node."""
    waits = pod(conditions=[unscheduled(message)], spec=spec)
    return seen("Starting", "Unschedulable", f"{BLOCKED}{message}", waits, nodes=nodes)


def refused(reason: str, message: str) -> Facts:
    """A pod that its kubelet has refused, as the operator reports it."""
    found = pod(phase="Failed", node="gpu-1", reason=reason, message=message)
    found["status"].pop("containerStatuses")
    told = f"1 pod lost, {POD} first: {reason}: {message}; it is created again in 10 seconds"
    return seen("Rescheduling", "PodRejected", told, found, nodes=[node()])


def _gone(reason: str, message: str) -> Facts:
    """A pod that the kubelet has evicted."""
    found = pod(phase="Failed", node="gpu-1", reason=reason, message=message)
    return seen("Rescheduling", "JobRescheduling", f"1 pod lost, {POD} first", found)


_CLAIM: Final = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
_UNBOUND: Final = (
    "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1 "
    "nodes are available: 1 Preemption is not helpful for scheduling."
)


def unbound(reason: str, message: str) -> Facts:
    """A pod whose claim is not bound, with the event of the claim."""
    waits = pod(conditions=[unscheduled(_UNBOUND)], spec=_CLAIM)
    told = {
        **event(reason, message, about="data", uid="uid-data"),
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data", "uid": "uid-data"},
    }
    return seen("Starting", "VolumeNotBound", f"{BLOCKED}{_UNBOUND}", waits, events=[told])


CASES: Final[Mapping[str, Case]] = {
    "cordon": Case(
        facts=unfit(_CORDONED, nodes=[cordoned()]),
        says=("gpu-1 is cordoned", _CORDON),
        never=("of the kind",),
    ),
    "cordon-of-a-gang": Case(
        facts=seen("Pending", "Unschedulable", _NO_GANG, nodes=[cordoned()]),
        says=("gpu-1 is cordoned", _CORDON),
        never=("of the kind",),
    ),
    "cordon-without-right-to-nodes": Case(
        facts=unfit(_CORDONED), says=("cordoned", "1 node(s) were unschedulable")
    ),
    "out-of-cpu": Case(
        facts=refused(
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: "
            "250, capacity: 8000",
        ),
        says=("OutOfcpu", "Node didn't have enough resource: cpu, requested: 64000"),
    ),
    "storage-class": Case(
        facts=unbound("ProvisioningFailed", 'storageclass.storage.k8s.io "fast-ssd" not found'),
        says=("claim data", "storage class fast-ssd", "does not exist"),
    ),
    "no-volume-for-a-claim": Case(
        facts=unbound(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        says=("claim data", "no storage class is set"),
    ),
    "slow-provisioner": Case(
        facts=unbound(
            "ProvisioningFailed",
            'failed to provision volume with StorageClass "gp3": rpc error: code = Internal desc '
            "= Could not create volume: UnauthorizedOperation: You are not authorized",
        ),
        says=("claim data", 'StorageClass "gp3"', "UnauthorizedOperation"),
    ),
    "volume-in-another-zone": Case(
        facts=unfit(
            "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/"
            f"control-plane: }}, 2 node(s) had volume node affinity conflict.{_PREEMPTION}",
            **_CLAIM,
        ),
        says=("2 node(s) had volume node affinity conflict",),
        never=("Preemption", "preemption"),
        thread="https://github.com/kubernetes/kubernetes/issues/108096",
    ),
    "full-and-cordoned": Case(
        facts=unfit(
            "0/5 nodes are available: 2 node(s) were unschedulable, 3 Insufficient pods.",
        ),
        says=("3 Insufficient pods", "2 node(s) were unschedulable"),
        thread="https://github.com/kubernetes/kubernetes/issues/107194",
    ),
    "unreachable-node": Case(
        facts=unfit(
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{node.kubernetes.io/unreachable: }. preemption: 0/1 nodes are available: 1 "
            "Preemption is not helpful for scheduling.",
            nodes=[node(ready="Unknown", message="Kubelet stopped posting node status.")],
        ),
        says=("node.kubernetes.io/unreachable",),
        never=("Preemption",),
        thread="https://github.com/hystax/optscale/issues/568",
    ),
    "no-device-plugin": Case(
        facts=unfit(
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are "
            "available: 1 No preemption victims found for incoming pod."
        ),
        says=("1 Insufficient nvidia.com/gpu",),
        thread="https://github.com/NVIDIA/k8s-device-plugin/issues/33",
    ),
    "anti-affinity": Case(
        facts=unfit(
            "0/9 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 8 node(s) "
            "had volume node affinity conflict."
        ),
        says=("1 node(s) didn't match pod anti-affinity rules",),
        thread="https://github.com/Altinity/clickhouse-operator/issues/702",
    ),
    "host-port": Case(
        facts=unfit(
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod "
            f"ports.{_PREEMPTION}"
        ),
        says=("free ports for the requested pod ports",),
    ),
    "unhealthy-device": Case(
        facts=refused(
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
            "unhealthy devices nvidia.com/gpu, which is unexpected",
        ),
        says=("UnexpectedAdmissionError", "cannot allocate unhealthy devices nvidia.com/gpu"),
        thread="https://github.com/openshift/instaslice-operator/issues/140",
    ),
    "lost-device": Case(
        facts=refused(
            "UnexpectedAdmissionError",
            "Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: "
            "rpc error: code = Unknown desc = Unable to retrieve list of available devices: error "
            "creating nvml.Device 3: nvml: GPU is lost, which is unexpected",
        ),
        says=("nvml: GPU is lost",),
        thread="https://github.com/NVIDIA/k8s-device-plugin/issues/231",
    ),
    "disk-pressure": Case(
        facts=_gone(
            "Evicted",
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10385144Ki, "
            "available: 9120344Ki. Container di-container was using 41Gi, request is 0, has "
            "larger consumption of ephemeral-storage.",
        ),
        says=("evicted", "The node was low on resource: ephemeral-storage"),
    ),
}
