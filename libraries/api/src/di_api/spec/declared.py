"""Declaration of a field of the spec, on the dataclass attribute that holds it.

The attribute gives the name (`backoff_limit` is `backoffLimit`), its default is the field's, and an
attribute without a default is required. Everything else is derived from the declaration: the CRD's
schema, the policy's rules about changes, the checks, the defaults, the table of mutable fields and
the tables of docs/reference/dijob.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_type_hints

from di_api.spec.kinds import Kind, Struct, Structs
from di_api.spec.maturity import Stage, stage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Second argument of the attribute's `Annotated`."""

    kind: Kind
    about: str
    """Description in Markdown, for `kubectl explain` (without its marks) and the documents."""
    more: str = ""
    """Additional description for the documents only, because the CRD has little space."""
    may_change: bool = False
    """Whether the field can change while the job exists; no field can change after the job has
    finished. In an object of ours each field declares this itself.
    """
    may_change_before_start: bool = False
    """Whether the field may change while the job is suspended and has never started: pods are made
    from it, and there are none."""
    is_filled_in: bool = True
    """Whether the default is written into jobs that lack the field."""
    is_in_schema: bool = True
    """Whether the CRD writes the default. Otherwise only the webhook does, which knows what the
    client left out and can keep an autoscaler's value.
    """
    default_from: str | None = None
    """Field whose value is the default of this one, if it is present."""
    missing: str = "is required"
    """Message for a job that lacks the required field."""
    absent: str = ""
    """In Markdown, for the documents: the effect of leaving the field out, if that is not its
    default.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the spec."""

    owner: str
    """Name of the dataclass that declares it."""
    attribute: str
    is_required: bool
    default: str | int | bool | None
    """Default as JSON; None if nothing is filled in."""
    declared: Declared

    @property
    def name(self) -> str:
        """Return the field's name in a manifest."""
        first, *others = self.attribute.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def stage(self) -> Stage | None:
        """Return the maturity of its feature; None for a field that belongs to no single
        feature.
        """
        return stage_of(f"{self.owner}.{self.name}")

    @property
    def kind(self) -> Kind:
        """Return the type of its values."""
        return self.declared.kind

    @property
    def is_always_there(self) -> bool:
        """Return whether every stored object has the field, by the CRD's schema."""
        return self.is_required or (self.default is not None and self.declared.is_in_schema)

    @property
    def inner(self) -> Mapping[str, Field]:
        """Return the fields of the objects of ours that it contains, by name; empty for other
        types.
        """
        return fields_of(self.kind.of) if isinstance(self.kind, Struct | Structs) else {}

    @property
    def is_fixed(self) -> bool:
        """Return whether the whole field is immutable while the job exists."""
        return not self.declared.may_change and all(each.is_fixed for each in self.inner.values())


@cache
def fields_of(owner: type) -> Mapping[str, Field]:
    """Return the fields that a dataclass of the spec declares, by name and in order."""
    hints = get_type_hints(owner, include_extras=True)
    found = (_field(owner.__name__, each, hints[each.name]) for each in dataclasses.fields(owner))
    return {each.name: each for each in found}


def _field(owner: str, attribute: dataclasses.Field[Any], hint: Any) -> Field:
    (declared,) = (each for each in hint.__metadata__ if isinstance(each, Declared))
    default = attribute.default
    has_default = default is not dataclasses.MISSING
    value = default if has_default and declared.is_filled_in else None
    if isinstance(value, StrEnum):
        value = value.value
    return Field(
        owner=owner,
        attribute=attribute.name,
        is_required=not has_default and attribute.default_factory is dataclasses.MISSING,
        default=value if isinstance(value, str | int) else None,
        declared=declared,
    )
