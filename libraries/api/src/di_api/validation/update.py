"""Validation of a changed DIJob: yields the errors one after the other.

Only differences are checked: a job can keep values that it had before a rule was introduced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import is_not
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.difference import first_difference, written_alike
from di_api.field_error import FieldError, items, mapping
from di_api.phase import Phase, has_finished
from di_api.queued import changed_queue
from di_api.spec.bounds import MAX_TASKS
from di_api.spec.weight import weigh, weight_error
from di_api.validation.fixed_fields import changed_fixed_fields, located
from di_api.validation.job import MAX_ERRORS, Check, job_errors, rule_errors, unbounded
from di_api.validation.scheduling.dispatched import changed_while_dispatched

_REPLICA: Final = re.compile(r"spec\.coordinated\.replicas\[(?P<index>[0-9]{1,9})\]")
_MOST_COMPARED: Final = 64
"""Maximum number of values of errors at one path that a new error is compared with."""
_OF_PODS: Final = ("type", "name", "template", "leaderTemplatePatch", "elastic")
"""Fields of a task that affect the validation of its pod templates."""
_MOST_KNOWN: Final = 1000
"""Maximum number of errors of the existing job that are compared."""
_PLACED_PHASES: Final = frozenset(phase.value for phase in Phase if phase.is_placed)


Alike = Callable[[object, object], bool]
"""Whether two JSON values are the same."""


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of a change, the first MAX_ERRORS; empty if it is valid."""
    return [*islice(update_errors(old, new), MAX_ERRORS)]


def update_errors(
    old: Mapping[str, Any], new: Mapping[str, Any], check: Check = unbounded
) -> Iterator[FieldError]:
    """Yield the errors of the change from `old` to `new`.

    Rules that became stricter since the job was created do not bind it. A job with an unchanged
    spec is always accepted. For a changed spec, only errors that the old one did not have are
    reported, so each changed value has to be valid.
    """
    if not has_finished(mapping(old)):
        yield from changed_queue(mapping(old), mapping(new))
    before, after = mapping(old).get("spec"), mapping(new).get("spec")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield from job_errors(new, check)
        return
    yield from _changed_spec(old, new, before, after, check)


def _changed_spec(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    check: Check,
) -> Iterator[FieldError]:
    before, after = with_defaults(before), with_defaults(after)
    # Measured once, and before the comparison: both take long for a large spec.
    is_heavy = weigh(after).is_too_much
    if is_heavy and not weigh(before).is_too_much:
        yield from _too_heavy(after)
        return
    after = _sharing(before, after, _is_written_alike if is_heavy else _is_same)
    if is_heavy and weigh(_differing(before, after)).is_too_much:
        yield from _too_heavy(after)
        return
    check()
    if not _is_changed(before, after):
        return
    if has_finished(old):
        path, value = located("spec", first_difference(before, after) or (), after)
        yield FieldError(path, value, "may not change, the job has finished")
        return
    yield from changed_fixed_fields(before, after, has_started=_has_started(old))
    yield from changed_while_dispatched(old, before, after)
    yield from _new_errors({**old, "spec": before}, {**new, "spec": after}, check)


