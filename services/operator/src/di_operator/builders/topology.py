"""Affinity by which the cluster's scheduler puts pods of a job into one topology domain.

Each pod of a set requires to be near others of the set. The first pod can go anywhere: the
scheduler ignores an affinity that the pod itself would satisfy while no other pod does
(https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). If Kueue admits the job,
Kueue chooses the domain instead; see `di_operator.kueue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api import names
from di_api.spec import Task
from di_api.spec.topology import Colocate, Topology

Object = Mapping[str, Any]

GATE: Final = "kueue.x-k8s.io/topology"
"""Scheduling gate that Kueue removes once the pod has a node selector for its domain."""
LABEL_POD_SET: Final = "kueue.x-k8s.io/podset"
ANNOTATION_WORKLOAD: Final = "kueue.x-k8s.io/workload"
ANNOTATIONS_ASKED: Final = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST: Final = 100
"""Largest weight of a preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domains:
    """The podSets of a Workload whose pods Kueue assigns to topology domains."""

    workload: str = ""
    pod_sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By podSet name, the annotations with its topology request; Kueue ignores a pod
    without them.
    """
    leaders: Mapping[str, str] = field(default_factory=dict)
    """The podSets of leaders that differ from the other pods of their task, by task."""

    def gated(self, pod: dict[str, Any], task: Task, index: int) -> dict[str, Any]:
        """Return a pod's body with the gate for Kueue's topology assignment, if its podSet has a
        request.
        """
        name = self.leaders.get(task.name, task.name) if task.is_leader(index) else task.name
        asked = self.pod_sets.get(name)
        if asked is None:
            return pod
        metadata, spec = pod["metadata"], pod["spec"]
        metadata = {
            **metadata,
            "labels": {**metadata["labels"], LABEL_POD_SET: name},
            "annotations": {
                **metadata["annotations"],
                ANNOTATION_WORKLOAD: self.workload,
                **asked,
            },
        }
        gates = [*(spec.get("schedulingGates") or ()), {"name": GATE}]
        return {**pod, "metadata": metadata, "spec": {**spec, "schedulingGates": gates}}


def topology_of(task: Task, topology: Iterable[Topology]) -> tuple[Topology, ...]:
    """Return the topology constraints that name a task."""
    return tuple(each for each in topology if task.name in each.tasks)


def replica_label(task: Task, index: int, topology: Iterable[Topology]) -> dict[str, str]:
    """Return the label that pods of one replica share, if a constraint needs it."""
    if not any(each.colocate is Colocate.REPLICA for each in topology):
        return {}
    return {names.LABEL_REPLICA: str(index // task.pods_per_replica)}


def near(
    spec: Object,
    labels: Mapping[str, str],
    task: Task,
    index: int,
    topology: Iterable[Topology],
) -> dict[str, Any]:
    """Return a pod's spec with affinity to other pods of its job, which have these labels; its own
    affinity stays.
    """
    found = {**spec}
    for each in topology:
        term = {
            "topologyKey": each.level,
            "labelSelector": {
                "matchLabels": {**labels, **replica_label(task, index, [each])},
                "matchExpressions": [
                    {"key": names.LABEL_TASK_NAME, "operator": "In", "values": _tasks(task, each)}
                ],
            },
        }
        if each.required:
            found = _with(found, _REQUIRED, term)
        else:
            found = _with(found, _PREFERRED, {"weight": _MOST, "podAffinityTerm": term})
    return found


def _tasks(task: Task, topology: Topology) -> list[str]:
    return [*topology.tasks] if topology.colocate is Colocate.TASKS else [task.name]


def _with(spec: Object, when: str, term: Object) -> dict[str, Any]:
    affinity = spec.get("affinity") or {}
    of_pods = affinity.get("podAffinity") or {}
    terms = [*(of_pods.get(when) or ()), term]
    return {**spec, "affinity": {**affinity, "podAffinity": {**of_pods, when: terms}}}
