"""The kinds of values that a field of the spec may have, each with what follows from it.

- `fault(value)`: what is wrong with a value, None if nothing is.
- `read(value, path)`: the attribute of the dataclass, by the type of the value alone; raises
  InvalidSpec.
- `schema(about)`: the schema in the CRD, with its description. Those of objects of Kubernetes, of
  ours and of lists are in `di_api.crd.spec_schema`.
- `type_name()`: the type in the tables of the documents.
- `of_items`: of a list, the kind of its items.

Objects of ours and lists are checked and read where their fields are gone through, in
`di_api.validation.shape` and `di_api.spec.reading`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

from di_api.dns_names import (
    DNS_LABEL,
    LONGEST_PORT_NAME,
    MAX_LABEL,
    PORT_NAME,
    is_dns_label,
    is_port_name,
)
from di_api.quantity import fault_of_amount, quantity_schema
from di_api.spec.bounds import MAX_INT32, MAX_INT64
from di_api.spec.free_values import Choice, Number
from di_api.spec.raw import RANGE, invalid, object_of, read_numbers, text_of

Schema: TypeAlias = dict[str, Any]

UNLIMITED: Final = "Unlimited"
"""The word that stands for no limit."""
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


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def type_name(self) -> str:
        return "boolean"

    def fault(self, value: object) -> str | None:
        return None if isinstance(value, bool) else "must be true or false"

    def read(self, value: object, path: str) -> object:
        if fault := self.fault(value):
            raise invalid(path, value, fault)
        return value

    def schema(self, about: Schema) -> Schema:
        return {"type": "boolean", **about}


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer; of 64 bits if `maximum` exceeds 32."""

    minimum: int
    maximum: int = MAX_INT32
    readable_from: int | None = None
    """The minimum in earlier versions, whose jobs can still run; None: it is `minimum`."""

    def type_name(self) -> str:
        has_maximum = self.maximum < MAX_INT32
        return f"{self.minimum} to {self.maximum}" if has_maximum else f"{self.minimum} or more"

    def fault(self, value: object) -> str | None:
        # True is an int to Python and not to JSON.
        if isinstance(value, bool) or not isinstance(value, int):
            return f"must be a whole number, {self.minimum} or more"
        if value < self.minimum:
            return f"must be {self.minimum} or more"
        return f"must be {self.maximum} or less" if value > self.maximum else None

    def read(self, value: object, path: str) -> object:
        lowest = self.minimum if self.readable_from is None else self.readable_from
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(path, value, f"must be a whole number, {lowest} or more")
        if not lowest <= value <= MAX_INT64:
            raise invalid(path, value, f"must be {lowest} or more, and {MAX_INT64} or less")
        return value

    def schema(self, about: Schema) -> Schema:
        bits = "int64" if self.maximum > MAX_INT32 else "int32"
        highest = {"maximum": self.maximum} if self.maximum < MAX_INT32 else {}
        return {"type": "integer", "format": bits, **about, "minimum": self.minimum, **highest}


@dataclass(frozen=True, slots=True)
class WholeOrRange:
    """A whole number, or a text of two for all from one to the other: `128-255`; see
    `di_api.spec.raw`."""

    minimum: int
    maximum: int

    def type_name(self) -> str:
        return f"{self.minimum} to {self.maximum}, or a range of these"

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str):
            return Whole(self.minimum, self.maximum).fault(value)
        numbers = read_numbers(value)
        if numbers is None or numbers[0] < self.minimum or numbers[-1] > self.maximum:
            return (
                f"must be a number from {self.minimum} to {self.maximum}, or a range of these "
                "such as 128-255"
            )
        return None

    def read(self, value: object, path: str) -> object:
        numbers = read_numbers(value)
        if numbers is None:
            raise invalid(path, value, "must be a whole number, or a range of two")
        return numbers

    def schema(self, about: Schema) -> Schema:
        return _number_or_text(self.minimum, self.maximum, about, pattern=f"^{RANGE}$")


@dataclass(frozen=True, slots=True)
class Limit:
    """A whole number, or the word for none; read as infinity then."""

    minimum: int = 0
    maximum: int = MAX_INT32

    def type_name(self) -> str:
        return f"{self.minimum} or more, or `{UNLIMITED}`"

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str):
            return Whole(self.minimum, self.maximum).fault(value)
        return None if value == UNLIMITED else f"must be {UNLIMITED}, or a number"

    def read(self, value: object, path: str) -> object:
        whole = Whole(self.minimum, self.maximum)
        return math.inf if value == UNLIMITED else whole.read(value, path)

    def schema(self, about: Schema) -> Schema:
        return _number_or_text(self.minimum, self.maximum, about, pattern=f"^{UNLIMITED}$")


