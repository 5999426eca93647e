"""What is to be written so that a job and its DIJobTasks say the same.

The job is where the number of replicas is kept. A number that somebody writes to a DIJobTask is a
request: it takes effect at the moment at which the operator writes it into the job, and who writes
to the job later, by REST or by hand, is the last. Two marks make that hold whenever the operator is
killed:

- ``diengine/shown`` of the DIJobTask, the number that the operator wrote there last, in the same
  write as that number: another one in its spec is a request.
- ``diengine/scaled`` of the job, the generation of the DIJobTask whose request was carried out, in
  the same write as the replicas: no request is carried out twice, over what was written since.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from di_api import names
from di_api.field_error import mapping
from di_api.ownership import controlling_job, is_controlled_by, is_of_earlier_job
from di_api.vacancies import filled, left_vacant
from di_operator.builders.metadata import job_labels, object_metadata
from di_operator.job_tasks.scalable import Object, ScalableTask, scalable_tasks, task_status, whole
from di_operator.lifecycle.observed.pods import PodReader

Request: TypeAlias = tuple[str, int]
"""Of a DIJobTask the UID, and the generation with the number that somebody wrote."""


@dataclass(frozen=True, slots=True)
class Make:
    """Create a DIJobTask; its status follows."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """Write a request into the job, by a JSON patch that fails unless the job is as it was read."""

    request: Request
    object_name: str
    asked: int
    task: ScalableTask
    operations: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Show:
    """Bring the spec of a DIJobTask up to date, unless it has changed since it was read."""

    object_name: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """Bring its status up to date."""

    object_name: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a DIJobTask of the job that is not wanted any more."""

    object_name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A name that is needed belongs to somebody else."""

    object_name: str
    task: str


Step: TypeAlias = Make | Take | Show | Report | Remove | Clash


def steps(
    job: Object,
    found: Iterable[Object],
    pods: Collection[Object],
    *,
    read_pod: PodReader,
    refused: Collection[Request] = (),
) -> tuple[Step, ...]:
    """What to write next, nothing if all is right.

    Of requests one at a time, and nothing else of that task: whoever carried it out looks again.

    Args:
        job: as it is known, of any shape.
        found: the DIJobTasks of the job, and those of others that have a name it needs.
        pods: those under the job's name.
        read_pod: reads one of them.
        refused: requests that the API server did not let pass: they are overwritten.
    """
    metadata = job["metadata"]
    if metadata.get("deletionTimestamp"):
        return ()
    by_name = {one["metadata"]["name"]: one for one in found}
    wanted = {task.object_name: task for task in scalable_tasks(job)}
    next_steps: list[Step] = [
        Remove(name, one["metadata"]["uid"])
        for name, one in by_name.items()
        if name not in wanted and is_controlled_by(one, metadata["uid"])
        if not one["metadata"].get("deletionTimestamp")
    ]
    taken = False
    for name, task in wanted.items():
        one = by_name.get(name)
        if one is None:
            next_steps.append(Make(_body(job, task)))
        elif not is_controlled_by(one, metadata["uid"]):
            # What an earlier job has left the garbage collector takes away.
            if not is_of_earlier_job(one, name=metadata["name"], uid=metadata["uid"]):
                next_steps.append(Clash(name, task.name))
        elif one["metadata"].get("deletionTimestamp"):
            continue
        elif (take := _take(job, task, one)) is not None and take.request not in refused:
            # The job has another version then.
            if not taken:
                next_steps.append(take)
            taken = True
        else:
            next_steps.extend(_shown(job, task, one))
            next_steps.extend(_reported(job, task, one, pods, read_pod))
    return tuple(next_steps)


def _body(job: Object, task: ScalableTask) -> dict[str, Any]:
    metadata = object_metadata(job, task.object_name)
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.TASK_KIND,
        "metadata": {**metadata, "annotations": {names.ANNOTATION_SHOWN: str(task.replicas)}},
        "spec": {"job": job["metadata"]["name"], "task": task.name, **_numbers(task)},
    }


def _numbers(task: ScalableTask) -> dict[str, int]:
    return {
        "replicas": task.replicas,
        "minReplicas": task.least,
        "maxReplicas": task.most,
    }


def _take(job: Object, task: ScalableTask, one: Object) -> Take | None:
    """The request that is in a DIJobTask, if there is one that was not carried out."""
    metadata, asked = one["metadata"], whole(mapping(one.get("spec")).get("replicas"))
    request = metadata["uid"], metadata.get("generation") or 0
    if asked is None or str(asked) == _marks(metadata).get(names.ANNOTATION_SHOWN):
        return None
    done = _done(job)
    uid, _, generation = str(done.get(task.name)).rpartition(":")
    if uid == request[0] and generation.isdecimal() and int(generation) >= request[1]:
        return None
    replicas = task.within_bounds(asked)
    vacant = (
        filled(task.replicas, task.vacant, replicas - task.replicas)
        if replicas > task.replicas
        else left_vacant(replicas, task.vacant)
    )
    path = f"/spec/tasks/{task.place}"
    mark = json.dumps(
        {**done, task.name: f"{request[0]}:{request[1]}"}, sort_keys=True, separators=(",", ":")
    )
    operations: list[dict[str, Any]] = [
        # Set, as di-server does: a test that fails is a 422, a wrong version a conflict.
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": job["metadata"]["resourceVersion"],
        },
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    if vacant != task.vacant:
        change = {"op": "add", "value": [*vacant]} if vacant else {"op": "remove"}
        operations.append({**change, "path": f"{path}/vacant"})
    if not _marks(job["metadata"]):
        operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    pointer = "/metadata/annotations/" + names.ANNOTATION_SCALED.replace("/", "~1")
    operations.append({"op": "add", "path": pointer, "value": mark})
    return Take(
        request=request,
        object_name=task.object_name,
        asked=asked,
        task=task,
        operations=operations,
    )


def _shown(job: Object, task: ScalableTask, one: Object) -> Iterable[Show]:
    metadata, spec = one["metadata"], mapping(one.get("spec"))
    labels, marks = job_labels(job), {names.ANNOTATION_SHOWN: str(task.replicas)}
    if (
        _numbers(task).items() <= spec.items()
        and marks.items() <= _marks(metadata).items()
        and labels.items() <= (metadata.get("labels") or {}).items()
    ):
        return
    kept = {key: metadata[key] for key in ("uid", "resourceVersion")}
    yield Show(
        task.object_name,
        {"metadata": {**kept, "labels": labels, "annotations": marks}, "spec": _numbers(task)},
    )


def _reported(
    job: Object, task: ScalableTask, one: Object, pods: Collection[Object], read_pod: PodReader
) -> Iterable[Report]:
    status = task_status(task, job, pods, read_pod)
    if not status.items() <= mapping(one.get("status")).items():
        yield Report(
            task.object_name, {"metadata": {"uid": one["metadata"]["uid"]}, "status": status}
        )


def _marks(metadata: Object) -> Object:
    return mapping(metadata.get("annotations"))


def _done(job: Object) -> dict[str, Any]:
    """What was carried out last, by task; what was edited by hand counts as nothing."""
    try:
        found = json.loads(_marks(job["metadata"]).get(names.ANNOTATION_SCALED) or "{}")
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def owner_name(one: Object) -> str | None:
    """The name of the job that controls a DIJobTask, None if none does."""
    name = mapping(controlling_job(one)).get("name")
    return name if isinstance(name, str) else None
