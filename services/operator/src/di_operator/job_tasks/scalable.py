"""The tasks of a job that have a DIJobTask, and the status of that object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_api.field_error import items, mapping
from di_api.ownership import is_controlled_by
from di_api.phase import has_finished
from di_api.validation import pods_per_replica, standby_pods
from di_operator.lifecycle.observed.pods import Pod, PodReader, is_marked_standby

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableTask:
    """A scalable task of a job.

    Attributes:
        place: its index in `spec.tasks`.
        object_name: name of its DIJobTask.
        least, most: bounds of `replicas`.
        size: pods of each replica.
        has_standbys: whether some of its pods are standby pods.
    """

    place: int
    name: str
    object_name: str
    replicas: int
    least: int
    most: int
    vacant: tuple[int, ...]
    size: int
    has_standbys: bool

    def within_bounds(self, replicas: int) -> int:
        """Return `replicas`, limited to the task's bounds."""
        return min(max(replicas, self.least), self.most)

    def selector(self, job: str) -> str:
        """Return the selector for one pod of each replica, because autoscalers count pods."""
        terms = [f"{names.LABEL_JOB}={job}", f"{names.LABEL_TASK_NAME}={self.name}"]
        if self.size > 1:
            terms.append(f"{names.LABEL_REPLICA_LEADER}={names.MARKED}")
        if self.has_standbys:
            terms.append(f"!{names.LABEL_STANDBY}")
        return ",".join(terms)


def has_scalable_tasks(job: Object) -> bool:
    """Return whether a raw job of any shape requests DIJobTasks, finished or not."""
    return any(mapping(task).get("scalable") is True for task in _tasks(job))


def scalable_tasks(job: Object) -> tuple[ScalableTask, ...]:
    """Return the tasks of a raw job of any shape that need a DIJobTask now.

    A job that has ended has none. Admission refuses them in preemptible jobs and without valid
    bounds; if a job bypassed admission, such tasks have none either.
    """
    if mapping(job.get("spec")).get("preemptible") is True or has_finished(job):
        return ()
    read = (_read(job, place, mapping(task)) for place, task in enumerate(_tasks(job)))
    return tuple(task for task in read if task is not None)


def task_status(
    task: ScalableTask, job: Object, pods: Iterable[Object], read_pod: PodReader
) -> dict[str, Any]:
    """Return the status of the task's DIJobTask, from the pods under the job's name."""
    uid, labels = job["metadata"]["uid"], {names.LABEL_TASK_NAME: task.name}
    present: dict[int, list[Pod]] = defaultdict(list)
    replicas: set[int | str] = set()
    ready = 0
    for raw in pods:
        found = raw["metadata"].get("labels") or {}
        if not labels.items() <= found.items() or not is_controlled_by(raw, uid):
            continue
        pod = read_pod(raw)
        if pod.terminating or pod.is_over or is_marked_standby(pod):
            continue
        if task.size == 1:
            replicas.add(pod.name)
            ready += pod.ready
        else:
            present[names.index_of_pod(pod.name, task.size) // task.size].append(pod)
    replicas.update(present)
    ready += sum(
        len(of_replica) == task.size and all(pod.ready for pod in of_replica)
        for of_replica in present.values()
    )
    return {
        "replicas": len(replicas),
        "readyReplicas": ready,
        "selector": task.selector(job["metadata"]["name"]),
    }


def _tasks(job: Object) -> list[Any]:
    return items(mapping(job.get("spec")).get("tasks"))


def _read(job: Object, place: int, task: Object) -> ScalableTask | None:
    name = task.get("name") or task.get("type")
    most, least = whole(task.get("maxReplicas")), whole(task.get("minReplicas"))
    replicas = whole(task.get("replicas", 1))
    if task.get("scalable") is not True or not isinstance(name, str):
        return None
    least = 1 if least is None else max(least, 1)
    if most is None or replicas is None or not least <= replicas <= most:
        return None
    return ScalableTask(
        place=place,
        name=name,
        object_name=names.job_task_name(job["metadata"]["name"], name),
        replicas=replicas,
        least=least,
        most=most,
        vacant=tuple(index for index in items(task.get("vacant")) if whole(index) is not None),
        size=pods_per_replica(task),
        has_standbys=standby_pods(task) > 0,
    )


def whole(value: object) -> int | None:
    """Return an integer, None for any other value, JSON's true included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