@dataclass(frozen=True, slots=True)
class TargetPort:
    """The port of a container: a number, or the name of one of its ports."""

    highest: int

    def type_name(self) -> str:
        return f"1 to {self.highest}, or the name of a port"

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str):
            return Whole(1, self.highest).fault(value)
        return None if is_port_name(value) else f"must be a number, or {_PORT}"

    def read(self, value: object, path: str) -> object:
        return value if isinstance(value, str) else Whole(1).read(value, path)

    def schema(self, about: Schema) -> Schema:
        of_name = {"maxLength": LONGEST_PORT_NAME, "pattern": f"^{PORT_NAME}$"}
        return _number_or_text(1, self.highest, about, **of_name)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A member of an enumeration."""

    enumeration: type[StrEnum]
    but: tuple[StrEnum, ...] = ()
    """Members that are not allowed here."""

    def type_name(self) -> str:
        return ", ".join(f"`{word}`" for word in _by_word(self))

    def fault(self, value: object) -> str | None:
        is_one = isinstance(value, str) and value in _by_word(self)
        return None if is_one else f"must be one of {', '.join(_by_word(self))}"

    def read(self, value: object, path: str) -> object:
        if fault := self.fault(value):
            raise invalid(path, value, fault)
        return _by_word(self)[text_of(value, path)]

    def schema(self, about: Schema) -> Schema:
        return {"type": "string", **about, "enum": list(_by_word(self))}


@dataclass(frozen=True, slots=True)
class Text:
    """Any text of at most `longest` characters."""

    longest: int = 253

    def type_name(self) -> str:
        return f"text, up to {self.longest} characters"

    def fault(self, value: object) -> str | None:
        if not isinstance(value, str):
            return "must be a string"
        is_long = len(value) > self.longest
        return f"must be at most {self.longest} characters long" if is_long else None

    def read(self, value: object, path: str) -> object:
        return text_of(value, path)

    def schema(self, about: Schema) -> Schema:
        return {"type": "string", **about, "maxLength": self.longest}


@dataclass(frozen=True, slots=True)
class Label:
    """A DNS label of RFC 1123, as in names of pods and hosts."""

    of: str | None = None
    """Type of object that the label names; None: the object that the field belongs to. A reference
    is valid if the named object exists, so the CRD bounds only its length.
    """

    def type_name(self) -> str:
        return f"name of a {self.of}" if self.of else "DNS label"

    def fault(self, value: object) -> str | None:
        return None if is_dns_label(value) else _LABEL

    def read(self, value: object, path: str) -> object:
        if not text_of(value, path) and self.of is None:
            raise invalid(path, value, "is required")
        return value

    def schema(self, about: Schema) -> Schema:
        pattern = {} if self.of else {"pattern": f"^{DNS_LABEL}$"}
        return {"type": "string", **about, "maxLength": MAX_LABEL, **pattern}


@dataclass(frozen=True, slots=True)
class PortName:
    """The name of a container's port, of RFC 6335."""

    def type_name(self) -> str:
        return "name of a port"

    def fault(self, value: object) -> str | None:
        return None if is_port_name(value) else f"must be {_PORT}"

    def read(self, value: object, path: str) -> object:
        return text_of(value, path)

    def schema(self, about: Schema) -> Schema:
        bounds = {"maxLength": LONGEST_PORT_NAME, "pattern": f"^{PORT_NAME}$"}
        return {"type": "string", **about, **bounds}


