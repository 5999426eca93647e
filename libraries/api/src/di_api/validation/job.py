"""Validation of a new DIJob: yields the errors one after the other.

The webhook reports the first of them. The operator refuses the same jobs, in case one bypassed the
webhook. This module and `update` accept any JSON value, never raise, and take linear time. Only the
errors that a caller requests are computed: a job can have a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.weight import weight_error
from di_api.validation.companions import companion_errors
from di_api.validation.names import name_errors, node_list_errors
from di_api.validation.relations import broken_rules
from di_api.validation.scheduling.dispatched import dispatched_without_queue
from di_api.validation.scheduling.provisioning import nodes_asked_for_twice
from di_api.validation.shape import cut_to_limits, shape_errors
from di_api.validation.templates.core_types import template_errors, volumes_errors
from di_api.validation.templates.patched import patched_errors
from di_api.validation.templates.reserved_keys import reserved_keys
from di_api.validation.templates.rules import coordinated_templates

MAX_ERRORS: Final = 64
"""Maximum number of errors of one job that are computed."""
_MOST_IN_ONE: Final = 64
"""Maximum number of errors of one template, so that one template with many leaves some for the
others.
"""

Check = Callable[[], None]
"""Called between pieces of work; raises to stop the validation."""


def unbounded() -> None:
    """Do nothing: the validation has no time limit."""


def validate_job(job: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of a new job, the first MAX_ERRORS; empty if it is valid."""
    return [*islice(job_errors(job), MAX_ERRORS)]


def job_errors(job: Mapping[str, Any], check: Check = unbounded) -> Iterator[FieldError]:
    """Yield the errors of a new job.

    Defaults are applied first, so a job that the mutating webhook has not seen gets the same
    result. For a spec that is too large, that is the only error.
    """
    raw = mapping(job).get("spec")
    if not isinstance(raw, Mapping):
        yield FieldError("spec", ABSENT if raw is None else raw, "must be an object")
    elif (error := weight_error(raw)) is not None:
        yield error
    else:
        yield from rule_errors(job, raw, check)


def rule_errors(
    job: Mapping[str, Any],
    raw: Mapping[str, Any],
    check: Check = unbounded,
    *,
    apart_from: Collection[int] = (),
) -> Iterator[FieldError]:
    """Yield the errors by rules, for a spec of any size.

    Args:
        job: the job of the spec.
        raw: the spec.
        check: called between pieces of work.
        apart_from: indexes of tasks whose templates are not checked.
    """
    cut, too_long = cut_to_limits(raw)
    spec = with_defaults(cut)
    metadata = mapping(job.get("metadata"))
    found: list[FieldError] = []
    for error in _errors(metadata, spec, too_long, check, apart_from):
        found.append(error)
        yield error
    # Usually none: patched templates are checked like those of tasks.
    yield from patched_errors(
        spec,
        found,
        lambda changed, others: _errors(metadata, changed, (), check, others),
        apart_from,
    )


def _errors(
    metadata: Mapping[str, Any],
    spec: dict[str, Any],
    too_long: Iterable[FieldError],
    check: Check,
    apart_from: Collection[int],
) -> Iterator[FieldError]:
    known: set[str] = set()
    for errors in (
        name_errors(metadata, spec),
        too_long,
        shape_errors(spec),
        broken_rules(spec, apart_from),
        node_list_errors(metadata, spec),
        reserved_keys(metadata.get("name"), spec, apart_from),
        companion_errors(metadata, spec),
        nodes_asked_for_twice(metadata, spec),
        dispatched_without_queue(metadata, spec),
    ):
        check()
        for error in errors:
            known.add(error.path)
            yield error
    for errors in _core_objects(spec, apart_from):
        check()
        for error in islice(errors, _MOST_IN_ONE):
            if error.path not in known:
                yield error


def _core_objects(
    spec: Mapping[str, Any], apart_from: Collection[int]
) -> Iterator[Iterator[FieldError]]:
    """Yield the errors of the volumes and of the templates, which have Kubernetes' own types."""
    if isinstance(spec.get("volumes"), list):
        yield volumes_errors("spec.volumes", spec["volumes"])
    for path, template in _templates(spec, apart_from):
        if isinstance(template, Mapping):
            yield template_errors(path, template)


def _templates(
    spec: Mapping[str, Any], apart_from: Collection[int]
) -> Iterator[tuple[str, object]]:
    for index, task in enumerate(items(spec.get("tasks"))):
        if index not in apart_from:
            yield f"spec.tasks[{index}].template", mapping(task).get("template")
    yield from coordinated_templates(spec)
