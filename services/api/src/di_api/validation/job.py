"""Whether a DIJob may be created: all reasons against it at once.

The webhook answers with them; the operator, which may meet a job no webhook has seen, refuses
the same ones. This and `update` take any JSON value, never raise, and take linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.validation.companions import companion_errors
from di_api.validation.core_types import template_errors, volumes_errors
from di_api.validation.dispatched import dispatched_without_queue
from di_api.validation.names import name_errors, node_list_errors
from di_api.validation.patched_templates import patched_errors
from di_api.validation.provisioning import nodes_asked_for_twice
from di_api.validation.relations import broken_rules
from di_api.validation.reserved_keys import reserved_keys
from di_api.validation.shape import cut_to_limits, shape_errors
from di_api.validation.templates import coordinated_templates

_MOST_IN_ONE: Final = 64
"""Errors told of one template: one of megabytes may be wrong in every word, and a suggestion for
each takes its time."""


def validate_job(job: Mapping[str, Any]) -> list[FieldError]:
    """The reasons to refuse a new job; empty if there are none.

    Defaults are applied first, so a job the mutating webhook has not seen is judged the same.
    """
    raw = mapping(job).get("spec")
    if not isinstance(raw, Mapping):
        return [FieldError("spec", ABSENT if raw is None else raw, "must be an object")]
    spec, too_long = cut_to_limits(with_defaults(raw))
    metadata = mapping(job.get("metadata"))
    errors = _errors(metadata, spec, too_long)
    # Mostly nothing: templates that are made by patches are judged as those of the tasks are.
    others = patched_errors(spec, errors, lambda changed: _errors(metadata, changed, ()))
    return [*errors, *others]


def _errors(
    metadata: Mapping[str, Any], spec: dict[str, Any], too_long: Iterable[FieldError]
) -> list[FieldError]:
    errors = [
        *name_errors(metadata, spec),
        *too_long,
        *shape_errors(spec),
        *broken_rules(spec),
        *node_list_errors(metadata, spec),
        *reserved_keys(metadata.get("name"), spec),
        *companion_errors(metadata, spec),
        *nodes_asked_for_twice(metadata, spec),
        *dispatched_without_queue(metadata, spec),
    ]
    known = {error.path for error in errors}
    return errors + [error for error in _core_objects(spec) if error.path not in known]


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
    yield from coordinated_templates(spec)
