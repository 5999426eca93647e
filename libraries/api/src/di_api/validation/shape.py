"""The shape of a DIJob spec: its fields, their types and their limits.

The CRD has the same rules for the API server; this copy works without one, and is derived from the
same declarations. Rules that relate fields to each other are in `relations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, unknown_field
from di_api.names import LONGEST_PORT_NAME, MAX_LABEL, is_dns_label, is_port_name
from di_api.quantity import fault_of_amount
from di_api.spec.declared import fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import (
    UNLIMITED,
    Amount,
    Companions,
    Flag,
    Kind,
    Label,
    Labels,
    Limit,
    List,
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

_LABEL: Final = (
    f"must be a DNS label: 1 to {MAX_LABEL} lower-case letters, digits and dashes, "
    "with a letter or digit at both ends"
)
_PORT: Final = (
    f"the name of a port: 1 to {LONGEST_PORT_NAME} lower-case letters, digits and single dashes "
    "between them, at least one letter"
)
_LONGEST_NAME: Final = 253
"""Maximum length of a resource's name in a message."""
_NO_TEXT: Final = "must be a string"
_NO_LIST: Final = "must be a list"
_NO_OBJECT: Final = "must be an object"

Check = Callable[[object], str | None]
"""Returns the fault of a value; None if it is valid."""


