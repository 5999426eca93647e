"""Whether a DIJob may be changed so: all reasons against it at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.difference import first_difference
from di_api.field_error import FieldError, items, mapping
from di_api.phase import Phase
from di_api.queued import changed_queue
from di_api.validation.dispatched import changed_while_dispatched
from di_api.validation.fixed_fields import changed_fixed_fields, located
from di_api.validation.job import validate_job

_REPLICA: Final = re.compile(r"spec\.coordinated\.replicas\[(?P<index>[0-9]{1,9})\]")
_MOST_COMPARED: Final = 64
"""Values of errors at one path that a new one is compared with."""
_FINISHED_PHASES: Final = frozenset(phase.value for phase in Phase if phase.is_finished)


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    """The reasons to refuse the change from `old` to `new`; empty if there are none.

    Rules that became stricter since the job was made do not bind it: a job whose spec does not
    change is always let through, and of one that does change only what is wrong with the new spec
    and was not with the old one is a reason. So a value that is changed has to be right.
    """
    changed = [] if _is_finished(mapping(old)) else [*changed_queue(mapping(old), mapping(new))]
    return [*changed, *_changed_spec(old, new)]


def _changed_spec(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    before, after = mapping(old).get("spec"), mapping(new).get("spec")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return validate_job(new)
    before, after = with_defaults(before), with_defaults(after)
    changed = first_difference(before, after)
    if changed is None:
        return []
    if _is_finished(old):
        path, value = located("spec", changed, after)
        return [FieldError(path, value, "may not change, the job has finished")]
    return [
        *changed_fixed_fields(before, after),
        *changed_while_dispatched(old, before, after),
        *_new_errors(old, new),
    ]


def _new_errors(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of `new` that are not at the same place, of the same value, in `old`.

    Of a size that passes its bound, those that pass it by more than before.
    """
    errors = validate_job(new)
    sizes: dict[str, int] = {}
    known: dict[tuple[str, str], list[object]] = {}
    for error in validate_job(old) if errors else ():
        if error.passes is not None:
            bound, size = error.passes
            sizes[bound] = size
            continue
        values = known.setdefault(_place(error, old), [])
        # Paths are cut, so thousands may be alike; comparing each with each takes its time.
        if len(values) < _MOST_COMPARED:
            values.append(error.value)
    for error in errors:
        if error.passes is not None:
            bound, size = error.passes
            if size > sizes.get(bound, 0):
                yield error
            continue
        before = known.get(_place(error, new), ())
        if all(first_difference(value, error.value) is not None for value in before):
            yield error


def _place(error: FieldError, job: Mapping[str, Any]) -> tuple[str, str]:
    """Where an error is and what it says, whatever other replicas a coordinator has given up."""
    found = _REPLICA.match(error.path)
    if found is None:
        return error.path, error.message
    replicas = items(mapping(mapping(job.get("spec")).get("coordinated")).get("replicas"))
    index = int(found["index"])
    name = mapping(replicas[index] if index < len(replicas) else None).get("name")
    return f"{name}{error.path[found.end() :]}", error.message


def _is_finished(job: Mapping[str, Any]) -> bool:
    phase = mapping(job.get("status")).get("phase")
    return isinstance(phase, str) and phase in _FINISHED_PHASES
