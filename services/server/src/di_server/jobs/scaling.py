"""Scaling: from a job and a request to one patch and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from di_api.annotations import annotation_patch
from di_api.changed_by import change_note
from di_api.defaults import with_defaults
from di_api.dns_names import MAX_LABEL
from di_api.field_error import items, mapping
from di_api.indexes.replicas import filled, indexes, left_vacant
from di_api.names import (
    ANNOTATION_TRACE,
    pod_name,
    standby_name,
)
from di_api.spec import MAX_VACANT, TaskType
from di_api.validation import (
    node_list_errors,
    pods_per_replica,
    scaling_warning,
    standby_pods,
    total_errors,
    vacant_core,
    vacant_members,
    vacant_of_allocator,
)
from di_server.config import DEFAULT_MAX_REPLICAS
from di_server.jobs.idempotency import IdempotencyKey, IdempotencyRecords, ScalingResult, recording
from di_server.jobs.named_replicas import named_replicas
from di_server.model.job import check_active
from di_server.model.tasks import check_has_tasks, place_of
from di_server.problems import NotNow, OutOfBounds


@dataclass(frozen=True, slots=True)
class ScalingRequest:
    """A request to add `delta` replicas (or remove, if negative) to a task, or to set their number
    to `to`; task None means the default task.
    """

    delta: int
    task: str | None = None
    names: tuple[str, ...] = ()
    """Replicas to remove, or their pods; empty: those with the highest indexes."""
    to: int | None = None
    """Wanted number of replicas; None: change by `delta`."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of a request that was executed before; nothing is written."""

    result: ScalingResult


@dataclass(frozen=True, slots=True)
class ScalingPatch:
    """A JSON patch (RFC 6902) that fails with a conflict if the job has changed since it was read;
    without operations the task already has this number of replicas.
    """

    operations: Sequence[dict[str, Any]]
    result: ScalingResult


def decide(
    job: Mapping[str, Any],
    asked: ScalingRequest,
    key: IdempotencyKey | None,
    *,
    trace: str | None = None,
    who: str = "",
    default_max_replicas: int = DEFAULT_MAX_REPLICAS,
) -> Replay | ScalingPatch:
    """Return what a scale request writes, or its earlier result.

    The key is looked up first: a retry must get its first result even if the job has finished, or
    reached a bound, since. `trace` and the author `who`, if known, are recorded on the job.
    `default_max_replicas` limits a task without maxReplicas; one that already has more can shrink.

    Raises:
        NotNow: the job is finished, suspended or being deleted, or the key was used for another
            request.
        OutOfBounds: an unknown task, or a number out of bounds.
    """
    records = IdempotencyRecords.of(job)
    known = records.result_of(key)
    if known is not None:
        return Replay(_warned(job, known))

    check_has_tasks(job)
    check_active(job)
    spec = with_defaults(job["spec"])
    if spec["suspend"]:
        raise NotNow("the job is suspended, resume it first")
    metadata, tasks = job["metadata"], spec.get("tasks") or []
    index, gone = (
        named_replicas(job, tasks, asked.names, asked.task)
        if asked.names
        else (_pick(tasks, asked.task), frozenset[int]())
    )
    task = tasks[index]
    delta = asked.delta if asked.to is None else asked.to - task["replicas"]
    before, replicas = task.get("vacant") or [], task["replicas"] + delta
    if delta == 0:
        return ScalingPatch((), ScalingResult(task["name"], replicas))
    if delta < 0:
        _check_least(task, replicas)
        vacant = left_vacant(replicas, {*before, *gone})
        if gone:
            _check_vacant(spec, task, vacant)
    else:
        _check_most(task, replicas, default_max_replicas)
        _check_admitted(job, spec, task, replicas)
        vacant = filled(task["replicas"], before, delta)
        grown = {**task, "replicas": replicas, "vacant": [*vacant]}
        others = {**spec, "tasks": [*tasks[:index], grown, *tasks[index + 1 :]]}
        _check_job(metadata, others, grown)
    result = _warned(job, ScalingResult(task["name"], replicas))
    operations = [
        # The version is set and not tested: a failed test is a 422 like that of an invalid request,
        # a wrong version a 409.
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": metadata["resourceVersion"],
        },
        {"op": "add", "path": f"/spec/tasks/{index}/replicas", "value": replicas},
        *_vacating(f"/spec/tasks/{index}/vacant", [*before], [*vacant]),
        *annotation_patch(
            job,
            {
                **recording(records, key, result),
                **({} if trace is None else {ANNOTATION_TRACE: trace}),
                **change_note(metadata.get("generation"), who),
            },
        ),
    ]
    return ScalingPatch(operations, result)


