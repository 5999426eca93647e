"""The shape of a DIJob spec: which fields there are, their types and their limits.

The CRD says the same to the API server; this is the copy that answers without one, derived from
the same declarations. Rules that relate fields to each other are in `relations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from marshmallow import RAISE, Schema, ValidationError, fields

from di_api.field_error import ABSENT, FieldError, child, mapping, unknown_field
from di_api.names import LONGEST_PORT_NAME, MAX_LABEL, is_dns_label, is_port_name
from di_api.quantity import fault_of_amount
from di_api.spec.declared import Field, fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import (
    UNLIMITED,
    Amount,
    Companions,
    Flag,
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
)

_LABEL: Final = (
    f"must be a DNS label: 1 to {MAX_LABEL} lower-case letters, digits and dashes, "
    "with a letter or digit at both ends"
)
_PORT: Final = (
    f"the name of a port: 1 to {LONGEST_PORT_NAME} lower-case letters, digits and single dashes "
    "between them, at least one letter"
)
_LONGEST_NAME: Final = 253
"""Characters of a resource's name that a message repeats."""
_NO_TEXT: Final = "must be a string"
_UNKNOWN: Final = "unknown field"
_REQUIRED: Final[dict[str, Any]] = {"null": "is required"}
_NULL_ITEM: Final[dict[str, Any]] = {"null": "must be an object"}
_LIST: Final[dict[str, Any]] = {"invalid": "must be a list"}
_OBJECT: Final[dict[str, Any]] = {"type": "must be an object", "unknown": _UNKNOWN}

Check = Callable[[object], None]


