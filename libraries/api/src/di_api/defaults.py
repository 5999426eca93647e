"""Filling in the defaults of a DIJob spec, by one rule for webhook, operator and server.

The defaults are those of the dataclass attributes in `di_api.spec`. The CRD has the same values
(except a task's name, which depends on its type), so a job gets the same defaults while the webhook
is unreachable. A null field counts as absent, as it does for the API server. Input of any shape is
accepted; parts that are invalid, or beyond the bound of their list, stay unchanged for validation
to refuse.
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
from di_api.spec.task import CompletionAction, Task, TaskType

_OLD_SPELLINGS: Final[Mapping[str, str]] = {"ALL": CleanPodPolicy.ALL.value}
"""Older spellings of cleanPodPolicy, in manifests of coordinated jobs."""
_NAMED_TYPES: Final = frozenset(kind.value for kind in TaskType if kind is not TaskType.NONE)


def with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new spec with the missing fields filled in; idempotent.

    Only objects that gain a field are copied; the rest (pod templates) is shared with `spec` and
    must not be modified through the result.
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
    """Return a new spec without the defaults of `with_defaults`, and without null fields.

    So the result stays the same when a later version adds defaults, which the API server fills in
    for older jobs too.
    """
    result = _told(JobSpec, {field: value for field, value in spec.items() if field != "tasks"})
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        tasks = [_told_of_task(each) if isinstance(each, Mapping) else each for each in tasks]
    return result if tasks is None else {**result, "tasks": tasks}


def defaults_patch(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that turn a job's spec into `with_defaults` of it.

    Empty when nothing is missing, so applying the patch twice changes nothing.
    """
    spec = job.get("spec") if isinstance(job, Mapping) else None
    if not isinstance(spec, Mapping):
        return []
    # "add" replaces an existing value.
    return [
        {"op": "add", "path": path, "value": value} for path, value in _missing_by_pointer(spec)
    ]


def success_policy_patch(
    job: Mapping[str, Any], old: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that add a missing success policy.

    That of a new job names all learner tasks, except those with another action on their
    completion. A replaced job (`old`) gets its previous one.

    It is not among `with_defaults`, because jobs of earlier versions have none and continue
    without.
    """
    spec = mapping(job.get("spec"))
    if spec.get("successPolicy") is not None or is_coordinated(job):
        return []
    if old is not None:
        policy = mapping(old.get("spec")).get("successPolicy")
    else:
        tasks = map(mapping, items(with_defaults(spec).get("tasks"))[:MAX_TASKS])
        learners = [
            task.get("name")
            for task in tasks
            if task.get("type") == TaskType.LEARNER
            and task.get("onCompletion") in (None, CompletionAction.COMPLETE_JOB)
        ]
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
    # One default of a task depends on its type, and each task has a path of its own in a patch.
    others = {field: value for field, value in spec.items() if field != "tasks"}
    return {**_missing(JobSpec, others), **_respelt(spec)}


def _respelt(spec: Mapping[str, Any]) -> dict[str, Any]:
    policy = spec.get("cleanPodPolicy")
    if not (is_coordinated({"spec": spec}) and isinstance(policy, str)):
        return {}
    # Go programs write an empty string for an absent value.
    known = {**_OLD_SPELLINGS, "": CleanPodPolicy.RUNNING.value}
    return {"cleanPodPolicy": known[policy]} if policy in known else {}


def _missing_in_task(task: Mapping[str, Any]) -> dict[str, Any]:
    missing: dict[str, Any] = {}
    kind = task.get("type")
    if task.get("name") is None and isinstance(kind, str) and kind in _NAMED_TYPES:
        missing["name"] = kind
    return {**missing, **_missing(Task, task)}


def _missing(owner: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared defaults for fields that `raw` lacks, and whole objects and lists of ours
    in which some are filled in.
    """
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
    """Return an object of ours, or a list of them, with defaults; the same object if nothing is
    missing.
    """
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
    """Return the fields of an object that differ from their defaults, and likewise in nested
    objects and lists.
    """
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
