"""Changes of immutable fields, from which running pods were created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.difference import first_difference
from di_api.field_error import ABSENT, FieldError, child, items, mapping
from di_api.spec.declared import fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import Struct
from di_api.spec.task import Task

_LONGEST_PATH: Final = 500
_OF_PODS: Final = frozenset(
    name for name, field in fields_of(Task).items() if field.declared.may_change_before_start
)
_FIXED: Final = "may not change while the job exists; delete it and create it again"
_OR_SUSPEND: Final = ", or suspend it first: it has not started"
_NAMED: Final = 8
"""Maximum number of task names in a refusal."""
_LONGEST_NAME: Final = 63


def changed_fixed_fields(
    before: Mapping[str, Any], after: Mapping[str, Any], *, has_started: bool = True
) -> Iterator[FieldError]:
    """Yield the errors for changed fields from which running pods were created.

    Args:
        before: the existing spec, with defaults.
        after: the new spec, with defaults.
        has_started: whether pods were created from the templates of its tasks. If not, these can
            change while the job is suspended, when no pods are created.
    """
    if _are_objects(before.get("coordinated"), after.get("coordinated")):
        yield from _fixed("spec", JobSpec, before, after)
        return
    yield from _fixed("spec", JobSpec, before, after, apart_from=("tasks",))
    old_tasks, new_tasks = items(before.get("tasks")), items(after.get("tasks"))
    if len(old_tasks) != len(new_tasks):
        yield FieldError(
            "spec.tasks",
            after.get("tasks", ABSENT),
            f"tasks may not be added or removed while the job exists; it has {_listed(old_tasks)}",
        )
        return
    is_open = not has_started and before.get("suspend") is True
    free = _OF_PODS if is_open else frozenset()
    for index, (old_task, new_task) in enumerate(zip(old_tasks, new_tasks, strict=True)):
        if old_task is new_task:
            continue
        where = f"spec.tasks[{index}]"
        for error in _fixed(where, Task, mapping(old_task), mapping(new_task), apart_from=free):
            is_of_pods = any(error.path.startswith(f"{where}.{field}") for field in _OF_PODS)
            way = "" if has_started or not is_of_pods else _OR_SUSPEND
            yield replace(error, message=f"{error.message}{way}")


def _listed(tasks: list[Any]) -> str:
    """Return the number of tasks, and the names of the first."""
    names = [str(task.get("name"))[:_LONGEST_NAME] for task in map(mapping, tasks[:_NAMED])]
    more = ", ..." if len(tasks) > _NAMED else ""
    return f"{len(tasks)}: {', '.join(names)}{more}" if tasks else "none"


def _fixed(
    path: str,
    owner: type,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    apart_from: Collection[str] = (),
) -> Iterator[FieldError]:
    declared = fields_of(owner)
    # Shared values are left out before all names are sorted: a spec can have thousands.
    own = {name for name, value in before.items() if value is not after.get(name)}
    others = {name for name, value in after.items() if value is not before.get(name)}
    for name in sorted((own | others).difference(apart_from)):
        field, one, other = declared.get(name), before.get(name), after.get(name)
        if field is not None and field.declared.may_change:
            continue
        if field is not None and not field.is_fixed and _are_objects(one, other):
            assert isinstance(field.kind, Struct)
            yield from _fixed(child(path, name), field.kind.of, mapping(one), mapping(other))
            continue
        changed = first_difference(one, other)
        if changed is not None:
            where, value = located(child(path, name), changed, after.get(name, ABSENT))
            yield FieldError(where, value, _FIXED)


def _are_objects(one: object, other: object) -> bool:
    return isinstance(one, Mapping) and isinstance(other, Mapping)


def located(path: str, below: tuple[str | int, ...], value: object) -> tuple[str, object]:
    """Return path text and value of the part at `below` within `value`."""
    for key in below:
        # The text of a path thousands of levels deep would take quadratic time, and is of no use.
        if len(path) > _LONGEST_PATH:
            return f"{path}...", value
        path = child(path, key)
        if isinstance(key, int):
            found = items(value)
            value = found[key] if key < len(found) else ABSENT
        else:
            value = mapping(value).get(key, ABSENT)
    return path, value
