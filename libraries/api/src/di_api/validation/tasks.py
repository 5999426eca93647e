"""Rules about the tasks of a spec together, and about the fields of one task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from di_api.field_error import FieldError, child, items, mapping

Tasks: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""Raw tasks, each with its path."""


def reused_task_names(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for repeated task names, also by the default, which is the type."""
    first: dict[str, str] = {}
    for path, task in tasks:
        name = task.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            more = "; of several tasks of a type at most one goes without a name of its own"
            why = f"is the name of {first[name]} already{more if name == task.get('type') else ''}"
            yield FieldError(f"{path}.name", name, why)
        first.setdefault(name, path)


def replicas_out_of_bounds(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error unless minReplicas <= replicas <= maxReplicas; an absent bound is ignored."""
    replicas = _whole(task.get("replicas"))
    lowest, highest = _whole(task.get("minReplicas")), _whole(task.get("maxReplicas"))
    if lowest is not None and highest is not None and lowest > highest:
        yield FieldError(
            f"{path}.minReplicas", lowest, f"must be at most maxReplicas, {_number(highest)}"
        )
    elif replicas is not None and lowest is not None and replicas < lowest:
        yield FieldError(
            f"{path}.replicas", replicas, f"must be at least minReplicas, {_number(lowest)}"
        )
    elif replicas is not None and highest is not None and replicas > highest:
        yield FieldError(
            f"{path}.replicas", replicas, f"must be at most maxReplicas, {_number(highest)}"
        )


def wrong_dependencies(path: str, task: Mapping[str, Any], known: set[str]) -> Iterator[FieldError]:
    """Yield the errors for names in `dependsOn` that no other task has, or that are repeated."""
    own = task.get("name")
    but = {own: "a task cannot wait for itself"} if isinstance(own, str) else {}
    yield from wrong_names(f"{path}.dependsOn", task.get("dependsOn"), known, but=but)


def task_names(tasks: Tasks) -> set[str]:
    """Return the names of the tasks."""
    return {name for _, task in tasks if isinstance(name := task.get("name"), str)}


def wrong_names(
    path: str, names: object, known: set[str], *, but: Mapping[str, str] = {}
) -> Iterator[FieldError]:
    """Yield the errors for unknown and repeated names in a list; `but` has names that are refused
    for a reason of their own.
    """
    seen: set[str] = set()
    for index, name in enumerate(items(names)):
        where = f"{path}[{index}]"
        if not isinstance(name, str):
            continue
        if name in but:
            yield FieldError(where, name, but[name])
        elif name not in known:
            yield FieldError(where, name, "no task of this job has that name")
        elif name in seen:
            yield FieldError(where, name, "is listed already")
        seen.add(name)


def circular_tasks(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the error for tasks that depend on each other in a circle and would never start.

    Tasks without dependencies are removed until none is left; the rest is on a circle or waits for
    one. A walk from any of them along its first remaining dependency ends on a circle.
    """
    waits: dict[str, dict[str, None]] = {}
    where: dict[str, str] = {}
    for path, task in tasks:
        name = task.get("name")
        if isinstance(name, str) and name not in waits:
            where[name] = path
            # A dict as an ordered set: the message must not differ between runs.
            waits[name] = {
                d: None for d in items(task.get("dependsOn")) if isinstance(d, str) and d != name
            }
    waiters: dict[str, list[str]] = {name: [] for name in waits}
    missing = dict.fromkeys(waits, 0)
    for name, wanted in waits.items():
        for dependency in wanted:
            if dependency in waits:
                waiters[dependency].append(name)
                missing[name] += 1
    free = [name for name, count in missing.items() if count == 0]
    while free:
        done = free.pop()
        del missing[done]
        for name in waiters[done]:
            missing[name] -= 1
            if missing[name] == 0:
                free.append(name)
    if not missing:
        return
    walk: dict[str, int] = {}
    name = next(iter(missing))
    while name not in walk:
        walk[name] = len(walk)
        name = next(dependency for dependency in waits[name] if dependency in missing)
    circle = [*list(walk)[walk[name] :], name]
    yield FieldError(
        f"{where[name]}.dependsOn",
        mapping(dict(tasks)[where[name]]).get("dependsOn"),
        f"tasks wait for each other in a circle: {' -> '.join(child('', n) for n in circle)}",
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(value) if abs(value) < 2**63 else "a huge number"
