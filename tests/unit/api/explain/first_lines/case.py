"""A recorded state of a job, and what the first line about it has to have."""

from __future__ import annotations

from dataclasses import dataclass

from di_api.explain import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One state.

    Attributes:
        says: words of the true cause, all of them in the first line.
        never: words of a wrong cause, none of them in the first line.
        thread: the public thread that has this state; empty: seen on a node of our own.
    """

    facts: Facts
    says: tuple[str, ...]
    never: tuple[str, ...] = ()
    thread: str = ""
