"""The writes that bring a job and its DIJobTasks into agreement.

The job holds the number of replicas. A number that a client writes to a DIJobTask is a request. It
takes effect when the operator writes it into the job. A later write to the job, by REST or by hand,
overrides it. Two marks keep this true whenever the operator is killed:

- ``diengine/shown`` of the DIJobTask is the number that the operator last wrote there, in the same
  write as that number: a different number in the spec is a request.
- ``diengine/scaled`` of the job is the generation of the DIJobTask whose request was executed, in
  the same write as the replicas: no request is executed twice, over a later write.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from di_api import names
from di_api.field_error import mapping
from di_api.indexes.replicas import filled, left_vacant
from di_api.ownership import controlling_job, is_controlled_by, is_of_earlier_job
from di_operator.builders.metadata import job_labels, object_metadata
from di_operator.job_tasks.scalable import Object, ScalableTask, scalable_tasks, task_status, whole
from di_operator.lifecycle.observed.pods import PodReader

Request: TypeAlias = tuple[str, int]
"""UID of a DIJobTask, and its generation with the number that a client wrote."""


@dataclass(frozen=True, slots=True)
class Make:
    """Create a DIJobTask; its status follows."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """Write a request into the job, by a JSON patch that fails if the job has changed since it was
    read.
    """

    request: Request
    object_name: str
    asked: int
    task: ScalableTask
    operations: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Show:
    """Update the spec of a DIJobTask, unless it has changed since it was read."""

    object_name: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """Update the status of a DIJobTask."""

    object_name: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a DIJobTask that the job no longer needs."""

    object_name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A DIJobTask's name that another owner uses."""

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
    """Return the next writes, empty if everything agrees.

    Requests are executed one at a time, without further writes for that task: the caller computes
    the steps again afterwards.

    Args:
        job: from the cache, of any shape.
        found: the DIJobTasks of the job, and those of others with a name that it needs.
        pods: those under the job's name.
        read_pod: parses one of them.
        refused: requests that the API server refused: they are overwritten.
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
            # The garbage collector deletes what an earlier job has left.
            if not is_of_earlier_job(one, name=metadata["name"], uid=metadata["uid"]):
                next_steps.append(Clash(name, task.name))
        elif one["metadata"].get("deletionTimestamp"):
            continue
        elif (take := _take(job, task, one)) is not None and take.request not in refused:
            # The job has a new resourceVersion then.
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
    """Return the request in a DIJobTask that was not executed yet; None if there is none."""
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
        # Set, as di-server does: a failed test operation is a 422, a wrong resourceVersion a
        # conflict.
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
    """Return the executed requests by task; a value that was edited by hand is ignored."""
    try:
        found = json.loads(_marks(job["metadata"]).get(names.ANNOTATION_SCALED) or "{}")
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def owner_name(one: Object) -> str | None:
    """Return the name of the job that controls a DIJobTask, None if none does."""
    name = mapping(controlling_job(one)).get("name")
    return name if isinstance(name, str) else None
