"""Reserved label and annotation keys in pod templates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.field_error import FieldError, child, items, mapping
from di_api.validation.templates.rules import coordinated_templates

_BY_POD: Final = frozenset(
    {
        names.LABEL_POD,
        names.ANNOTATION_REPLICAS,
        names.ANNOTATION_RANK,
        names.ANNOTATION_TASK_RANK,
        names.ANNOTATION_NODE,
    }
)
"""Keys whose value differs from pod to pod, so that no template value can be correct."""


def reserved_keys(
    job_name: object, spec: Mapping[str, Any], apart_from: Collection[int] = ()
) -> Iterator[FieldError]:
    """Yield the errors for reserved keys in the templates of a raw spec with another value than the
    operator's.

    `apart_from` are indexes of tasks whose templates are not checked.

    A key with the operator's value is harmless (manifests copied from running pods have them). With
    another value the Service or the operator would lose the pod.
    """
    common = {names.LABEL_JOB: job_name, names.LABEL_OPERATOR: names.OPERATOR_NAME}
    for index, raw in enumerate(items(spec.get("tasks"))):
        if index in apart_from:
            continue
        task = mapping(raw)
        written = {
            **common,
            names.LABEL_TASK_TYPE: task.get("type"),
            names.LABEL_TASK_NAME: task.get("name"),
        }
        yield from _in_template(f"spec.tasks[{index}].template", task.get("template"), written)
    for path, template in coordinated_templates(spec):
        yield from _in_template(path, template, common)


def _in_template(
    path: str, template: object, written: Mapping[str, object]
) -> Iterator[FieldError]:
    metadata = mapping(mapping(template).get("metadata"))
    for field in ("labels", "annotations"):
        for key, value in mapping(metadata.get(field)).items():
            if key.startswith(names.RESERVED_PREFIX):
                where = child(f"{path}.metadata.{field}", key)
                yield from _disagreement(where, key, value, written)


def _disagreement(
    path: str, key: str, value: object, written: Mapping[str, object]
) -> Iterator[FieldError]:
    if key in _BY_POD:
        yield FieldError(path, value, "is written by the operator for each pod; leave it out")
    elif key not in written:
        yield FieldError(path, value, f"keys of {names.RESERVED_PREFIX} are reserved")
    elif isinstance(expected := written[key], str) and value != expected:
        yield FieldError(path, value, f'is written by the operator as "{expected[:63]}"')
