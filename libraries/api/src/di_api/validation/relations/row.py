"""The form of a rule, and the input of its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from di_api.field_error import FieldError
from di_api.validation.tasks import Tasks

Rule: TypeAlias = dict[str, Any]
"""Fields of a rule: `rule`, CEL about `self`, for changes also `oldSelf`; `message`; `fieldPath`
below `self`.

`unless` is CEL about both: a job that breaks the rule can change if it is true. Without `unless` a
job that broke the rule before can change. `before_start` is set where a change that breaks the rule
is admitted while the job is suspended and has never started.
"""
Scope = TypeVar("Scope")


class Whole(NamedTuple):
    """Input of rules about a whole spec."""

    spec: Mapping[str, Any]
    tasks: Tasks


class One(NamedTuple):
    """Input of rules about one task: its path, and the names of all tasks."""

    path: str
    task: Mapping[str, Any]
    known: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Generic[Scope]):
    """A rule: the function of the library, and the policy's rules for the same."""

    errors: Callable[[Scope], Iterator[FieldError]]
    rules: tuple[Rule, ...] = ()
    is_all: bool = True
    """Whether the policy's rules refuse everything that the library's function refuses."""
