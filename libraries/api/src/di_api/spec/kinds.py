"""The types of field values in the spec, with their bounds.

These classes are data only. Their use is in other modules: parsing a value (`di_api.spec.reading`),
checking its shape (`di_api.validation.shape`), the schema of the CRD (`di_api.crd.spec_schema`) and
the texts of the documents (`di_api.crd.tables`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from di_api.spec.bounds import MAX_INT32


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer; of 64 bits if `maximum` exceeds 32."""

    minimum: int
    maximum: int = MAX_INT32
    readable_from: int | None = None
    """The minimum in earlier versions, whose jobs can still run; None: it is `minimum`."""


@dataclass(frozen=True, slots=True)
class WholeOrRange:
    """A whole number, or a text of two for all from one to the other: `128-255`; see
    `di_api.spec.number_range`."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """A member of an enumeration."""

    enumeration: type[StrEnum]
    but: tuple[StrEnum, ...] = ()
    """Members that are not allowed here."""

    @property
    def choices(self) -> tuple[StrEnum, ...]:
        """Return the allowed members, in order."""
        return tuple(choice for choice in self.enumeration if choice not in self.but)


@dataclass(frozen=True, slots=True)
class Text:
    """Any text of at most `longest` characters."""

    longest: int = 253


@dataclass(frozen=True, slots=True)
class Label:
    """A DNS label of RFC 1123, as in names of pods and hosts."""

    of: str | None = None
    """Type of object that the label names; None: the object that the field belongs to. A reference
    is valid if the named object exists, so the CRD bounds only its length.
    """


@dataclass(frozen=True, slots=True)
class PortName:
    """The name of a container's port, of RFC 6335."""


@dataclass(frozen=True, slots=True)
class TargetPort:
    """Port of a container: a number, or the name of one of its ports."""

    highest: int


@dataclass(frozen=True, slots=True)
class Limit:
    """An integer, or the word for unlimited, which is parsed as None."""

    minimum: int = 0
    maximum: int = MAX_INT32


UNLIMITED: Final = "Unlimited"
"""The value for no limit."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A non-negative quantity."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A list of different names of `of`; see `Label`."""

    of: str
    most: int
    item: str = "name"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of strings of at most `longest` characters each."""

    item: str
    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts by resource name."""

    most: int


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A core/v1 PodTemplateSpec."""

    is_loose: bool = False
    """Whether the CRD checks only the fields that the services read: a second full schema of a pod
    does not fit into the annotation of client-side `kubectl apply`. Rules of the CRD cannot read
    such a template.
    """


@dataclass(frozen=True, slots=True)
class TemplatePatch:
    """Differences to a core/v1 PodTemplateSpec, see `di_api.template_patch`; rules of the CRD
    cannot read it.
    """


@dataclass(frozen=True, slots=True)
class Values:
    """A list of different numbers, ranges of numbers or strings."""

    of: Whole | WholeOrRange | Text
    item: str
    most: int
    least: int = 0


@dataclass(frozen=True, slots=True)
class Volumes:
    """A list of core/v1 Volumes."""

    most: int
    item: str = "volume"


@dataclass(frozen=True, slots=True)
class Companions:
    """A list of complete Kubernetes objects, each with a name derived from the job's."""

    most: int
    item: str = "companion"


@dataclass(frozen=True, slots=True)
class Struct:
    """An object of ours, whose fields the dataclass `of` declares."""

    of: type


@dataclass(frozen=True, slots=True)
class Structs:
    """A list of objects of ours."""

    of: type
    item: str
    most: int
    least: int = 0


Scalar: TypeAlias = (
    Flag | Whole | WholeOrRange | OneOf | Text | Label | PortName | TargetPort | Limit | Amount
)
List: TypeAlias = Labels | Texts | Values | Volumes | Companions | Structs
"""A list type, with the maximum length and the name of an item."""
Kind: TypeAlias = Scalar | Quantities | PodTemplate | TemplatePatch | Struct | List
