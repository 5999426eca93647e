"""Pods near each other: the affinity by which the cluster's scheduler puts them into one domain.

Each pod of a set wants to be where others of the set are, so the first may go anywhere: of an
affinity that a pod would fulfil itself the scheduler takes no notice while no pod does
(https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). Kueue, where it gives
the job its quota, chooses the domain instead; see `di_operator.kueue`.
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
"""Kueue takes it from a pod once the pod has a node selector for its domain."""
LABEL_POD_SET: Final = "kueue.x-k8s.io/podset"
ANNOTATION_WORKLOAD: Final = "kueue.x-k8s.io/workload"
ANNOTATIONS_ASKED: Final = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST: Final = 100
"""The largest weight of a preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domains:
    """The podSets of a Workload of Kueue whose pods it sends to their domains."""

    workload: str = ""
    pod_sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By name the annotations that say what the podSet asks for: Kueue looks at no pod without."""
    leaders: Mapping[str, str] = field(default_factory=dict)
    """The podSets of leaders that differ from the other pods of their task, by task."""

    def gated(self, pod: dict[str, Any], task: Task, index: int) -> dict[str, Any]:
        """Return a pod's body that waits for its domain, if Kueue has one for it."""
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
    """Those that a task is named by."""
    return tuple(each for each in topology if task.name in each.tasks)


def replica_label(task: Task, index: int, topology: Iterable[Topology]) -> dict[str, str]:
    """The label that pods of one replica have in common, where one asks for it."""
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
    """A pod's spec that is to be near others of its job, which have these labels, whatever else it
    asks for."""
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
