"""Usage of the pods of one job, and the replicas that have a node. Raw dicts in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from di_api.field_error import mapping
from di_api.spec import JobSpec, Priority, tasks_by_pod
from di_api.validation import load_leniently
from di_api.wording import reason_of
from di_operator.allocator.model.resources import PODS, UNIT, Resources, pod_request
from di_operator.allocator.observe.inventory import (
    MAKES_NO_SENSE,
    Unreadable,
    bound_node,
    node_of_pod,
    read_task,
)
from di_operator.allocator.observe.node_usage import Entry
from di_operator.allocator.observe.reservations import WaitingPod
from di_operator.lifecycle.job_types.requests import pod_spec
from di_operator.lifecycle.observed.placement import Placement
from di_operator.lifecycle.observed.pods import refusal_of

Object = Mapping[str, Any]

A_POD: Final[Resources] = {PODS: UNIT}
"""Amount that an unreadable pod takes."""


@dataclass(slots=True, kw_only=True)
class OwnPods:
    """The usage of the pods of one job, and its unreadable pods.

    `present` are the pods that are not ending, by task and node; the node of one that is not bound
    yet is empty.
    """

    staying: list[Entry] = field(default_factory=list)
    ending: list[Entry] = field(default_factory=list)
    present: Counter[tuple[str, str]] = field(default_factory=Counter)
    priority: int | None = None
    """The highest Kubernetes priority of the pods; None: there are none."""
    refused: list[WaitingPod] = field(default_factory=list)
    """Pods of a job that is not preemptible for which the scheduler finds no node."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)

    def bound(self, task: str) -> int:
        """Return how many pods of a task have a node, and are not ending."""
        found = self.present.items()
        return sum(count for (name, node), count in found if name == task and node)


def read_own_pods(pods: Iterable[Object], job: Object, spec: JobSpec) -> OwnPods:
    """Read pods with the requests of their templates: the cache has only the pod fields that
    decisions need.
    """
    found, name = OwnPods(), job["metadata"]["name"]
    task_of = tasks_by_pod(name, spec.tasks)
    # By identity; the template is kept beside, so that no other object can take its address.
    requests: dict[int, tuple[Object, Resources]] = {}
    for pod in pods:
        own = pod["metadata"]["name"]
        # A template that names a node takes nothing there yet: the scheduler may refuse it.
        node = node_of_pod(pod) if spec.preemptible else bound_node(pod)
        is_ending = "deletionTimestamp" in pod["metadata"]
        if not is_ending:
            priority = pod["spec"].get("priority") or 0
            found.priority = priority if found.priority is None else max(found.priority, priority)
            # The pod's name is used, which cannot be changed; its label can be.
            found.present[task_of(own), node or ""] += 1
        is_refused = not spec.preemptible and bool(refusal_of(pod))
        if not node and not is_refused:
            continue
        asked = pod_spec(name, spec, own)
        try:
            if id(asked) not in requests:
                requests[id(asked)] = asked, pod_request(asked)
            taken = requests[id(asked)][1]
            if not node:
                found.refused.append(_waiting(pod, asked, spec))
        except MAKES_NO_SENSE as error:
            found.unreadable[pod["metadata"]["uid"]] = Unreadable.of("Pod", pod, reason_of(error))
            taken = A_POD
        if node:
            (found.ending if is_ending else found.staying).append((node, taken))
    return found


def assigned(spec: JobSpec, placement: Placement, own: OwnPods) -> Iterator[Entry]:
    """Yield the node and the requests of each replica that has a node in the status but no pod: it
    can get one at any time.
    """
    for task in spec.tasks:
        try:
            taken = read_task(task).resources
        except MAKES_NO_SENSE:
            taken = A_POD
        for node, count in Counter(placement.get(task.name, ())).items():
            for _ in range(count - own.present[task.name, node]):
                yield node, taken


def without_requests(pods: Iterable[Object]) -> Iterator[Entry]:
    """Yield the node of each pod whose requests are not known, and the amount of one pod."""
    for pod in pods:
        if node := node_of_pod(pod):
            yield node, A_POD


def spec_of_pods(job: Object) -> JobSpec:
    """Return the part of a job's spec that has the requests of its pods: another field, which
    cannot be read, must not hide what the pods take.

    Raises InvalidSpec if that part cannot be read either.
    """
    spec = mapping(job.get("spec"))
    part = {field: spec[field] for field in ("tasks", "coordinated") if field in spec}
    return load_leniently({**part, "preemptible": spec.get("preemptible") is True})


def _waiting(pod: Object, asked: Object, spec: JobSpec) -> WaitingPod:
    """Return a waiting pod of a job, with the requests of its template. Raises as
    `WaitingPod.read`.
    """
    seen = {**asked, "priority": pod["spec"].get("priority") or 0}
    found = WaitingPod.read({"metadata": pod["metadata"], "spec": seen})
    return replace(found, urgency=int(spec.priority is Priority.HIGH))
