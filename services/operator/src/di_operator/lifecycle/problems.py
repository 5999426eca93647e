"""What is wrong with a job without deciding its phase: told in a condition beside those of phases.

A problem is True for as long as decisions find it and turns False with the first that does not.
It is announced by one Warning event when it appears, or appears for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from di_api.wording import describe
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


def problems_of(snapshot: Snapshot) -> tuple[Aside, ...]:
    """Return what is wrong with a job that has not ended; at most one condition of a type, all
    of them True and of types that SOLVED knows."""
    return (*_spec_problems(snapshot), *_allocation_problems(snapshot))


def defect(error: Exception) -> Aside:
    """Return the condition of a job that the operator failed on by a mistake of its own.

    It turns False with the next decision about the job, as those of problems do.
    """
    what = describe(error)
    message = f"the operator cannot act on this job and tries again ({what}); other jobs go on"
    reason = type(error).__name__
    return Aside(type=RECONCILE_FAILED, value=True, reason=reason, message=message)


def asides_of(problems: Iterable[Aside]) -> tuple[Aside, ...]:
    """Return what the conditions of all types of problems are to say."""
    found = {problem.type: problem for problem in problems}
    return tuple(
        found.get(kind) or Aside(type=kind, value=False, reason=reason, message=message)
        for kind, (reason, message) in SOLVED.items()
    )


def announcements(before: Sequence[Condition], problems: Iterable[Aside]) -> list[JobEvent]:
    """Return a Warning for each problem that the conditions do not tell of yet."""
    return [
        JobEvent(type="Warning", reason=problem.type, message=problem.message)
        for problem in problems
        if problem.is_news(before)
    ]


def _spec_problems(snapshot: Snapshot) -> Iterator[Aside]:
    # A job that was not started is Failed for it, and needs no second word.
    if not snapshot.errors or not snapshot.has_started:
        return
    reason = REASON_UNREADABLE if snapshot.is_frozen else REASON_REFUSED
    before = _FROZEN if snapshot.is_frozen else _GOES_ON
    errors = "; ".join(str(error) for error in snapshot.errors)
    yield Aside(type=SPEC_INVALID, value=True, reason=reason, message=before + errors)


def _allocation_problems(snapshot: Snapshot) -> Iterator[Aside]:
    grant = snapshot.grant
    if grant is not None and grant.reason == REASON_NOT_ALLOCATABLE:
        yield Aside(
            type=NOT_ALLOCATABLE, value=True, reason=REASON_UNREADABLE, message=grant.message
        )
