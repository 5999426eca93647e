"""Failure handling that new jobs with tasks get by default, visible in the object.

| for | default |
|---|---|
| pods that the cluster terminates | not counted |
| a learner of several pods, if not elastic | restarted as a whole: it cannot take a member back |
| a container with a memory limit that was OOM-killed | twice the memory |
| collectors and evaluators | unlimited restarts |

These are not among `with_defaults`, because jobs of earlier versions have none and continue
without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.coordinated import is_coordinated
from di_api.defaults import with_defaults
from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.spec.failure import FailureAction
from di_api.spec.kinds import UNLIMITED
from di_api.spec.task import TaskType
from di_api.validation.failure import memory_limits
from di_api.validation.size import pods_per_replica

_REPLACEABLE: Final = (TaskType.COLLECTOR, TaskType.EVALUATOR)
_OUT_OF_MEMORY: Final = "OOMKilled"
_DISRUPTED: Final = "DisruptionTarget"
_GROWTH: Final = {"factor": 2}

Object = Mapping[str, Any]


def failure_policy_patch(job: Object, old: Object | None) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that add a missing failure policy: to a new job the one above,
    to a replaced job (`old`) its previous one.
    """
    spec = mapping(job.get("spec"))
    if is_coordinated(job) or not isinstance(spec.get("tasks"), list):
        return []
    policy = None
    if spec.get("failurePolicy") is None:
        policy = (
            {"rules": list(_rules(_tasks(job)))}
            if old is None
            else mapping(old.get("spec")).get("failurePolicy")
        )
    return [] if policy is None else [_add("/spec/failurePolicy", policy)]


def limits_patch(job: Object) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that add missing restart limits to the tasks of a new job."""
    if is_coordinated(job):
        return []
    return [
        _add(f"/spec/tasks/{index}/backoffLimit", limit)
        for index, task in enumerate(_tasks(job))
        if task and task.get("backoffLimit") is None and (limit := _limit(task)) is not None
    ]


def _tasks(job: Object) -> list[Object]:
    tasks = items(with_defaults(mapping(job.get("spec"))).get("tasks"))
    return [mapping(task) for task in tasks[:MAX_TASKS]]


def _add(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _limit(task: Object) -> str | None:
    return UNLIMITED if task.get("type") in _REPLACEABLE else None


def _rules(tasks: list[Object]) -> Iterator[dict[str, Any]]:
    yield {"onConditions": [_DISRUPTED], "action": FailureAction.IGNORE.value}
    groups = [_name(task) for task in tasks if _is_group(task)]
    limited = [
        name for task in tasks if memory_limits(task.get("template")) and (name := _name(task))
    ]
    oom = {"onReasons": [_OUT_OF_MEMORY]}
    for action, names in (
        (FailureAction.RESTART_TASK, [name for name in limited if name in groups]),
        (FailureAction.RESTART, [name for name in limited if name not in groups]),
    ):
        if names:
            yield {"tasks": names, **oom, "action": action.value, "growMemory": dict(_GROWTH)}
    if groups:
        yield {"tasks": groups, "action": FailureAction.RESTART_TASK.value}


def _is_group(task: Object) -> bool:
    """Return whether a task is a learner that can get several pods, and takes no member back."""
    # Each replica of several pods is a group of its own, and restarts as a whole by itself.
    if mapping(task.get("processGroup")).get("elastic") is True or pods_per_replica(task) > 1:
        return False
    sizes = (task.get("replicas"), task.get("maxReplicas"))
    return (
        bool(_name(task))
        and task.get("type") == TaskType.LEARNER
        and any(isinstance(size, int) and size > 1 for size in sizes)
    )


def _name(task: Object) -> str:
    name = task.get("name")
    return name if isinstance(name, str) else ""