def _warned(job: Mapping[str, Any], result: ScalingResult) -> ScalingResult:
    """Return the result with the warning of its task, also for a replayed request."""
    spec = mapping(job.get("spec"))
    tasks = (mapping(each) for each in items(spec.get("tasks")))
    found = (each for each in tasks if (each.get("name") or each.get("type")) == result.task)
    return replace(result, warning=next((scaling_warning(spec, each) for each in found), None))


def trace_note(traceparent: str, now: datetime) -> str:
    """Return the annotation value for a scale request: its span, and its time."""
    return f"{traceparent} {now.astimezone(UTC).isoformat(timespec='milliseconds')}"


def _pick(tasks: Sequence[Mapping[str, Any]], asked: str | None) -> int:
    if asked is not None:
        return place_of(tasks, asked)
    collectors = [i for i, task in enumerate(tasks) if task["type"] == TaskType.COLLECTOR]
    among = collectors or range(len(tasks))
    if len(among) != 1:
        choice = ", ".join(str(tasks[index].get("name")) for index in among)
        raise OutOfBounds(f"task must be given, one of {choice or 'none'}")
    return among[0]


def _check_least(task: Mapping[str, Any], asked: int) -> None:
    low = task.get("minReplicas")
    least = 1 if low is None else max(low, 1)
    if asked < least:
        source = "" if low is None else " (minReplicas)"
        raise OutOfBounds(
            f"task {task['name']} must have at least {least} replicas{source}, "
            f"has {task['replicas']}"
        )


def _check_most(task: Mapping[str, Any], asked: int, default: int) -> None:
    name, now, high = task["name"], task["replicas"], task.get("maxReplicas")
    if high is None and asked > default:
        raise OutOfBounds(
            f"task {name} has no maxReplicas and is scaled here to at most {default} replicas, "
            f"has {now}; set maxReplicas of the task to allow more"
        )
    if high is not None and asked > high:
        raise OutOfBounds(
            f"task {name} must have at most {high} replicas (maxReplicas), has {now}; "
            "raise maxReplicas of the task to allow more"
        )


def _check_admitted(
    job: Mapping[str, Any], spec: Mapping[str, Any], task: Mapping[str, Any], asked: int
) -> None:
    """Check that the admitted quota of a job with a queue suffices. An elastic tier queues for
    more, and the allocator decides on the replicas of a preemptible job.
    """
    admitted = mapping(mapping(job.get("status")).get("admitted")).get(task["name"])
    if not isinstance(admitted, int) or asked <= admitted:
        return
    if task.get("elastic") is not None or spec["preemptible"]:
        return
    raise OutOfBounds(
        f"task {task['name']} must have at most {admitted} replicas, which its queue has "
        f"admitted, has {task['replicas']}; suspend the job to have it queue for more"
    )


def _check_vacant(spec: Mapping[str, Any], task: Mapping[str, Any], vacant: Sequence[int]) -> None:
    """Check that the task can have these vacant indexes, by the rules of admission."""
    name = task["name"]
    some, these = {**task, "vacant": [0]}, {**task, "vacant": [*vacant]}
    for error in (
        *vacant_of_allocator(spec, [(name, some)]),
        *vacant_members(name, some),
        *vacant_core(name, these),
    ):
        raise OutOfBounds(f"replicas of task {name} cannot be chosen: {error.message}")
    if len(vacant) > MAX_VACANT:
        raise OutOfBounds(
            f"task {name} would leave {len(vacant)} indexes vacant and may leave {MAX_VACANT}; "
            "remove those of the highest indexes"
        )


def _vacating(path: str, before: list[int], vacant: list[int]) -> list[dict[str, Any]]:
    """Return the operations that write the vacant indexes, if they change."""
    if vacant == before:
        return []
    return [
        {"op": "add", "path": path, "value": vacant} if vacant else {"op": "remove", "path": path}
    ]


def _check_job(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], grown: Mapping[str, Any]
) -> None:
    """Check the bounds of the whole job, by the rules of admission, so that the refusal
    names them.
    """
    task, asked, size = grown["name"], grown["replicas"], pods_per_replica(grown)
    last = max(indexes(asked, grown["vacant"]))
    longest = pod_name(metadata["name"], task, last * size + size - 1, size)
    if standbys := standby_pods(grown):
        longest = standby_name(metadata["name"], task, last + standbys)
    if len(longest) > MAX_LABEL:
        raise OutOfBounds(
            f"task {task} with {asked} replicas has pod names over {MAX_LABEL} characters"
        )
    for error in (*total_errors(spec), *node_list_errors(metadata, spec)):
        raise OutOfBounds(f"with {asked} replicas of task {task} the job {error.message}")
