"""Whether a DIJob may be created or changed: all reasons against it at once.

The webhook answers with them; the operator, which may meet a job no webhook has seen, refuses
the same ones. Both functions take any JSON value, never raise, and take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.difference import first_difference
from di_api.field_error import ABSENT, FieldError, InvalidSpec, child, items, mapping
from di_api.job_names import name_errors, node_list_errors
from di_api.model import Phase
from di_api.reserved import reserved_keys
from di_api.rules import broken_rules
from di_api.schema import cut_to_limits, shape_errors
from di_api.template_schema import template_errors, volumes_errors

__all__ = ["FieldError", "InvalidSpec", "validate_job", "validate_update"]

_LONGEST_PATH: Final = 500
_REPLICA: Final = re.compile(r"spec\.coordinated\.replicas\[(?P<index>[0-9]{1,9})\]")
# A template of megabytes may be wrong in every word, and a suggestion for each takes its time.
_MOST_IN_ONE: Final = 64
_CHANGEABLE: Final = frozenset(
    {
        "priority",
        "cleanPodPolicy",
        "backoffLimit",
        "suspend",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    }
)
_CHANGEABLE_IN_COORDINATED: Final = frozenset({"replicas"})
_CHANGEABLE_IN_TASK: Final = frozenset({"replicas", "minReplicas", "maxReplicas"})
_FINISHED_PHASES: Final = frozenset(phase.value for phase in Phase if phase.is_finished)


def validate_job(job: Mapping[str, Any]) -> list[FieldError]:
    """The reasons to refuse a new job; empty if there are none.

    Defaults are applied first, so a job the mutating webhook has not seen is judged the same.
    """
    raw = mapping(job).get("spec")
    if not isinstance(raw, Mapping):
        return [FieldError("spec", ABSENT if raw is None else raw, "must be an object")]
    spec, too_long = cut_to_limits(with_defaults(raw))
    metadata = mapping(job.get("metadata"))
    errors = [
        *name_errors(metadata, spec),
        *too_long,
        *shape_errors(spec),
        *broken_rules(spec),
        *node_list_errors(metadata, spec),
        *reserved_keys(metadata.get("name"), spec),
    ]
    known = {error.path for error in errors}
    return errors + [error for error in _core_objects(spec) if error.path not in known]


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    """The reasons to refuse the change from `old` to `new`; empty if there are none.

    Rules that became stricter since the job was made do not bind it: a job whose spec does not
    change is always let through, and of one that does change only what is wrong with the new spec
    and was not with the old one is a reason. So a value that is changed has to be right.
    """
    before, after = mapping(old).get("spec"), mapping(new).get("spec")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return validate_job(new)
    before, after = with_defaults(before), with_defaults(after)
    changed = first_difference(before, after)
    if changed is None:
        return []
    if _is_finished(old):
        path, value = _located("spec", changed, after)
        return [FieldError(path, value, "may not change, the job has finished")]
    return [*_fixed_fields(before, after), *_new_errors(old, new)]


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
        if len(values) < _MOST_IN_ONE:
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


def _core_objects(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong in the volumes and the templates, which are Kubernetes' own types."""
    if isinstance(spec.get("volumes"), list):
        yield from islice(volumes_errors("spec.volumes", spec["volumes"]), _MOST_IN_ONE)
    for path, template in _templates(spec):
        if isinstance(template, Mapping):
            yield from islice(template_errors(path, template), _MOST_IN_ONE)


def _templates(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for index, task in enumerate(items(spec.get("tasks"))):
        yield f"spec.tasks[{index}].template", mapping(task).get("template")
    coordinated = mapping(spec.get("coordinated"))
    for role in ("coordinator", "collector", "learner"):
        path = f"spec.coordinated.{role}.template"
        yield path, mapping(coordinated.get(role)).get("template")


def _is_finished(job: Mapping[str, Any]) -> bool:
    phase = mapping(job.get("status")).get("phase")
    return isinstance(phase, str) and phase in _FINISHED_PHASES


def _fixed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldError]:
    """Fields that changed although running pods were made from them."""
    one, other = before.get("coordinated"), after.get("coordinated")
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        yield from _fixed("spec.coordinated", one, other, _CHANGEABLE_IN_COORDINATED)
        yield from _fixed("spec", before, after, _CHANGEABLE | {"coordinated"})
        return
    yield from _fixed("spec", before, after, _CHANGEABLE | {"tasks"})
    old_tasks, new_tasks = items(before.get("tasks")), items(after.get("tasks"))
    if len(old_tasks) != len(new_tasks):
        yield FieldError(
            "spec.tasks",
            after.get("tasks", ABSENT),
            f"tasks may not be added or removed while the job exists; it has {len(old_tasks)}",
        )
        return
    for index, (old_task, new_task) in enumerate(zip(old_tasks, new_tasks, strict=True)):
        yield from _fixed(
            f"spec.tasks[{index}]", mapping(old_task), mapping(new_task), _CHANGEABLE_IN_TASK
        )


def _fixed(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], changeable: frozenset[str]
) -> Iterator[FieldError]:
    for field in sorted({*before, *after} - changeable):
        changed = first_difference(before.get(field), after.get(field))
        if changed is not None:
            where, value = _located(child(path, field), changed, after.get(field, ABSENT))
            yield FieldError(
                where, value, "may not change while the job exists; delete it and create it anew"
            )


def _located(path: str, below: tuple[str | int, ...], value: object) -> tuple[str, object]:
    """Path text and value of what lies at `below` within `value`."""
    for key in below:
        # Building the text of a path thousands deep would be quadratic, and nobody reads it.
        if len(path) > _LONGEST_PATH:
            return f"{path}...", value
        path = child(path, key)
        if isinstance(key, int):
            found = items(value)
            value = found[key] if key < len(found) else ABSENT
        else:
            value = mapping(value).get(key, ABSENT)
    return path, value