def _too_heavy(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    error = weight_error(spec)
    if error is not None:
        yield error


def _is_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a spec differs from the one with which it shares its unchanged fields."""
    # Without a step of Python for each field: a spec can have 70,000 unknown ones.
    return any(map(is_not, before.values(), map(after.get, before))) or any(
        map(is_not, after.values(), map(before.get, after))
    )


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec, and of its tasks, that are not shared."""
    old_tasks = items(before.get("tasks"))
    changed = {field: value for field, value in after.items() if value is not before.get(field)}
    tasks = changed.get("tasks")
    if isinstance(tasks, list):
        pairs = zip(old_tasks[:MAX_TASKS], tasks, strict=False)
        seen = [
            {field: value for field, value in new.items() if value is not old.get(field)}
            if isinstance(old, Mapping) and isinstance(new, Mapping)
            else new
            for old, new in pairs
        ]
        changed["tasks"] = seen + tasks[len(seen) :]
    return changed


def _sharing(before: Mapping[str, Any], after: Mapping[str, Any], alike: Alike) -> dict[str, Any]:
    """Return `after` with each unchanged field, also in its first tasks, taken from `before`:
    comparing them again costs nothing, and unchanged parts are not validated.
    """
    old_tasks, tasks = items(before.get("tasks")), items(after.get("tasks"))
    shared = [
        _shared_fields(old, new, alike)
        if isinstance(old, Mapping) and isinstance(new, Mapping)
        else new
        for old, new in zip(old_tasks[:MAX_TASKS], tasks, strict=False)
    ]
    result = _shared_fields(before, after, alike)
    if shared and result.get("tasks") is not before.get("tasks"):
        result["tasks"] = shared + tasks[len(shared) :]
    return result


def _shared_fields(
    before: Mapping[str, Any], after: Mapping[str, Any], alike: Alike
) -> dict[str, Any]:
    return {
        field: before[field] if field in before and alike(before[field], value) else value
        for field, value in after.items()
    }


def _is_same(one: object, other: object) -> bool:
    return first_difference(one, other) is None


def _is_written_alike(one: object, other: object) -> bool:
    """Compare values of large specs: in a hundredth of a second, and with keys in another order
    they differ. The API server always sorts them.
    """
    if isinstance(one, dict | list):
        return written_alike(one, other)
    return _is_same(one, other)


def _same_pods(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[int]:
    """Return the indexes of the tasks whose templates, patches and related fields are unchanged."""
    if before.get("volumes") is not after.get("volumes"):
        return set()
    # Tasks beyond the bound of their list are not checked.
    old_tasks, new_tasks = items(before.get("tasks")), items(after.get("tasks"))
    tasks = zip(old_tasks[:MAX_TASKS], new_tasks[:MAX_TASKS], strict=False)
    return {
        index
        for index, (one, other) in enumerate(tasks)
        if all(mapping(one).get(field) is mapping(other).get(field) for field in _OF_PODS)
    }


def _new_errors(
    old: Mapping[str, Any], new: Mapping[str, Any], check: Check
) -> Iterator[FieldError]:
    """Yield the errors of `new` that `old` does not have at the same place with the same value.

    For a size beyond its bound, only if it exceeds the bound by more than before.
    """
    same = _same_pods(old["spec"], new["spec"])
    known: _Known | None = None
    for number, error in enumerate(rule_errors(new, new["spec"], check, apart_from=same)):
        if number == _MOST_KNOWN:
            message = f"is wrong in more than {_MOST_KNOWN} places, too many to compare with before"
            yield FieldError("spec", new["spec"], message)
            return
        if known is None:
            errors = rule_errors(old, old["spec"], check, apart_from=same)
            known = _Known(old, islice(errors, _MOST_KNOWN))
        if not known.has(error, new):
            yield error


class _Known:
    """The errors of the existing job."""

    def __init__(self, job: Mapping[str, Any], errors: Iterable[FieldError]) -> None:
        self._sizes: dict[str, int] = {}
        self._values: dict[tuple[str, str], list[object]] = {}
        for error in errors:
            if error.passes is not None:
                bound, size = error.passes
                self._sizes[bound] = size
                continue
            values = self._values.setdefault(_place(error, job), [])
            # Paths are cut, so thousands can be equal; comparing all of them would take too long.
            if len(values) < _MOST_COMPARED:
                values.append(error.value)

    def has(self, error: FieldError, job: Mapping[str, Any]) -> bool:
        """Return whether an error of `job`, the changed one, existed before."""
        if error.passes is not None:
            bound, size = error.passes
            return size <= self._sizes.get(bound, 0)
        before = self._values.get(_place(error, job), ())
        return any(first_difference(value, error.value) is None for value in before)


def _place(error: FieldError, job: Mapping[str, Any]) -> tuple[str, str]:
    """Return path and message of an error, independent of other replicas that a coordinator has
    released.
    """
    found = _REPLICA.match(error.path)
    if found is None:
        return error.path, error.message
    replicas = items(mapping(mapping(job.get("spec")).get("coordinated")).get("replicas"))
    index = int(found["index"])
    name = mapping(replicas[index] if index < len(replicas) else None).get("name")
    return f"{name}{error.path[found.end() :]}", error.message


def _has_started(job: Mapping[str, Any]) -> bool:
    """Return whether a job has been in a phase with pods: each such phase leaves a condition."""
    status = mapping(job.get("status"))
    conditions = items(status.get("conditions"))
    found = (status.get("phase"), *(mapping(each).get("type") for each in conditions))
    return any(isinstance(each, str) and each in _PLACED_PHASES for each in found)
