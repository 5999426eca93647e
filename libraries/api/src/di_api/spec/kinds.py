"""The kinds of values that a field of the spec may have, with their bounds.

Data only. What follows from a kind is beside what it is for: the reading of a value
(`di_api.spec.reading`), the check of its shape (`di_api.validation.shape`), the schema of the CRD
(`di_api.crd.spec_schema`) and the words of the documents (`di_api.crd.tables`).
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
    """A whole number; of 64 bits if `maximum` takes more than 32."""

    minimum: int
    maximum: int = MAX_INT32
    readable_from: int | None = None
    """The minimum of earlier versions, whose jobs may still run; None: it is `minimum`."""


@dataclass(frozen=True, slots=True)
class WholeOrRange:
    """A whole number, or a text of two for all from one to the other: `128-255`; see
    `di_api.spec.number_range`."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """A word of an enumeration."""

    enumeration: type[StrEnum]
    but: tuple[StrEnum, ...] = ()
    """Members that may not stand here."""

    @property
    def choices(self) -> tuple[StrEnum, ...]:
        """The members that may stand here, in their order."""
        return tuple(choice for choice in self.enumeration if choice not in self.but)


@dataclass(frozen=True, slots=True)
class Text:
    """Any text of at most `longest` characters."""

    longest: int = 253


@dataclass(frozen=True, slots=True)
class Label:
    """A DNS label of RFC 1123, as the names of pods and hosts are."""

    of: str | None = None
    """What has that name; None: the object that the field belongs to. Then it is right if it is
    the name of something, so the CRD bounds its length alone."""


@dataclass(frozen=True, slots=True)
class PortName:
    """The name of a container's port, of RFC 6335."""


@dataclass(frozen=True, slots=True)
class TargetPort:
    """Where a container listens: a number, or the name of one of its ports."""

    highest: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A whole number, or the word for none; read as None then."""

    minimum: int = 0
    maximum: int = MAX_INT32


UNLIMITED: Final = "Unlimited"
"""The word that stands for no limit."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity that is not negative."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A list of different names of `of`; see `Label`."""

    of: str
    most: int
    item: str = "name"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of any texts of at most `longest` characters each."""

    item: str
    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts by the name of a resource."""

    most: int


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A core/v1 PodTemplateSpec."""

    is_loose: bool = False
    """Whether the CRD checks only what the services read: more than one full schema of a pod does
    not fit in the annotation of client-side `kubectl apply`. Its rules cannot read such a one."""


@dataclass(frozen=True, slots=True)
class TemplatePatch:
    """What is different in a core/v1 PodTemplateSpec, see `di_api.template_patch`; the rules of the
    CRD cannot read it."""


@dataclass(frozen=True, slots=True)
class Values:
    """A list of different numbers, ranges of numbers or texts."""

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
    """A list of whole Kubernetes objects, each with a name made from the job's."""

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
"""Of at most so many of what an item is called."""
Kind: TypeAlias = Scalar | Quantities | PodTemplate | TemplatePatch | Struct | List
