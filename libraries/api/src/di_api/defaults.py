"""The defaults of a DIJob spec: one rule for the webhook, the operator and the server.

They are declared in `di_api.spec`. The CRD carries the same values (all but a task's name, which
depends on its type), so a job comes out the same with the webhook away. A field that is null
counts as missing, as it does for the API server. Input of any shape is taken; what is not
understood, or is past the bound of its list, is left alone for validation to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.coordinated import is_coordinated
from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.spec.declared import fields_of
from di_api.spec.job import CleanPodPolicy, JobSpec, SuccessPolicy
from di_api.spec.kinds import Kind, Struct, Structs
from di_api.spec.task import Task, TaskType

_OLD_SPELLINGS: Final[Mapping[str, str]] = {"ALL": CleanPodPolicy.ALL.value}
"""Of cleanPodPolicy, in manifests of coordinated jobs."""
_NAMED_TYPES: Final = frozenset(kind.value for kind in TaskType if kind is not TaskType.NONE)


def with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A new spec with the missing fields filled in; idempotent.

    Only the objects that gain a field are copied; the rest (pod templates) is shared with
    `spec` and must not be modified through the result.
    """
    result = {**spec, **_missing_beside_tasks(spec)}
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        result["tasks"] = [
            {**task, **_missing_in_task(task)} if isinstance(task, Mapping) else task
            for task in tasks[:MAX_TASKS]
        ] + tasks[MAX_TASKS:]
    return result


def without_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A new spec without what `with_defaults` fills in, and without what is null.

    So it stays as it is when a later version has further defaults, which the API server shows of
    jobs that are older.
    """
    result = _told(JobSpec, {field: value for field, value in spec.items() if field != "tasks"})
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        tasks = [_told_of_task(each) if isinstance(each, Mapping) else each for each in tasks]
    return result if tasks is None else {**result, "tasks": tasks}


def defaults_patch(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The RFC 6902 operations that turn a job's spec into `with_defaults` of it.

    Empty when nothing is missing, so applying the patch twice changes nothing.
    """
    spec = job.get("spec") if isinstance(job, Mapping) else None
    if not isinstance(spec, Mapping):
        return []
    # "add" replaces a value that is there.
    return [
        {"op": "add", "path": path, "value": value} for path, value in _missing_by_pointer(spec)
    ]


def success_policy_patch(
    job: Mapping[str, Any], old: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The RFC 6902 operations that give a job the success policy it lacks: a new one with
    learners that of all its learner tasks, and one that is replaced (`old`) the one it had.

    No default of `with_defaults`: jobs of earlier versions, which have none, go on without.
    """
    spec = mapping(job.get("spec"))
    if spec.get("successPolicy") is not None or is_coordinated(job):
        return []
    if old is not None:
        policy = mapping(old.get("spec")).get("successPolicy")
    else:
        tasks = map(mapping, items(with_defaults(spec).get("tasks"))[:MAX_TASKS])
        learners = [task.get("name") for task in tasks if task.get("type") == TaskType.LEARNER]
        policy = {"tasks": learners, **_missing(SuccessPolicy, {})} if learners else None
    if policy is None:
        return []
    return [{"op": "add", "path": "/spec/successPolicy", "value": policy}]


def _missing_by_pointer(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for field, value in _missing_beside_tasks(spec).items():
        yield f"/spec/{field}", value
    tasks = spec.get("tasks")
    for index, task in enumerate(items(tasks)[:MAX_TASKS]):
        if isinstance(task, Mapping):
            for field, value in _missing_in_task(task).items():
                yield f"/spec/tasks/{index}/{field}", value


def _missing_beside_tasks(spec: Mapping[str, Any]) -> dict[str, Any]:
    # Of a task one default depends on its type, and each has a place of its own in a patch.
    others = {field: value for field, value in spec.items() if field != "tasks"}
    return {**_missing(JobSpec, others), **_respelt(spec)}


def _respelt(spec: Mapping[str, Any]) -> dict[str, Any]:
    policy = spec.get("cleanPodPolicy")
    if not (is_coordinated({"spec": spec}) and isinstance(policy, str)):
        return {}
    # Go programs write an empty string for what is missing.
    known = {**_OLD_SPELLINGS, "": CleanPodPolicy.RUNNING.value}
    return {"cleanPodPolicy": known[policy]} if policy in known else {}


def _missing_in_task(task: Mapping[str, Any]) -> dict[str, Any]:
    missing: dict[str, Any] = {}
    kind = task.get("type")
    if task.get("name") is None and isinstance(kind, str) and kind in _NAMED_TYPES:
        missing["name"] = kind
    return {**missing, **_missing(Task, task)}


def _missing(owner: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that `owner` declares of the fields that `raw` lacks, and those of its objects
    of ours and lists of them that lack some, whole."""
    missing: dict[str, Any] = {}
    for name, field in fields_of(owner).items():
        value = raw.get(name)
        if value is None:
            if field.default is not None:
                missing[name] = field.default
        elif isinstance(field.kind, Struct | Structs):
            filled = _filled(field.kind, value)
            if filled is not value:
                missing[name] = filled
    return missing


def _filled(kind: Struct | Structs, value: Any) -> Any:
    """An object of ours, or a list of them, with what it lacks; itself if it lacks nothing."""
    if isinstance(kind, Struct) and isinstance(value, Mapping):
        inner = _missing(kind.of, value)
        return {**value, **inner} if inner else value
    if isinstance(kind, Structs) and isinstance(value, list):
        item = Struct(kind.of)
        filled = [_filled(item, each) for each in value[: kind.most]]
        is_same = all(one is other for one, other in zip(filled, value, strict=False))
        return value if is_same else filled + value[kind.most :]
    return value


def _told_of_task(task: Mapping[str, Any]) -> dict[str, Any]:
    told = _told(Task, task)
    named = {field: value for field, value in task.items() if field != "name"}
    if told.get("name") is not None and _missing_in_task(named).get("name") == told["name"]:
        del told["name"]
    return told


def _told(owner: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Of an object that `owner` declares what is not a default, those in it and in lists of them
    likewise."""
    fields = fields_of(owner)
    told: dict[str, Any] = {}
    for name, value in raw.items():
        field = fields.get(name)
        if value is None or (field is not None and value == field.default):
            continue
        told[name] = value if field is None else _emptied(field.kind, value)
    return told


def _emptied(kind: Kind, value: Any) -> Any:
    if isinstance(kind, Struct) and isinstance(value, Mapping):
        return _told(kind.of, value)
    if isinstance(kind, Structs) and isinstance(value, list):
        return [_emptied(Struct(kind.of), each) for each in value]
    return value
