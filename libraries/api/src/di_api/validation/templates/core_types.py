"""Type checks of pod templates, for fields that the CRD's schema does not cover.

The CRD has the full schema of a pod template only once, in the tasks; those of a coordinated job
would not fit beside it. They are checked here by the same schema, which `python -m di_api.crd`
takes from the API server's OpenAPI document. Templates of tasks are checked again: the CRD can be
an older one, and no schema can limit a quantity.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, child, unknown_field
from di_api.quantity import AMOUNT_PATTERN, fault_of_amount

Schema = Mapping[str, Any]

_CREATED: Final = "creationTimestamp"
"""Field of an object's metadata that Go programs write as null into every template."""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: Final[Mapping[object, tuple[Callable[[object], bool], str]]] = {
    "object": (lambda value: isinstance(value, Mapping), "an object"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "string": (lambda value: isinstance(value, str), "a string"),
    "integer": (_is_whole, "a whole number"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    # x-kubernetes-int-or-string, which has no type.
    None: (lambda value: isinstance(value, str) or _is_whole(value), "a whole number or a string"),
}
_BITS: Final[Mapping[object, int]] = {"int32": 32, "int64": 64}


def template_errors(path: str, template: object) -> Iterator[FieldError]:
    """Yield the errors in a core/v1 PodTemplateSpec at `path`, in linear time; null counts as
    absent.
    """
    return _errors(path, template, _pod_template())


def volumes_errors(path: str, volumes: object) -> Iterator[FieldError]:
    """Yield the errors in a list of core/v1 Volumes at `path`, in linear time."""
    return _errors(path, volumes, _pod_template()["properties"]["spec"]["properties"]["volumes"])


def pod_template() -> dict[str, Any]:
    """Return the structural schema of a core/v1 PodTemplateSpec, from the API server."""
    file = resources.files("di_api") / "data/pod_template.json"
    schema: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return schema


@cache
def _pod_template() -> Schema:
    schema = pod_template()
    schema["properties"]["metadata"]["properties"][_CREATED] = {"type": "string"}
    return schema


def _errors(path: str, value: object, schema: Schema) -> Iterator[FieldError]:
    # As deep as the schema, which is finite: anything deeper is an unknown field, and not read.
    has_type, called = _TYPES[schema.get("type")]
    if not has_type(value):
        yield FieldError(path, value, f"must be {called}")
    elif isinstance(value, Mapping):
        yield from _in_object(path, value, schema)
    elif isinstance(value, list):
        most = schema.get("maxItems", len(value))
        if len(value) > most:
            yield FieldError(path, value, f"must hold at most {most} items")
        for index, item in enumerate(value[:most]):
            yield from _errors(child(path, index), item, schema["items"])
    elif "enum" in schema and value not in schema["enum"]:
        yield FieldError(path, value, f"must be one of {', '.join(schema['enum'])}")
    elif schema.get("pattern") == AMOUNT_PATTERN:
        if fault := fault_of_amount(value):
            yield FieldError(path, value, fault)
    elif isinstance(value, int) and not _fits(value, bits := _BITS.get(schema.get("format"))):
        yield FieldError(path, value, f"must be a number of {bits} bits")


def _fits(value: int, bits: int | None) -> bool:
    return bits is None or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def _in_object(path: str, value: Mapping[str, Any], schema: Schema) -> Iterator[FieldError]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties")
    most = schema.get("maxProperties", len(value))
    if len(value) > most:
        yield FieldError(path, value, f"must hold at most {most} fields")
    for field in schema.get("required", ()):
        if value.get(field) is None:
            yield FieldError(child(path, field), ABSENT, "is required")
    for field, inner in value.items():
        if inner is None:
            continue
        if field in properties:
            yield from _errors(child(path, field), inner, properties[field])
        elif others:
            yield from _errors(child(path, field), inner, others)
        elif properties:
            yield unknown_field(path, field, inner, properties)
