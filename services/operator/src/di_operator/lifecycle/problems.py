"""What is wrong with a job without deciding its phase: told in a condition beside those of phases.

A problem is True for as long as decisions find it and turns False with the first that does not.
It is announced by one Warning event when it appears, or appears for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from di_operator.lifecycle.conditions import REASON_NOT_ALLOCATABLE, Aside, Condition
from di_operator.lifecycle.decision import JobEvent
from di_operator.lifecycle.snapshot import Snapshot

SPEC_INVALID: Final = "SpecInvalid"
REASON_REFUSED: Final = "RulesBroken"
REASON_UNREADABLE: Final = "Unreadable"

NOT_ALLOCATABLE: Final = "NotAllocatable"
RECONCILE_FAILED: Final = "ReconcileFailed"

SOLVED: Final[Mapping[str, tuple[str, str]]] = {
    SPEC_INVALID: ("SpecValid", "nothing is wrong with the spec any more"),
    NOT_ALLOCATABLE: ("Allocatable", "the allocator can read the job"),
    RECONCILE_FAILED: ("ReconcileSucceeded", "the operator can act on the job"),
}
"""By condition type: reason and message once the problem is gone. Every type has a line here."""

_GOES_ON = "the job goes on by what could be read: "
_FROZEN = "nothing of the job is created or deleted until its spec can be read: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One condition that is True; ``type`` is a key of SOLVED."""

    type: str
    reason: str
    message: str


def problems_of(snapshot: Snapshot) -> tuple[Problem, ...]:
    """Return what is wrong with a job that has not ended; at most one problem of a type."""
    return (*_spec_problems(snapshot), *_allocation_problems(snapshot))


def defect(error: Exception) -> Aside:
    """Return the condition of a job that the operator failed on by a mistake of its own.

    It turns False with the next decision about the job, as those of problems do.
    """
    what = f"{type(error).__name__}: {error}"
    message = f"the operator cannot act on this job and tries again ({what}); other jobs go on"
    reason = type(error).__name__
    return Aside(type=RECONCILE_FAILED, value=True, reason=reason, message=message)


def asides_of(problems: Iterable[Problem]) -> tuple[Aside, ...]:
    """Return what the conditions of all types of problems are to say."""
    found = {problem.type: problem for problem in problems}
    return tuple(
        Aside(type=kind, value=True, reason=found[kind].reason, message=found[kind].message)
        if kind in found
        else Aside(type=kind, value=False, reason=reason, message=message)
        for kind, (reason, message) in SOLVED.items()
    )


def announcements(before: Iterable[Condition], problems: Iterable[Problem]) -> list[JobEvent]:
    """Return a Warning for each problem that the conditions do not tell of yet."""
    known = {one["type"]: one["reason"] for one in before if one["status"] == "True"}
    return [
        JobEvent(type="Warning", reason=problem.type, message=problem.message)
        for problem in problems
        if known.get(problem.type) != problem.reason
    ]


def _spec_problems(snapshot: Snapshot) -> Iterator[Problem]:
    # A job that was not started is Failed for it, and needs no second word.
    if not snapshot.errors or not snapshot.has_started:
        return
    reason = REASON_UNREADABLE if snapshot.is_frozen else REASON_REFUSED
    before = _FROZEN if snapshot.is_frozen else _GOES_ON
    errors = "; ".join(str(error) for error in snapshot.errors)
    yield Problem(type=SPEC_INVALID, reason=reason, message=before + errors)


def _allocation_problems(snapshot: Snapshot) -> Iterator[Problem]:
    grant = snapshot.grant
    if grant is not None and grant.reason == REASON_NOT_ALLOCATABLE:
        yield Problem(type=NOT_ALLOCATABLE, reason=REASON_UNREADABLE, message=grant.message)
