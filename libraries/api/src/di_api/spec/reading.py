"""Parsing a raw spec into its dataclasses; checks only the types of values.

Rules about values are not checked, and unknown fields are ignored. The parser never guesses: it
raises an error for the first value with a type or enumeration member that this version does not
support. A null field counts as absent, as it does for the API server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from di_api.field_error import ABSENT, FieldError, InvalidSpec, child
from di_api.spec.bounds import MAX_INT64
from di_api.spec.declared import fields_of
from di_api.spec.kinds import (
    UNLIMITED,
    Amount,
    Companions,
    Flag,
    Kind,
    Label,
    Labels,
    Limit,
    OneOf,
    PodTemplate,
    PortName,
    Quantities,
    Scalar,
    Struct,
    Structs,
    TargetPort,
    TemplatePatch,
    Text,
    Texts,
    Values,
    Volumes,
    Whole,
    WholeOrRange,
)
from di_api.spec.number_range import read_numbers

_Spec = TypeVar("_Spec")


def read(owner: type[_Spec], raw: Mapping[str, Any], path: str) -> _Spec:
    """Return the raw object at `path` as a dataclass of `di_api.spec`.

    Raises:
        InvalidSpec: a value cannot be parsed, or a required one is missing.
    """
    values: dict[str, Any] = {}
    declaring: type = owner
    for name, field in fields_of(declaring).items():
        found = raw.get(name)
        if found is not None:
            values[field.attribute] = _value(field.kind, found, f"{path}.{name}")
        elif field.is_required:
            raise _invalid(f"{path}.{name}", raw.get(name, ABSENT), "is required")
    return owner(**values)


def text_of(value: object, path: str) -> str:
    """Return `value`, which must be a string. Raises InvalidSpec."""
    if not isinstance(value, str):
        raise _invalid(path, value, "must be a string")
    return value


def object_of(value: object, path: str) -> Mapping[str, Any]:
    """Return `value`, which must be an object. Raises InvalidSpec."""
    if not isinstance(value, Mapping):
        raise _invalid(path, value, "must be an object")
    return value


def items_of(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of `value`, which must be a list, each with its path. Raises InvalidSpec."""
    if not isinstance(value, list):
        raise _invalid(path, value, "must be a list")
    return ((child(path, index), item) for index, item in enumerate(value))


def objects_of(value: object, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the items of `value`, which must be a list of objects, each with its path. Raises
    InvalidSpec.
    """
    return [(where, object_of(item, where)) for where, item in items_of(value, path)]


def _value(kind: Kind, value: object, path: str) -> object:
    match kind:
        case Labels() | Texts() | Values():
            return _listed(kind, value, path)
        case Quantities():
            return _amounts(value, path)
        case PodTemplate() | TemplatePatch():
            return object_of(value, path)
        case Volumes() | Companions():
            return tuple(item for _, item in objects_of(value, path))
        case Struct() | Structs():
            return _ours(kind, value, path)
        case _:
            return _scalar(kind, value, path)


def _listed(kind: Labels | Texts | Values, value: object, path: str) -> object:
    found = items_of(value, path)
    if isinstance(kind, Values):
        return tuple(_scalar(kind.of, item, where) for where, item in found)
    return tuple(text_of(item, where) for where, item in found)


def _ours(kind: Struct | Structs, value: object, path: str) -> object:
    if isinstance(kind, Struct):
        return read(kind.of, object_of(value, path), path)
    return tuple(read(kind.of, item, where) for where, item in objects_of(value, path))


def _scalar(kind: Scalar, value: object, path: str) -> object:
    match kind:
        case Flag():
            if not isinstance(value, bool):
                raise _invalid(path, value, "must be true or false")
            return value
        case Whole() | WholeOrRange() | Limit() | Amount():
            return _number(kind, value, path)
        case OneOf():
            return _choice(kind, value, path)
        case Text() | PortName():
            return text_of(value, path)
        case TargetPort():
            return value if isinstance(value, str) else _whole(Whole(1), value, path)
        case Label():
            if not text_of(value, path) and kind.of is None:
                raise _invalid(path, value, "is required")
            return value


def _number(kind: Whole | WholeOrRange | Limit | Amount, value: object, path: str) -> object:
    match kind:
        case Whole():
            return _whole(kind, value, path)
        case WholeOrRange():
            numbers = read_numbers(value)
            if numbers is None:
                raise _invalid(path, value, "must be a whole number, or a range of two")
            return numbers
        case Limit():
            whole = Whole(kind.minimum, kind.maximum)
            return math.inf if value == UNLIMITED else _whole(whole, value, path)
        case Amount():
            return _amount(value, path)


def _whole(kind: Whole, value: object, path: str) -> int:
    lowest = kind.minimum if kind.readable_from is None else kind.readable_from
    # True is an int in Python but not in JSON.
    if isinstance(value, bool) or not isinstance(value, int):
        raise _invalid(path, value, f"must be a whole number, {lowest} or more")
    if not lowest <= value <= MAX_INT64:
        raise _invalid(path, value, f"must be {lowest} or more, and {MAX_INT64} or less")
    return value


def _choice(kind: OneOf, value: object, path: str) -> object:
    for choice in kind.choices:
        if choice.value == value:
            return choice
    words = ", ".join(choice.value for choice in kind.choices)
    raise _invalid(path, value, f"must be one of {words}")


def _amounts(value: object, path: str) -> Mapping[str, Any]:
    amounts = object_of(value, path)
    for name, amount in amounts.items():
        _amount(amount, f"{path}.{name}")
    return amounts


def _amount(value: object, path: str) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _invalid(path, value, "no quantity")
    return value


def _invalid(path: str, value: object, message: str) -> InvalidSpec:
    return InvalidSpec([FieldError(path, value, message)])