def cut_to_limits(spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """A raw spec with its lists cut to the length they may have, and an error for each cut.

    What is past a limit is not judged: it would cost time and only repeat what is wrong.
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


def shape_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    """Fields of a spec (defaults applied) that are unknown, missing, mistyped or out of range."""
    found = _of_spec().validate(spec)
    return list(_field_errors(found, spec, "spec", fields_of(JobSpec)))


class _Strict(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE


@cache
def _of_spec() -> Schema:
    # Kept, since making one takes longer than a check.
    return _schema(JobSpec)()


@cache
def _schema(owner: type) -> type[Schema]:
    """The marshmallow schema of a dataclass of the spec."""
    declared = fields_of(owner).values()
    return type(owner.__name__, (_Strict,), {each.attribute: _checked(each) for each in declared})


def _checked(field: Field) -> fields.Field[Any]:
    required, kind = field.is_required, field.kind
    messages = _REQUIRED | {"required": field.declared.missing}
    about: dict[str, Any] = {"data_key": field.name, "required": required}
    about |= {"allow_none": not required, "error_messages": messages}
    match kind:
        case Struct():
            return fields.Nested(_schema(kind.of), **about | {"error_messages": messages | _OBJECT})
        case Structs():
            least = {"validate": _at_least_one(kind.item)} if kind.least else {}
            below: fields.Field[Any] = fields.Nested(_schema(kind.of), error_messages=_NULL_ITEM)
        case Volumes() | Companions():
            least = {}
            below = fields.Raw(validate=_object, error_messages=_NULL_ITEM)
        case Labels():
            least = {}
            below = fields.Raw(validate=_dns_label, error_messages={"null": _LABEL})
        case Texts():
            least = {}
            below = fields.Raw(validate=_text(kind.longest), error_messages={"null": _NO_TEXT})
        case Values(of=of):
            least = {"validate": _different(kind)}
            below = fields.Raw(validate=_check(of), error_messages={"null": "may not be null"})
        case Quantities():
            return fields.Raw(validate=_quantities, **about)
        case PodTemplate() | TemplatePatch():
            return fields.Raw(validate=_object, **about)
        case _:
            return fields.Raw(validate=_check(kind), **about)
    return fields.List(below, **about | least | {"error_messages": messages | _LIST})


def _check(kind: Scalar) -> Check:
    match kind:
        case Flag():
            return _boolean
        case Whole() | Limit() | Amount():
            return _number(kind)
        case OneOf():
            return _one_of([choice.value for choice in kind.choices])
        case Text():
            return _text(kind.longest)
        case Label():
            return _dns_label
        case PortName() | TargetPort():
            return _port(kind)


def _number(kind: Whole | Limit | Amount) -> Check:
    match kind:
        case Whole():
            return _whole(kind.minimum, kind.maximum)
        case Limit():
            return _limit(kind)
        case Amount():
            return _quantity


def _whole(minimum: int, maximum: int) -> Check:
    def check(value: object) -> None:
        # True is an int to Python and not to JSON.
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValidationError(f"must be a whole number, {minimum} or more")
        if value < minimum:
            raise ValidationError(f"must be {minimum} or more")
        if value > maximum:
            raise ValidationError(f"must be {maximum} or less")

    return check


def _limit(kind: Limit) -> Check:
    of_numbers = _whole(kind.minimum, kind.maximum)

    def check(value: object) -> None:
        if isinstance(value, str):
            if value != UNLIMITED:
                raise ValidationError(f"must be {UNLIMITED}, or a number")
        else:
            of_numbers(value)

    return check


def _different(kind: Values) -> Check:
    def check(value: object) -> None:
        if kind.least and not value:
            raise ValidationError(f"must hold at least one {kind.item}")
        found = value if isinstance(value, list) else []
        seen = [each for index, each in enumerate(found) if each in found[:index]]
        if seen:
            raise ValidationError(f"must hold no {kind.item} twice")

    return check


def _one_of(values: list[str]) -> Check:
    def check(value: object) -> None:
        if value not in values:
            raise ValidationError(f"must be one of {', '.join(values)}")

    return check


def _text(longest: int) -> Check:
    def check(value: object) -> None:
        if not isinstance(value, str):
            raise ValidationError(_NO_TEXT)
        if len(value) > longest:
            raise ValidationError(f"must be at most {longest} characters long")

    return check


def _at_least_one(item: str) -> Check:
    def check(value: object) -> None:
        if not value:
            raise ValidationError(f"must hold at least one {item}")

    return check


def _boolean(value: object) -> None:
    if not isinstance(value, bool):
        raise ValidationError("must be true or false")


def _object(value: object) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("must be an object")


def _dns_label(value: object) -> None:
    if not is_dns_label(value):
        raise ValidationError(_LABEL)


def _port(kind: PortName | TargetPort) -> Check:
    of_numbers = _whole(1, kind.highest) if isinstance(kind, TargetPort) else None

    def check(value: object) -> None:
        if of_numbers is not None and not isinstance(value, str):
            of_numbers(value)
        elif not is_port_name(value):
            raise ValidationError(f"must be {'a number, or ' if of_numbers else ''}{_PORT}")

    return check


def _quantities(value: object) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("must be an object of quantities")
    for name, amount in value.items():
        if fault := fault_of_amount(amount):
            raise ValidationError(f"{name[:_LONGEST_NAME]} {fault}")


def _quantity(value: object) -> None:
    if fault := fault_of_amount(value):
        raise ValidationError(fault)


def _field_errors(
    found: Mapping[Any, Any], value: object, path: str, known: Mapping[str, Field]
) -> Iterator[FieldError]:
    """Turn the schema's nested messages, keyed by field or index, into paths and values."""
    for key, below in found.items():
        if key == "_schema" and not isinstance(value, Mapping):
            yield FieldError(path, value, "must be an object")
            continue
        inner = value[key] if isinstance(value, list) else mapping(value).get(key, ABSENT)
        if isinstance(below, Mapping):
            # A list's own messages are keyed by index, and are about the fields of its items.
            fields_below = known[key].inner if key in known else known
            yield from _field_errors(below, inner, child(path, key), fields_below)
            continue
        for message in below:
            if message == _UNKNOWN:
                yield unknown_field(path, key, inner, known)
            else:
                yield FieldError(child(path, key), inner, message)
