"""The policy's rules about changes of a job, derived from the fields that can change; those of a
DIJobTask are in its CRD.

Rules test optional fields with `has`: for optionals (`.?`) the API server estimates an unbounded
cost of a CRD's rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from di_api.phase import Phase
from di_api.spec.declared import Field, fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import (
    Companions,
    Flag,
    Labels,
    Limit,
    PodTemplate,
    Quantities,
    Struct,
    Structs,
    TemplatePatch,
    Texts,
    Values,
    Volumes,
    Whole,
)
from di_api.validation.relations.row import Rule

_FIXED: Final = "may not change while the job exists; delete it and create it again"
_OR_SUSPEND: Final = ", or suspend it first if it has never started"


def may_change(owner: type, *, with_lists: bool = False) -> Iterator[str]:
    """Yield the fields that can change while the job exists: `a`, `object.b`, and `c` of a list's
    items.

    With `with_lists` the latter are `list[].c`.
    """
    for name, field in fields_of(owner).items():
        if field.declared.may_change:
            yield name
        elif isinstance(field.kind, Struct):
            yield from (f"{name}.{inner}" for inner in may_change(field.kind.of))
        elif isinstance(field.kind, Structs):
            prefix = f"{name}[]." if with_lists else ""
            yield from (prefix + inner for inner in may_change(field.kind.of))


def may_change_before_start(owner: type) -> Iterator[str]:
    """The fields that may change while a job that has never started is suspended, as
    `may_change` names those of lists."""
    for name, field in fields_of(owner).items():
        if field.declared.may_change_before_start:
            yield name
        elif isinstance(field.kind, Structs):
            yield from (f"{name}[].{inner}" for inner in may_change_before_start(field.kind.of))


def never_started(job: str) -> str:
    """CEL: a job is suspended, and has been in no phase in which it has pods.

    Each phase leaves a condition.
    """
    waiting, placed = (
        ", ".join(f"'{phase.value}'" for phase in phases)
        for phases in (
            [phase for phase in Phase if phase.is_waiting],
            [phase for phase in Phase if phase.is_placed],
        )
    )
    status = f"{job}.status"
    return (
        f"{job}.spec.suspend && (!has({status}) || "
        f"(!has({status}.phase) || {status}.phase in [{waiting}]) && "
        f"(!has({status}.conditions) || "
        f"!{status}.conditions.exists(condition, condition.type in [{placed}])))"
    )


def fixed_fields(owner: type) -> list[Rule]:
    """Return the rules for the immutable fields of an object."""
    rules = {name: _same_field(field) for name, field in fields_of(owner).items()}
    return [
        {"rule": rule, "message": _FIXED, "fieldPath": f".{name}"}
        for name, rule in rules.items()
        if rule
    ]


def fixed_in_items(listed: Field) -> list[Rule]:
    """Return the rules for a list of objects: its length, and the immutable fields of its items."""
    assert isinstance(listed.kind, Structs)
    item, verb = listed.kind.item, "may not be added or removed while the job exists"
    rules = [
        {
            "rule": "self.size() == oldSelf.size()",
            "message": f"{item}s {verb}; delete it and create it again",
        }
    ]
    for name, field in listed.inner.items():
        if field.is_fixed:
            order = f" and the order of {item}s" if field.declared.default_from else ""
            message = f"{name} of a {item}{order} {_FIXED}"
            rule: Rule = {"rule": _same_in_items(field), "message": message}
            if field.declared.may_change_before_start:
                rule |= {"before_start": True, "message": f"{message}{_OR_SUSPEND}"}
            rules.append(rule)
    return rules


def finished_job() -> Rule:
    """Return the rule that a finished job's spec cannot change.

    Fields that were immutable before have rules of their own.
    """
    phases = ", ".join(f"'{phase.value}'" for phase in Phase if phase.is_finished)
    same = [rule for field in fields_of(JobSpec).values() if (rule := _same_as_it_ended(field))]
    return {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.phase) || "
        f"!(oldSelf.status.phase in [{phases}]) || " + " && ".join(same),
        "message": "may not change, the job has finished",
        "fieldPath": ".spec",
    }


def _same_field(field: Field) -> str | None:
    """Return CEL that a field did not change, as far as its schema shows; None if that is always
    true.
    """
    if field.declared.may_change:
        return None
    is_unseen = any(_is_loose(each) for each in field.inner.values())
    if is_unseen and field.is_required:
        return None
    if is_unseen or not field.is_fixed:
        return _same_presence(f"self.{field.name}")
    return _same(field, "self")


def _is_loose(field: Field) -> bool:
    return isinstance(field.kind, PodTemplate) and field.kind.is_loose


def _same_as_it_ended(field: Field) -> str | None:
    """Return CEL that the mutable parts of a field did not change; None if there are none."""
    if field.declared.may_change:
        return _same(field, "self.spec")
    inner = [each for each in field.inner.values() if each.declared.may_change]
    if not inner:
        return None
    where = f"self.spec.{field.name}"
    if isinstance(field.kind, Struct):
        same = " && ".join(_same(each, where) for each in inner)
    else:
        # One list after the other: all items of a list in a rule have one type.
        maps = [f".map(t, {_value_in_item(each)})" for each in inner]
        same = " && ".join(f"{where}{each} == {_old(where)}{each}" for each in maps)
    return f"(!has({where}) || !has({_old(where)}) || {same})"


def _same(field: Field, owner: str) -> str:
    value = f"{owner}.{field.name}"
    same = f"{value} == {_old(value)}"
    if field.is_always_there:
        return same
    return f"{_same_presence(value)} && (!has({value}) || {same})"


def _same_presence(value: str) -> str:
    return f"has({value}) == has({_old(value)})"


def _same_in_items(field: Field) -> str:
    presence = f"map(t, has(t.{field.name}))"
    if isinstance(field.kind, TemplatePatch):
        # No rule can read its content.
        return f"self.{presence} == oldSelf.{presence}"
    if isinstance(field.kind, Struct | Structs):
        # Its type has no value for an absent field, or none that a rule could distinguish.
        value = f"filter(t, has(t.{field.name})).map(t, t.{field.name})"
    else:
        value = f"map(t, {_value_in_item(field)})"
    same = f"self.{value} == oldSelf.{value}"
    if field.is_always_there:
        return same
    return f"self.{presence} == oldSelf.{presence} && {same}"


def _value_in_item(field: Field) -> str:
    """Return CEL for the value of a field of a list's item `t`."""
    value = f"t.{field.name}"
    if field.declared.default_from:
        return f"has({value}) ? {value} : t.{field.declared.default_from}"
    if field.is_always_there:
        return value
    nothing = _nothing(field) if field.default is None else json.dumps(field.default)
    return f"has({value}) ? {value} : {nothing}"


def _nothing(field: Field) -> str:
    """Return a value of the field's type that represents an absent field."""
    match field.kind:
        case Whole() | Limit():
            return "0"
        case Flag():
            return "false"
        case Labels() | Texts() | Values() | Volumes() | Companions():
            return "[]"
        case Struct() | Structs() | Quantities() | PodTemplate() | TemplatePatch():
            raise NotImplementedError(f"{field.name}: no value of its type stands for none")
        case _:
            return "''"


def _old(value: str) -> str:
    return f"oldSelf{value.removeprefix('self')}"
