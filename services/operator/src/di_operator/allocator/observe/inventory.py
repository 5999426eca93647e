"""From the API server's objects to the allocator's model. Raw dicts in, no client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from di_api.expected_completion import ExpectedCompletion
from di_api.ownership import sweep_uid
from di_api.spec import JobSpec, Priority, Task, TaskType
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo, scaled_of
from di_operator.allocator.model.node import NodeInfo, Taint, read_constraints
from di_operator.allocator.model.pod_scopes import read_scopes
from di_operator.allocator.model.resources import Resources, largest, pod_request, read_resources
from di_operator.allocator.observe.report_cache import Report
from di_operator.builders.pinning import node_of
from di_operator.lifecycle.observed.pods import is_finished

Object = Mapping[str, Any]

_CORDONED = Taint(key="node.kubernetes.io/unschedulable")
_NOT_READY = Taint(key="node.kubernetes.io/not-ready")


MAKES_NO_SENSE: Final = (AttributeError, KeyError, TypeError, ValueError)
"""Exceptions raised by reading an invalid node or pod."""


class Unreadable(NamedTuple):
    """An object that cannot be read, and the reason; the namespace of a node is empty."""

    kind: str
    namespace: str
    name: str
    reason: str

    @classmethod
    def of(cls, kind: str, found: Object, reason: str) -> Unreadable:
        """Return one for an object, named by its metadata."""
        metadata = found["metadata"]
        return cls(kind, metadata.get("namespace", ""), metadata["name"], reason)


def read_node(node: Object, *, kind_label: str | None = None) -> NodeInfo:
    """Return a node without any pods. Its kind is the value of that label.

    Raises AttributeError, KeyError, TypeError or ValueError for an invalid node.
    """
    name = node["metadata"]["name"]
    allocatable = read_resources((node.get("status") or {}).get("allocatable"))
    labels = node["metadata"].get("labels") or {}
    return NodeInfo(
        name=name,
        total=allocatable,
        free=allocatable,
        labels={**labels, "metadata.name": name},
        taints=_shared_taints(tuple(_taints(node))),
        kind=labels.get(kind_label, "") if kind_label else "",
    )


def read_pod(pod: Object) -> tuple[str, Resources] | None:
    """Return the node of a pod and what it takes there; None: it takes nothing.

    A pod that has ended takes nothing; one that is being deleted still does. Raises
    AttributeError, KeyError, TypeError or ValueError for invalid requests.
    """
    node = bound_node(pod)
    return (node, _shared(tuple(pod_request(pod["spec"]).items()))) if node else None


@lru_cache(maxsize=4096)
def _shared(amounts: tuple[tuple[str, int], ...]) -> Resources:
    # Most of fifteen thousand pods are equal to others, so they share one object.
    return dict(amounts)


def bound_node(pod: Object) -> str | None:
    """Return the node that a pod is bound to and takes capacity on; None if it takes none."""
    node = (pod.get("spec") or {}).get("nodeName")
    return node if node and not is_finished(pod) else None


def node_of_pod(pod: Object) -> str | None:
    """Return the node that the allocator chose for a pod, bound or not yet; None if it takes no
    capacity.
    """
    node = node_of(pod.get("spec") or {})
    return node if node and not is_finished(pod) else None


def read_task(task: Task, priority_class: str | None = None) -> TaskInfo:
    """Return the allocator's model of a task. Raises ValueError for an invalid quantity.

    Pods whose template sets no priority get `priority_class`.

    It counts pods. The pods of one replica count as equal, each with the larger request of its
    templates.
    """
    spec, leader = (each.get("spec") or {} for each in (task.template, task.leader_template))
    pods = (spec, leader) if leader else (spec,)
    least, most = (
        task.replicas if bound is None else bound
        for bound in (task.min_replicas, task.max_replicas)
    )
    return TaskInfo(
        name=task.name,
        type=task.type,
        replicas=task.pods,
        minimum=least * task.pods_per_replica,
        maximum=most * task.pods_per_replica,
        unit=task.pods_per_replica,
        resources=largest([pod_request(spec), pod_request(leader)]),
        constraints=read_constraints(spec),
        elastic=task.has_elastic_group,
        scopes=tuple(read_scopes(each, priority_class) for each in pods),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """The facts about a DIJob that depend neither on the time nor on what it holds."""

    info: JobInfo
    """With age 0, and as if it held nothing."""
    created: datetime
    report: Report | None
    expected: ExpectedCompletion | None = None

    def at(self, now: datetime, *, held: NodeList, attained: float) -> JobInfo:
        """Return the policies' view of the job, which `held` nodes for `attained` replica-seconds.

        A stale report still shows how fast the job is on what it has. But its learners keep their
        number at most, because the use of more is unknown.
        """
        said, tasks = self.report.said if self.report else None, self.info.tasks
        if said is not None and held and said.is_stale(now):
            tasks = tuple(_not_above(task, len(held.task(task.name))) for task in tasks)
        return replace(
            self.info,
            tasks=tasks,
            # A clock that was set back must not give a negative age.
            age=_seconds_until(now, self.created),
            attained=attained,
            remaining=said.remaining(now) if said else None,
            unsaved=said.unsaved() if said else 0.0,
            ends=_seconds_until(self.expected.latest, now) if self.expected else None,
        )


def read_job(
    job: Object, spec: JobSpec, *, report: Report | None, high_priority_class: str | None = None
) -> KnownJob:
    """Return the facts about a DIJob and its report. Its pods get `high_priority_class` if it is of
    high priority.

    Raises ValueError for an invalid quantity in a template.
    """
    metadata, status = job["metadata"], job.get("status") or {}
    is_high = spec.priority is Priority.HIGH
    priority_class = high_priority_class if is_high else None
    tasks = tuple(read_task(task, priority_class) for task in spec.tasks)
    return KnownJob(
        info=JobInfo(
            key=f"{metadata['namespace']}/{metadata['name']}",
            tasks=_with_one_size_to_choose(tasks),
            preemptible=spec.preemptible,
            gang=spec.scheduling.gang,
            priority=int(is_high),
            age=0.0,
            restarts=int(status.get("reschedules") or 0),
            model=report.model if report else None,
            by_kind=report.by_kind if report else {},
            collecting=report.collecting if report else None,
            explored=report.explored if report else 0,
            restoring=(report.said.restore_seconds if report else None) or 0.0,
            longest=spec.active_deadline_seconds,
            sweep=sweep_uid(job) or "",
        ),
        expected=ExpectedCompletion.read(status.get("expectedCompletion")),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        report=report,
    )


def _with_one_size_to_choose(tasks: tuple[TaskInfo, ...]) -> tuple[TaskInfo, ...]:
    """Return the tasks, with those learners fixed whose number does not determine the job's speed.

    A report has the speed for a total number of learners, not for a number of each task.
    """
    learners = [task for task in tasks if task.type is TaskType.LEARNER]
    if len(learners) < 2:
        return tasks
    fixed = {task.name for task in learners} - {scaled_of(tasks).name}
    return tuple(
        replace(task, minimum=task.replicas, maximum=task.replicas) if task.name in fixed else task
        for task in tasks
    )


def _seconds_until(moment: datetime, now: datetime) -> float:
    return max(0.0, (moment - now).total_seconds())


def _not_above(task: TaskInfo, count: int) -> TaskInfo:
    if task.follows_learners:
        return task
    return replace(task, maximum=max(task.minimum, min(count, task.maximum)))


def _taints(node: Object) -> list[Taint]:
    spec = node.get("spec") or {}
    found = {
        Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
        for taint in spec.get("taints") or ()
    }
    # The node controller turns these into taints, but seconds later.
    if spec.get("unschedulable"):
        found.add(_CORDONED)
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions):
        found.add(_NOT_READY)
    return sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect))


@lru_cache(maxsize=4096)
def _shared_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    # Most nodes have equal taints, and results about taints are cached by identity.
    return taints
