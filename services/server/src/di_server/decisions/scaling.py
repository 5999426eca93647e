"""Scaling: from a job as it is and a request to one patch and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.coordinated import is_coordinated
from di_api.defaults import with_defaults
from di_api.job_names import node_list_errors
from di_api.model import Phase, TaskType
from di_api.names import ANNOTATION_IDEMPOTENCY, COORDINATED_VERSIONS, MAX_LABEL, longest_job_name
from di_api.size import MAX_PODS, total_errors
from di_server.decisions.ledger import Answer, Entry, Ledger, RetryKey
from di_server.problems import NotNow, OutOfBounds

DEFAULT_MAX_REPLICAS: Final = 32
"""Bound of a task without maxReplicas, unless the installation has another. The pods of a job may
scale it without anybody's permission, so it must not be one that takes the cluster."""
_ANNOTATION_POINTER: Final = "/metadata/annotations/" + ANNOTATION_IDEMPOTENCY.replace("/", "~1")


@dataclass(frozen=True, slots=True)
class Change:
    """Add `delta` replicas (fewer when negative) to a task; None means the default task."""

    delta: int
    task: str | None = None


def change(replicas: int, task: str | None, *, sign: int) -> Change:
    """What a body asks for; `sign` is 1 to add and -1 to remove.

    Raises:
        OutOfBounds: `replicas` is no count.
    """
    if not 1 <= replicas <= MAX_PODS:
        raise OutOfBounds(f"replicas must be between 1 and {MAX_PODS}, the most pods of a job")
    return Change(sign * replicas, task)


@dataclass(frozen=True, slots=True)
class Replay:
    """The request was answered before; nothing is to be written."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch (RFC 6902) that fails with a conflict unless the job is as it was read."""

    operations: Sequence[dict[str, Any]]
    answer: Answer


def plan(
    job: Mapping[str, Any],
    asked: Change,
    key: RetryKey | None,
    *,
    default_max_replicas: int = DEFAULT_MAX_REPLICAS,
) -> Replay | Write:
    """Decide what a scaling request writes.

    A key is looked up before anything else: a retry must get its first answer also when the job
    has finished, or reached a bound, since. `default_max_replicas` bounds a task without
    maxReplicas; one that has more already may shrink.

    Raises:
        NotNow: the job is finished, suspended or being deleted, or the key was used otherwise.
        OutOfBounds: unknown task, or a bound in the way.
    """
    metadata = job["metadata"]
    annotations = metadata.get("annotations")
    ledger = Ledger.parse((annotations or {}).get(ANNOTATION_IDEMPOTENCY))
    known = ledger.find(key) if key else None
    if known:
        if known.retry_key != key:
            raise NotNow("this Idempotency-Key was used for another request")
        return Replay(known.answer)

    if is_coordinated(job):
        raise OutOfBounds(f"this job has a coordinator; see /{COORDINATED_VERSIONS[0]}/replicas")
    check_active(job)
    spec = with_defaults(job["spec"])
    if spec["suspend"]:
        raise NotNow("the job is suspended, resume it first")
    tasks = spec.get("tasks") or []
    index = _pick(tasks, asked.task)
    task = tasks[index]
    replicas = task["replicas"] + asked.delta
    if asked.delta < 0:
        _check_least(task, replicas)
    else:
        _check_most(task, replicas, default_max_replicas)
        grown = [*tasks[:index], {**task, "replicas": replicas}, *tasks[index + 1 :]]
        _check_job(metadata, {**spec, "tasks": grown}, task["name"], replicas)
    answer = Answer(task["name"], replicas)
    operations = [
        # Setting the version that was read, rather than testing it: a failed test is a 422
        # that reads like a bad request, a wrong version is a 409.
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": metadata["resourceVersion"],
        },
        {"op": "add", "path": f"/spec/tasks/{index}/replicas", "value": replicas},
    ]
    if key:
        if not annotations:
            operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        text = ledger.adding(Entry(key, answer)).dump()
        operations.append({"op": "add", "path": _ANNOTATION_POINTER, "value": text})
    return Write(operations, answer)


def check_active(job: Mapping[str, Any]) -> None:
    """Refuse a job that has ended or is going away.

    Raises:
        NotNow: saying which.
    """
    if job["metadata"].get("deletionTimestamp"):
        raise NotNow("the job is being deleted")
    phase = (job.get("status") or {}).get("phase")
    if phase in [each.value for each in Phase if each.is_finished]:
        raise NotNow(f"the job is finished ({phase})")


def _pick(tasks: Sequence[Mapping[str, Any]], asked: str | None) -> int:
    names = [str(task.get("name")) for task in tasks]
    if asked is not None:
        if asked not in names:
            raise OutOfBounds(f"no such task; the tasks of this job are {', '.join(names)}")
        return names.index(asked)
    for index, task in enumerate(tasks):
        if task["type"] == TaskType.COLLECTOR:
            return index
    if len(tasks) != 1:
        raise OutOfBounds(f"task must be given, one of {', '.join(names) or 'none'}")
    return 0


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


def _check_job(metadata: Mapping[str, Any], spec: Mapping[str, Any], task: str, asked: int) -> None:
    """The bounds of the whole job, by the rules of admission, so that the refusal names them."""
    if len(metadata["name"]) > longest_job_name([(task, asked)]):
        raise OutOfBounds(
            f"task {task} with {asked} replicas has pod names over {MAX_LABEL} characters"
        )
    for error in (*total_errors(spec), *node_list_errors(metadata, spec)):
        raise OutOfBounds(f"with {asked} replicas of task {task} the job {error.message}")