def cut_to_limits(spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return a raw spec with its lists cut to their maximum length, and an error for each cut.

    Items beyond a limit are not checked, which saves time and repeated errors.
    """
    errors: list[FieldError] = []
    return _cut(JobSpec, spec, "spec", errors), errors


def _cut(
    owner: type, raw: Mapping[str, Any], path: str, errors: list[FieldError]
) -> dict[str, Any]:
    result = dict(raw)
    declared = fields_of(owner)
    for name, field in declared.items():
        value = result.get(name)
        if not isinstance(field.kind, List) or not isinstance(value, list):
            continue
        if len(value) > (most := field.kind.most):
            message = f"must hold at most {most} {field.kind.item}s"
            errors.append(FieldError(f"{path}.{name}", value, message))
            result[name] = value[:most]
    for name, field in declared.items():
        value = result.get(name)
        match field.kind:
            case Struct(of=of) if isinstance(value, Mapping) and _has_lists(of):
                result[name] = _cut(of, value, f"{path}.{name}", errors)
            case Structs(of=of) if isinstance(value, list) and _has_lists(of):
                result[name] = [
                    _cut(of, item, f"{path}.{name}[{index}]", errors)
                    if isinstance(item, Mapping)
                    else item
                    for index, item in enumerate(value)
                ]
            case _:
                pass
    return result


@cache
def _has_lists(owner: type) -> bool:
    return any(
        isinstance(field.kind, List)
        or (isinstance(field.kind, Struct) and _has_lists(field.kind.of))
        for field in fields_of(owner).values()
    )


def shape_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors for fields of a spec (with defaults) that are unknown, missing, mistyped or out
    of range.
    """
    return _of_object(JobSpec, spec, "spec")


def _of_object(owner: type, value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield FieldError(path, value, _NO_OBJECT)
        return
    known = fields_of(owner)
    for name, field in known.items():
        if (found := value.get(name, ABSENT)) is not None and found is not ABSENT:
            yield from _of_field(field.kind, found, f"{path}.{name}")
        elif field.is_required:
            message = field.declared.missing if found is ABSENT else "is required"
            yield FieldError(f"{path}.{name}", found, message)
    for name in value:
        if name not in known:
            yield unknown_field(path, name, value[name], known)


def _of_field(kind: Kind, value: object, path: str) -> Iterator[FieldError]:
    if isinstance(kind, Struct):
        yield from _of_object(kind.of, value, path)
    elif isinstance(kind, List):
        yield from _of_list(kind, value, path)
    elif (message := _single(kind)(value)) is not None:
        yield FieldError(path, value, message)


def _of_list(kind: List, value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield FieldError(path, value, _NO_LIST)
        return
    is_right = True
    for index, item in enumerate(value):
        for error in _of_item(kind, item, f"{path}[{index}]"):
            is_right = False
            yield error
    # Further faults of a list with invalid items can be consequences of those.
    if is_right and (message := _whole_list(kind, value)) is not None:
        yield FieldError(path, value, message)


def _of_item(kind: List, value: object, path: str) -> Iterator[FieldError]:
    if isinstance(kind, Structs):
        yield from _of_object(kind.of, value, path)
    elif (message := _item(kind)(value)) is not None:
        yield FieldError(path, value, message)


def _whole_list(kind: List, value: list[object]) -> str | None:
    match kind:
        case Structs() if kind.least and not value:
            return f"must hold at least one {kind.item}"
        case Values():
            return _different(kind, value)
        case _:
            return None


@cache
def _item(kind: List) -> Check:
    match kind:
        case Labels():
            return _dns_label
        case Texts():
            return _text(kind.longest)
        case Values(of=of):
            check = _check(of)
            return lambda value: "may not be null" if value is None else check(value)
        case Volumes() | Companions() | Structs():
            return _object


@cache
def _single(kind: Scalar | Quantities | PodTemplate | TemplatePatch) -> Check:
    match kind:
        case Quantities():
            return _quantities
        case PodTemplate() | TemplatePatch():
            return _object
        case _:
            return _check(kind)


def _check(kind: Scalar) -> Check:
    match kind:
        case Flag():
            return _boolean
        case Whole() | WholeOrRange() | Limit() | Amount():
            return _number(kind)
        case OneOf():
            return _one_of([choice.value for choice in kind.choices])
        case Text():
            return _text(kind.longest)
        case Label():
            return _dns_label
        case PortName() | TargetPort():
            return _port(kind)


def _number(kind: Whole | WholeOrRange | Limit | Amount) -> Check:
    match kind:
        case Whole():
            return _whole(kind.minimum, kind.maximum)
        case WholeOrRange():
            return _range(kind)
        case Limit():
            return _limit(kind)
        case Amount():
            return _quantity


def _whole(minimum: int, maximum: int) -> Check:
    def check(value: object) -> str | None:
        # True is an int in Python but not in JSON.
        if isinstance(value, bool) or not isinstance(value, int):
            return f"must be a whole number, {minimum} or more"
        if value < minimum:
            return f"must be {minimum} or more"
        return f"must be {maximum} or less" if value > maximum else None

    return check


def _range(kind: WholeOrRange) -> Check:
    of_numbers = _whole(kind.minimum, kind.maximum)

    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return of_numbers(value)
        numbers = read_numbers(value)
        if numbers is None or numbers[0] < kind.minimum or numbers[-1] > kind.maximum:
            return (
                f"must be a number from {kind.minimum} to {kind.maximum}, or a range of these "
                "such as 128-255"
            )
        return None

    return check


def _limit(kind: Limit) -> Check:
    of_numbers = _whole(kind.minimum, kind.maximum)

    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return of_numbers(value)
        return None if value == UNLIMITED else f"must be {UNLIMITED}, or a number"

    return check


def _different(kind: Values, found: list[object]) -> str | None:
    if kind.least and not found:
        return f"must hold at least one {kind.item}"
    seen = [each for index, each in enumerate(found) if each in found[:index]]
    return f"must hold no {kind.item} twice" if seen else None


def _one_of(values: list[str]) -> Check:
    return lambda value: None if value in values else f"must be one of {', '.join(values)}"


def _text(longest: int) -> Check:
    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return _NO_TEXT
        return f"must be at most {longest} characters long" if len(value) > longest else None

    return check


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _object(value: object) -> str | None:
    return None if isinstance(value, Mapping) else _NO_OBJECT


def _dns_label(value: object) -> str | None:
    return None if is_dns_label(value) else _LABEL


def _port(kind: PortName | TargetPort) -> Check:
    of_numbers = _whole(1, kind.highest) if isinstance(kind, TargetPort) else None

    def check(value: object) -> str | None:
        if of_numbers is not None and not isinstance(value, str):
            return of_numbers(value)
        told = f"must be {'a number, or ' if of_numbers else ''}{_PORT}"
        return None if is_port_name(value) else told

    return check


def _quantities(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return "must be an object of quantities"
    faults = ((name, fault_of_amount(amount)) for name, amount in value.items())
    return next((f"{name[:_LONGEST_NAME]} {fault}" for name, fault in faults if fault), None)


def _quantity(value: object) -> str | None:
    return fault_of_amount(value) or None
