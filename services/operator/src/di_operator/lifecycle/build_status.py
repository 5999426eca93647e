"""Builds the new status of a job from its transition, with the events that follow the write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from di_operator.lifecycle.failure.refused_creates import until_retry
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import OWNED_FIELDS
from di_operator.lifecycle.observed.verdict import Verdict, earliest
from di_operator.lifecycle.policy import COUNTS_PERIOD, Report
from di_operator.lifecycle.policy_order import POLICIES
from di_operator.lifecycle.vocabulary import conditions
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent
from di_operator.lifecycle.vocabulary.phases import check_transition
from di_operator.lifecycle.vocabulary.reasons import OF_PHASES, Problem, Reason


def conclude(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Decision:
    """Return the decision for a verdict: the whole new status, and an event for a new phase.

    Raises IllegalTransition if the table of phases does not allow the verdict.
    """
    before = snapshot.status
    check_transition(before.phase, verdict.phase)
    reports = [
        policy.report(snapshot, verdict, now) for policy in POLICIES if policy.report is not None
    ]
    asides = [*(each for report in reports for each in report.conditions), *verdict.asides]
    if snapshot.spec is not None:
        # If the spec cannot be read, it is unknown which conditions still hold.
        asides.extend(conditions.taken_back(before.conditions, asides))
    status = _status(snapshot, verdict, reports, asides, now)
    owned = {key: before.raw[key] for key in OWNED_FIELDS if key in before.raw}
    has_more = status != owned or verdict.force_write
    drifts = [report.drift for report in reports if report.drift is not None]
    if not has_more and not drifts:
        return _unwritten(verdict)
    # The time of the last write is also that of the last refusal: new counts must not change it.
    delay = COUNTS_PERIOD if has_more else min(drift.delay for drift in drifts)
    wait = max(_until(delay, snapshot, now), until_retry(snapshot, now))
    if wait > 0 and not _is_urgent(snapshot, verdict, reports, asides):
        return _unwritten(verdict, wait)
    for report in reports:
        if report.drift is not None:
            status = {key: value for key, value in status.items() if key not in report.fields}
            status |= report.drift.fields
    conditions.stamp(status["conditions"], verdict.phase, now)
    return Decision(
        actions=verdict.actions,
        status=status,
        events=tuple(_events(snapshot, verdict, asides)),
        requeue_after=verdict.requeue_after,
        from_absence=verdict.from_absence,
    )


def _status(
    snapshot: Snapshot,
    verdict: Verdict,
    reports: Iterable[Report],
    asides: Iterable[conditions.Aside],
    now: datetime,
) -> dict[str, Any]:
    status: dict[str, Any] = {
        "observedGeneration": snapshot.generation,
        "phase": verdict.phase.value,
        "conditions": conditions.advance(
            snapshot.status.conditions,
            phase=verdict.phase,
            reason=_reason(snapshot, verdict),
            message=_message(snapshot, verdict),
            asides=asides,
            generation=snapshot.generation,
            now=now,
        ),
    }
    for report in reports:
        status |= report.fields
    return status


def _unwritten(verdict: Verdict, wait: float | None = None) -> Decision:
    """Return a decision that writes no status, with the seconds until the status may be written."""
    return Decision(
        actions=verdict.actions,
        events=verdict.events,
        requeue_after=earliest(verdict.requeue_after, wait),
    )


def _events(
    snapshot: Snapshot, verdict: Verdict, asides: Sequence[conditions.Aside]
) -> Iterable[JobEvent]:
    """Yield the events that are recorded once the status is written."""
    before = snapshot.status
    yield from verdict.events
    if (
        verdict.phase is not before.phase
        or _reason(snapshot, verdict) != before.reason
        # The verdict's own events, if there are any, already report what was counted.
        or (verdict.restarts + verdict.reschedules > 0 and not verdict.events)
        or verdict.force_write
    ):
        # The written reason may be any text, so no event repeats it.
        yield JobEvent(reason=_new_reason(verdict), message=_message(snapshot, verdict))
    for aside in asides:
        if isinstance(aside.type, Problem) and aside.value and aside.is_news(before.conditions):
            yield JobEvent(reason=aside.type, message=aside.message)
    if verdict.groups is not None:
        yield from verdict.groups.events


def _reason(snapshot: Snapshot, verdict: Verdict) -> str:
    if verdict.message is None and verdict.phase is snapshot.status.phase:
        return snapshot.status.reason or OF_PHASES[verdict.phase]
    return _new_reason(verdict)


def _new_reason(verdict: Verdict) -> Reason:
    return verdict.reason or OF_PHASES[verdict.phase]


def _message(snapshot: Snapshot, verdict: Verdict) -> str:
    if verdict.message is not None:
        return verdict.message
    present = snapshot.status.condition
    return present["message"] if present is not None else ""


def _is_urgent(
    snapshot: Snapshot,
    verdict: Verdict,
    reports: Iterable[Report],
    asides: Iterable[conditions.Aside],
) -> bool:
    """Return whether more than the counts changes in the status."""
    before = snapshot.status
    return (
        verdict.force_write
        or verdict.phase is not before.phase
        or _reason(snapshot, verdict) != before.reason
        or any(report.is_urgent for report in reports)
        or any(aside.is_news(before.conditions) for aside in asides)
    )


def _until(delay: float, snapshot: Snapshot, now: datetime) -> float:
    updated = snapshot.status.updated
    if updated is None:
        return 0.0
    passed = (now - updated).total_seconds()
    # A clock that was set back must not delay the next write until it has caught up.
    return delay - passed if passed >= 0 else 0.0
