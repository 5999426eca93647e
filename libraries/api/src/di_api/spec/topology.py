"""`spec.scheduling.topology`: pods that have to be near each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from di_api.spec.bounds import MAX_TASKS
from di_api.spec.declared import Declared
from di_api.spec.kinds import Labels, OneOf, Text

_LONGEST_KEY = 317
"""Maximum length of a node label's key: a DNS subdomain, a slash and a name."""


class Colocate(StrEnum):
    """The pods that share one topology domain."""

    TASKS = "Tasks"
    """All pods of the named tasks."""
    TASK = "Task"
    """The pods of each task."""
    REPLICA = "Replica"
    """The pods of each replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A constraint that pods run in one domain: on nodes with the same value of a label."""

    tasks: Annotated[
        tuple[str, ...],
        Declared(kind=Labels("task", MAX_TASKS), about="Names of tasks."),
    ]
    colocate: Annotated[
        Colocate,
        Declared(
            kind=OneOf(Colocate),
            about="Pods that share one domain: all (`Tasks`), those of each task (`Task`), or "
            "those "
            "of each replica of several pods (`Replica`).",
            is_filled_in=False,
            absent="`Task`",
        ),
    ] = Colocate.TASK
    required: Annotated[
        str | None,
        Declared(
            kind=Text(_LONGEST_KEY),
            about="Node label of the domains; while no domain has enough capacity, the pods wait. "
            "Exactly one of `required` and `preferred`.",
        ),
    ] = None
    preferred: Annotated[
        str | None,
        Declared(
            kind=Text(_LONGEST_KEY),
            about="Node label of the domains; if no domain has enough capacity, the pods run in "
            "several.",
        ),
    ] = None

    @property
    def level(self) -> str:
        """Return the node label of the domain."""
        return self.required or self.preferred or ""
