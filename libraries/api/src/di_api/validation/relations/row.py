"""What a row of relations is, and what rows read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from di_api.field_error import FieldError
from di_api.validation.tasks import Tasks

Rule: TypeAlias = dict[str, Any]
"""`rule`: CEL about `self`, of a change also about `oldSelf`; `message`; `fieldPath` below `self`.

`unless` is CEL about both, under which a job that breaks the rule may change. Without it a job that
broke the rule before may."""
Scope = TypeVar("Scope")


class Whole(NamedTuple):
    """What rows about a whole spec read."""

    spec: Mapping[str, Any]
    tasks: Tasks


class One(NamedTuple):
    """What rows about one task read: where it stands, and the names of all tasks."""

    path: str
    task: Mapping[str, Any]
    known: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Generic[Scope]):
    """A row: the errors that the library finds, and the policy's rules about the same."""

    errors: Callable[[Scope], Iterator[FieldError]]
    rules: tuple[Rule, ...] = ()
    is_all: bool = True
    """Whether the policy's rules refuse all that the library refuses by the row."""
