"""What is wrong with a job without deciding its phase: told in a condition beside those of phases.

A problem is True for as long as decisions find it and turns False with the first that does not.
It is announced by one Warning event when it appears, or appears for another reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from di_api.wording import describe
from di_operator.lifecycle.conditions import Aside, Condition
from di_operator.lifecycle.decision import JobEvent
from di_operator.lifecycle.reasons import Problem, Reason
from di_operator.lifecycle.snapshot import Snapshot

REASON_REFUSED: Final = "RulesBroken"
REASON_UNREADABLE: Final = "Unreadable"

SOLVED: Final[Mapping[Problem, tuple[str, str]]] = {
    Problem.SPEC_INVALID: ("SpecValid", "nothing is wrong with the spec any more"),
    Problem.NOT_ALLOCATABLE: ("Allocatable", "the allocator can read the job"),
    Problem.RECONCILE_FAILED: ("ReconcileSucceeded", "the operator can act on the job"),
}
"""Reason and message of the condition once the problem is gone. Every problem has a line here."""

_GOES_ON = "the job goes on by what could be read: "
_FROZEN = "nothing of the job is created or deleted until its spec can be read: "


def problems_of(snapshot: Snapshot) -> dict[Problem, Aside]:
    """Return what is wrong with a job that has not ended, each with its condition: True."""
    found = (*_spec_problems(snapshot), *_allocation_problems(snapshot))
    return {
        problem: Aside(type=problem, value=True, reason=reason, message=message)
        for problem, reason, message in found
    }


def defect(error: Exception) -> Aside:
    """Return the condition of a job that the operator failed on by a mistake of its own.

    It turns False with the next decision about the job, as those of problems do.
    """
    what = describe(error)
    message = f"the operator cannot act on this job and tries again ({what}); other jobs go on"
    reason = type(error).__name__
    return Aside(type=Problem.RECONCILE_FAILED, value=True, reason=reason, message=message)


def asides_of(problems: Mapping[Problem, Aside]) -> tuple[Aside, ...]:
    """Return what the conditions of all types of problems are to say."""
    return tuple(
        problems.get(kind) or Aside(type=kind, value=False, reason=reason, message=message)
        for kind, (reason, message) in SOLVED.items()
    )


def announcements(before: Sequence[Condition], problems: Mapping[Problem, Aside]) -> list[JobEvent]:
    """Return a Warning for each problem that the conditions do not tell of yet."""
    return [
        JobEvent(reason=problem, message=aside.message)
        for problem, aside in problems.items()
        if aside.is_news(before)
    ]


def _spec_problems(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    # A job that was not started is Failed for it, and needs no second word.
    if not snapshot.errors or not snapshot.has_started:
        return
    reason = REASON_UNREADABLE if snapshot.is_frozen else REASON_REFUSED
    before = _FROZEN if snapshot.is_frozen else _GOES_ON
    errors = "; ".join(str(error) for error in snapshot.errors)
    yield Problem.SPEC_INVALID, reason, before + errors


def _allocation_problems(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    grant = snapshot.grant
    if grant is not None and grant.reason is Reason.NOT_ALLOCATABLE:
        yield Problem.NOT_ALLOCATABLE, REASON_UNREADABLE, grant.message
