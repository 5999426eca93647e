"""How many replicas a task is to have: `8`, `+2`, `-1`, with or without the task before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import items, mapping
from di_api.spec import TaskType


class ScalingError(ValueError):
    """It makes no sense for the job; `assignment` is what would make it so, if anything."""

    def __init__(self, message: str, *, assignment: str = "") -> None:
        self.assignment = assignment
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for.

    Attributes:
        task: None is the collector task, or the only one.
        count: replicas, or how many more or fewer.
        is_relative: which of both.
    """

    task: str | None
    count: int
    is_relative: bool

    @classmethod
    def parse(cls, text: str) -> Wish:
        """Read `8`, `collector=8`, `collector=+2`, `collector=-1`. Raises ScalingError."""
        found = re.fullmatch(r"(?:([a-z0-9-]+)=)?([+-]?)(\d{1,6})", text)
        if found is None:
            raise ScalingError(f"{text!r}: give COUNT, TASK=COUNT, TASK=+MORE or TASK=-FEWER")
        task, sign, digits = found.groups()
        count = int(digits)
        return cls(task=task, count=-count if sign == "-" else count, is_relative=bool(sign))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What becomes of a task."""

    task: str
    before: int
    after: int
    patch: list[dict[str, Any]]


def scaling(job: Mapping[str, Any], wish: Wish) -> Scaling:
    """The JSON patch for a wish; it fails with a conflict unless the job is as it was read.

    The API server would take fewer than `minReplicas`, which di-server and the allocator keep to:
    here it is refused as well. Raises ScalingError.
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
        patch=[
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": f"/spec/tasks/{index}/replicas", "value": after},
        ],
    )


def task_index(tasks: list[Mapping[str, Any]], names: list[str], asked: str | None) -> int:
    """Which of the tasks is meant: None is the collector task, or the only one. Raises
    ScalingError."""
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