@dataclass(frozen=True, slots=True)
class Amount:
    """A non-negative quantity."""

    def type_name(self) -> str:
        return "quantity"

    def fault(self, value: object) -> str | None:
        return fault_of_amount(value) or None

    def read(self, value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise invalid(path, value, "no quantity")
        return value

    def schema(self, about: Schema) -> Schema:
        return {**quantity_schema(), **about}


@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts by the name of a resource."""

    most: int

    def type_name(self) -> str:
        return f"quantities by resource, up to {self.most}"

    def fault(self, value: object) -> str | None:
        if not isinstance(value, Mapping):
            return "must be an object of quantities"
        faults = ((name, fault_of_amount(amount)) for name, amount in value.items())
        return next((f"{name[:_LONGEST_NAME]} {fault}" for name, fault in faults if fault), None)

    def read(self, value: object, path: str) -> object:
        amounts = object_of(value, path)
        for name, amount in amounts.items():
            Amount().read(amount, f"{path}.{name}")
        return amounts

    def schema(self, about: Schema) -> Schema:
        amounts = {"maxProperties": self.most, "additionalProperties": quantity_schema()}
        return {"type": "object", **about, **amounts}


class CoreObject:
    """An object of Kubernetes."""

    __slots__ = ()

    def fault(self, value: object) -> str | None:
        return None if isinstance(value, Mapping) else "must be an object"

    def read(self, value: object, path: str) -> object:
        return object_of(value, path)


@dataclass(frozen=True, slots=True)
class PodTemplate(CoreObject):
    """A core/v1 PodTemplateSpec."""

    is_loose: bool = False
    """Whether the CRD checks only what the services read: more than one full schema of a pod does
    not fit in the annotation of client-side `kubectl apply`. Its rules cannot read such a one."""

    def type_name(self) -> str:
        return "core/v1 PodTemplateSpec"


@dataclass(frozen=True, slots=True)
class TemplatePatch(CoreObject):
    """Changes of a core/v1 PodTemplateSpec, see `di_api.template_patch`; the rules of the
    CRD cannot read it."""

    def type_name(self) -> str:
        return "patch of a core/v1 PodTemplateSpec"


@dataclass(frozen=True, slots=True)
class JobTemplate(CoreObject):
    """Metadata and spec of jobs that are created from it; their own rules check it."""

    def type_name(self) -> str:
        return "`metadata` and `spec` of a DIJob"


@dataclass(frozen=True, slots=True)
class Struct:
    """An object of ours, whose fields the dataclass `of` declares."""

    of: type

    def type_name(self) -> str:
        return "object, see below"


@dataclass(frozen=True, slots=True)
class Labels:
    """A list of different names of `of`; see `Label`."""

    of: str
    most: int
    item: str = "name"

    def type_name(self) -> str:
        return f"list of {self.of} names, up to {self.most}"

    @property
    def of_items(self) -> Label:
        return Label(self.of)


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of strings of at most `longest` characters each."""

    item: str
    most: int
    longest: int

    def type_name(self) -> str:
        return f"list of {self.item}s, up to {self.most}"

    @property
    def of_items(self) -> Text:
        return Text(self.longest)


@dataclass(frozen=True, slots=True)
class Values:
    """A list of different numbers, ranges of numbers or strings."""

    of: Whole | WholeOrRange | Text | Choice
    item: str
    most: int
    least: int = 0

    def type_name(self) -> str:
        return f"list of {self.item}s, up to {self.most}"

    @property
    def of_items(self) -> Whole | WholeOrRange | Text | Choice:
        return self.of


@dataclass(frozen=True, slots=True)
class Volumes:
    """A list of core/v1 Volumes."""

    most: int
    item: str = "volume"

    def type_name(self) -> str:
        return f"list of core/v1 Volume, up to {self.most}"

    @property
    def of_items(self) -> CoreObject:
        return CoreObject()


@dataclass(frozen=True, slots=True)
class Companions:
    """A list of complete Kubernetes objects, each with a name derived from the job's."""

    most: int
    item: str = "companion"

    def type_name(self) -> str:
        return f"list of objects, up to {self.most}"

    @property
    def of_items(self) -> CoreObject:
        return CoreObject()


@dataclass(frozen=True, slots=True)
class Structs:
    """A list of objects of ours."""

    of: type
    item: str
    most: int
    least: int = 0

    def type_name(self) -> str:
        count = f"{self.least} to {self.most}" if self.least else f"up to {self.most}"
        return f"list of {count}, see below"

    @property
    def of_items(self) -> Struct:
        return Struct(self.of)


List: TypeAlias = Labels | Texts | Values | Volumes | Companions | Structs
"""Of at most so many of what an item is called."""
Scalar: TypeAlias = (
    Flag
    | Whole
    | WholeOrRange
    | Limit
    | TargetPort
    | Amount
    | OneOf
    | Text
    | Number
    | Choice
    | Label
    | PortName
)
Kind: TypeAlias = Scalar | Quantities | PodTemplate | TemplatePatch | JobTemplate | Struct | List


def _number_or_text(minimum: int, maximum: int, about: Schema, **of_text: object) -> Schema:
    bounds = {"minimum": minimum, "maximum": maximum}
    return {"x-kubernetes-int-or-string": True, **about, **bounds, **of_text}


@cache
def _by_word(kind: OneOf) -> Mapping[str, StrEnum]:
    return {each.value: each for each in kind.enumeration if each not in kind.but}
