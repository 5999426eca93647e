"""Scale arguments: `8`, `+2`, `-1`, with or without the task before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import items, mapping
from di_api.spec import TaskType
from di_api.validation import scaling_warning


class ScalingError(ValueError):
    """The argument is invalid for the job; `assignment` would make it valid, if there is one."""

    def __init__(self, message: str, *, assignment: str = "") -> None:
        self.assignment = assignment
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A parsed scale argument.

    Attributes:
        task: None is the collector task, or the only one.
        count: number of replicas, or the change.
        is_relative: whether `count` is a change.
    """

    task: str | None
    count: int
    is_relative: bool

    @classmethod
    def parse(cls, text: str) -> Wish:
        """Parse `8`, `collector=8`, `collector=+2`, `collector=-1`. Raises ScalingError."""
        found = re.fullmatch(r"(?:([a-z0-9-]+)=)?([+-]?)(\d{1,6})", text)
        if found is None:
            raise ScalingError(f"{text!r}: give COUNT, TASK=COUNT, TASK=+MORE or TASK=-FEWER")
        task, sign, digits = found.groups()
        count = int(digits)
        return cls(task=task, count=-count if sign == "-" else count, is_relative=bool(sign))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The change of a task."""

    task: str
    before: int
    after: int
    patch: list[dict[str, Any]]
    warning: str | None
    """What the change costs beside the pods that it adds or removes."""


def scaling(job: Mapping[str, Any], wish: Wish) -> Scaling:
    """Return the change for a scale argument; its JSON patch fails with a conflict if the job has
    changed since it was read.

    The API server would accept fewer than `minReplicas`, which di-server and the allocator refuse:
    here it is refused too. Raises ScalingError.
    """
    tasks = [mapping(task) for task in items(mapping(job.get("spec")).get("tasks"))]
    names = [str(task.get("name") or task.get("type")) for task in tasks]
    index = task_index(tasks, names, wish.task)
    task, name = tasks[index], names[index]
    before = int(task.get("replicas", 1))
    after = before + wish.count if wish.is_relative else wish.count
    low, high = task.get("minReplicas"), task.get("maxReplicas")
    least = max(1, low if isinstance(low, int) else 1)
    if after < least:
        raise ScalingError(f"task {name} has at least {least} replicas; it would have {after}")
    if isinstance(high, int) and after > high:
        raise ScalingError(
            f"task {name} has at most {high} replicas (maxReplicas); it would have {after}",
            assignment=f"tasks.{name}.maxReplicas={after}",
        )
    version = mapping(job.get("metadata")).get("resourceVersion")
    return Scaling(
        task=name,
        before=before,
        after=after,
        warning=scaling_warning(mapping(job.get("spec")), task) if after != before else None,
        patch=[
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": f"/spec/tasks/{index}/replicas", "value": after},
        ],
    )


def task_index(tasks: list[Mapping[str, Any]], names: list[str], asked: str | None) -> int:
    """Return the index of the task; None is the collector task, or the only one. Raises
    ScalingError.
    """
    if asked is not None:
        if asked not in names:
            known = ", ".join(names) or "none"
            raise ScalingError(f"the job has no task {asked}; its tasks are {known}")
        return names.index(asked)
    collectors = [i for i, task in enumerate(tasks) if task.get("type") == TaskType.COLLECTOR]
    among = collectors or [*range(len(tasks))]
    if len(among) != 1:
        choice = ", ".join(names[index] for index in among) or "none"
        raise ScalingError(f"which task: {choice}? give TASK=COUNT")
    return among[0]
