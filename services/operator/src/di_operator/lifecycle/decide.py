"""Decides what to do now, from a job and its objects.

The policies are asked in order, and the first that returns a verdict decides. Policies that count
(restarts, reschedules) or end the job only write the status. The next reconcile reads that status
and acts on it. So a crash at any point loses nothing and repeats nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from di_operator.lifecycle.build_status import conclude
from di_operator.lifecycle.converge import converge
from di_operator.lifecycle.ended_or_elsewhere import decide_ended_or_elsewhere
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.ladder import judge
from di_operator.lifecycle.next_decision import as_last
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, earliest
from di_operator.lifecycle.policy_order import POLICIES
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent, Settings

__all__ = ["Decision", "JobEvent", "Settings", "decide"]

NEXT_STEP = 1.0
"""Seconds until a job with more to do is reconciled again if no watch event arrives earlier."""


def decide(snapshot: Snapshot, now: datetime, settings: Settings) -> Decision:
    """Return the decision for the job; pure and total. ``now`` is timezone-aware UTC."""
    decision = decide_ended_or_elsewhere(snapshot, now) or _decide_active(snapshot, now, settings)
    late = [each.late_actions(snapshot, now) for each in POLICIES if each.late_actions is not None]
    if any(late):
        return replace(decision, late_actions=sum(late, ()))
    return as_last(snapshot, decision, now, settings)


def _decide_active(snapshot: Snapshot, now: datetime, settings: Settings) -> Decision:
    job_type = job_type_of(snapshot.job, snapshot.spec)
    verdict = judge(job_type, snapshot, now, settings)
    if verdict is None:
        plan = job_type.plan(snapshot, now, settings)
        for policy in POLICIES:
            if policy.prepare is not None:
                plan = policy.prepare(snapshot, plan, now, settings)
        verdict = converge(snapshot, plan)
    for policy in POLICIES:
        if policy.amend is not None:
            verdict = policy.amend(snapshot, verdict, now)
    decision = conclude(snapshot, verdict, now)
    if decision.status is None and not decision.actions:
        decision = _repair(snapshot, decision, settings)
    dues = [policy.due(snapshot, now) for policy in POLICIES if policy.due is not None]
    if decision.status is not None and _has_more_to_do(verdict):
        dues.append(NEXT_STEP)
    return replace(decision, requeue_after=earliest(decision.requeue_after, *dues))


def _repair(snapshot: Snapshot, decision: Decision, settings: Settings) -> Decision:
    """Add repairs, last of all: a refused repair must not delay other actions."""
    repairs = [policy.repair(snapshot, settings) for policy in POLICIES if policy.repair]
    if not any(repair.actions or repair.events for repair in repairs):
        return decision
    return replace(
        decision,
        actions=tuple(action for repair in repairs for action in repair.actions),
        events=(*decision.events, *(event for repair in repairs for event in repair.events)),
    )


def _has_more_to_do(verdict: Verdict) -> bool:
    return (
        verdict.phase.is_finished
        or bool(verdict.restarts or verdict.reschedules or verdict.restarted or verdict.regrouped)
        or verdict.ledger is not None
        or verdict.stand_ins is not None
    )
