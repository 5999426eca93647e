"""What follows from the declaration of a field."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from di_api.crd.changes import fixed_fields, fixed_in_items, may_change
from di_api.crd.tables import TABLES, table
from di_api.spec import Coordinated, JobSpec, Replica, Scheduling, Task
from di_api.spec.declared import Declared, Field, fields_of
from di_api.spec.kinds import Flag, Kind, Label, OneOf, Struct, Structs, Text, Whole

AGAIN = "may not change while the job exists; delete it and create it again"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    some_name: Annotated[str, Declared(kind=Label(), about="A name.", default_from="colour")]
    colour: Annotated[Colour, Declared(kind=OneOf(Colour), about="A colour.")]
    count: Annotated[int, Declared(kind=Whole(1), about="A count.", may_change=True)] = 1
    limit: Annotated[int | None, Declared(kind=Whole(1), about="A limit.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    some_limit: Annotated[int, Declared(kind=Whole(1, 10), about="A limit.")] = 3
    a_flag: Annotated[bool, Declared(kind=Flag(), about="A flag.", is_filled_in=False)] = False
    a_text: Annotated[str | None, Declared(kind=Text(), about="A text.", may_change=True)] = None
    parts: Annotated[
        tuple[Part, ...], Declared(kind=Structs(Part, "part", 9), about="The parts.")
    ] = ()
    inner: Annotated[Scheduling | None, Declared(kind=Struct(Scheduling), about="An object.")] = (
        None
    )


def test_a_field_is_derived_from_its_attribute() -> None:
    assert {f.name: (f.default, f.is_required) for f in fields_of(Owner).values()} == {
        "someLimit": (3, False),
        "aFlag": (None, False),
        "aText": (None, False),
        "parts": (None, False),
        "inner": (None, False),
    }
    assert {f.name: (f.default, f.is_required) for f in fields_of(Part).values()} == {
        "someName": (None, True),
        "colour": (None, True),
        "count": (1, False),
        "limit": (None, False),
    }


def test_fixed_fields_of_an_object_become_crd_rules() -> None:
    assert fixed_fields(Owner) == [
        {"rule": rule, "message": AGAIN, "fieldPath": path}
        for path, rule in (
            (".someLimit", "self.someLimit == oldSelf.someLimit"),
            (
                ".aFlag",
                "has(self.aFlag) == has(oldSelf.aFlag) && "
                "(!has(self.aFlag) || self.aFlag == oldSelf.aFlag)",
            ),
            (".parts", "has(self.parts) == has(oldSelf.parts)"),
            (
                ".inner",
                "has(self.inner) == has(oldSelf.inner) && "
                "(!has(self.inner) || self.inner == oldSelf.inner)",
            ),
        )
    ]


def test_fixed_fields_of_list_items_become_crd_rules() -> None:
    name = "has(t.someName) ? t.someName : t.colour"
    limit = "has(t.limit) ? t.limit : 0"
    assert fixed_in_items(fields_of(Owner)["parts"]) == [
        {
            "rule": "self.size() == oldSelf.size()",
            "message": "parts may not be added or removed while the job exists; delete it and "
            "create it again",
        },
        {
            "rule": f"self.map(t, {name}) == oldSelf.map(t, {name})",
            "message": f"someName of a part and the order of parts {AGAIN}",
        },
        {
            "rule": "self.map(t, t.colour) == oldSelf.map(t, t.colour)",
            "message": f"colour of a part {AGAIN}",
        },
        {
            "rule": "self.map(t, has(t.limit)) == oldSelf.map(t, has(t.limit)) && "
            f"self.map(t, {limit}) == oldSelf.map(t, {limit})",
            "message": f"limit of a part {AGAIN}",
        },
    ]


@pytest.mark.parametrize("field", ["service", "ports"])
def test_objects_and_lists_in_list_items_are_compared_as_a_whole(field: str) -> None:
    rules = fixed_in_items(fields_of(JobSpec)["tasks"])
    (rule,) = [each["rule"] for each in rules if each["message"].startswith(f"{field} of a task ")]
    presence = f"map(t, has(t.{field}))"
    value = f"filter(t, has(t.{field})).map(t, t.{field})"
    assert rule == f"self.{presence} == oldSelf.{presence} && self.{value} == oldSelf.{value}"


def test_fields_that_may_change_are_listed() -> None:
    assert [*may_change(Owner)] == ["aText", "count"]
    assert [*may_change(Owner, with_lists=True)] == ["aText", "parts[].count"]


DECLARED = [
    (owner, field)
    for owner in (JobSpec, Task, Scheduling, Coordinated, Replica)
    for field in fields_of(owner).values()
]
TYPES: dict[type[Kind], Any] = {Flag: bool, Whole: int, Text: str, Label: str}


@pytest.mark.parametrize(
    ("owner", "field"), DECLARED, ids=[f"{o.__name__}.{f.name}" for o, f in DECLARED]
)
def test_an_attribute_has_the_type_of_its_field(owner: type, field: Field) -> None:
    hint = get_type_hints(owner)[field.attribute]
    (attribute,) = (a for a in dataclasses.fields(owner) if a.name == field.attribute)
    takes_none = type(None) in get_args(hint)
    assert takes_none == (attribute.default is None)
    types = [each for each in get_args(hint) if each is not type(None)] if takes_none else [hint]
    match field.kind:
        case OneOf(enumeration=enumeration):
            assert types == [enumeration]
        case Struct(of=of):
            assert types == [of]
        case Structs(of=of):
            assert (get_origin(hint), get_args(hint)) == (tuple, (of, ...))
        case kind if type(kind) in TYPES:
            assert types == [TYPES[type(kind)]]
        case _:
            assert get_origin(hint) is not None


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_as_many_cells_in_each_line(name: str) -> None:
    assert len({line.count("|") for line in table(name)}) == 1


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_a_table_says_what_its_field_is(name: str) -> None:
    rows = [line for line in table(name) if line.startswith("| `")]
    for row in rows:
        meaning = row.strip("| ").split(" | ")[-1].removeprefix("| ")
        assert not meaning.startswith(("[", "The webhook adds it")), row
        assert len(meaning) > 10, row


def test_the_reference_has_the_description_of_each_field_of_an_object() -> None:
    texts = "\n".join(line for name in TABLES for line in table(name))
    for owner in (JobSpec, Task):
        for field in fields_of(owner).values():
            for inner in field.inner.values() if isinstance(field.kind, Struct) else ():
                if isinstance(inner.kind, Struct):
                    continue
                assert inner.declared.about in texts, f"{field.name}.{inner.name}"
