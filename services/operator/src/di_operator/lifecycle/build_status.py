"""From what a policy says about a job to its new status, once, and the events that go with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from di_api.stand_ins import as_status
from di_api.timestamps import format_time
from di_operator.lifecycle.failure.losses import remembered
from di_operator.lifecycle.failure.refused_creates import until_retry
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import OWNED_FIELDS, Status, dump_avoided
from di_operator.lifecycle.observed.verdict import Verdict, earliest
from di_operator.lifecycle.policies.forecast import look_ahead
from di_operator.lifecycle.policies.kueue_admission import admitted_status, queued_aside
from di_operator.lifecycle.policies.node_checks import avoided_nodes, check_nodes
from di_operator.lifecycle.policies.pending_timeout import below_minimum
from di_operator.lifecycle.policies.ranks import allocation_by_rank
from di_operator.lifecycle.policies.requested_restart import heeded_requests
from di_operator.lifecycle.problems import problems_of
from di_operator.lifecycle.vocabulary import conditions
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent
from di_operator.lifecycle.vocabulary.phases import check_transition
from di_operator.lifecycle.vocabulary.reasons import OF_PHASES, Reason

COUNTS_PERIOD = 10.0
"""Seconds between two status writes that tell nothing but new counts of pods.

A write for every pod that becomes ready would cost the API server more than the pods do; a change
of phase carries the counts anyhow.
"""

_FROM_SPEC = (
    *("replicas", "readyReplicas", "taskStatus", "replicaStatus"),
    *("placement", "allocation", "placementTime", "replicaSeconds", "batchSize", "avoidedNodes"),
)

_SUSPENDED = Aside(
    type=conditions.SUSPENDED,
    value=True,
    reason=Reason.JOB_SUSPENDED,
    message="suspend is set in the spec",
)
_RESUMED = replace(
    _SUSPENDED,
    value=False,
    reason=conditions.REASON_RESUMED,
    message="suspend is no longer set in the spec",
)


def conclude(job_type: JobType, snapshot: Snapshot, verdict: Verdict, now: datetime) -> Decision:
    """Turn a verdict into a decision: the whole new status, once, and an event for a new phase.

    Raises IllegalTransition if the verdict breaks the table of phases.
    """
    before = snapshot.status
    check_transition(before.phase, verdict.phase)
    nodes = check_nodes(snapshot)
    of_problems, warnings = problems_of(snapshot, nodes, now)
    minimum = below_minimum(snapshot, now)
    asides = (
        *(_SUSPENDED if _is_suspended(snapshot) else _RESUMED, *of_problems),
        *((minimum,) if minimum is not None else ()),
        *((queued,) if (queued := queued_aside(snapshot)) is not None else ()),
        *verdict.asides,
    )
    status = {**_status(snapshot, verdict, asides, now), **job_type.status(snapshot, verdict.phase)}
    if avoided := avoided_nodes(snapshot, nodes, now):
        status["avoidedNodes"] = dump_avoided(avoided)
    outlook = look_ahead(snapshot, verdict.phase, now, counts=COUNTS_PERIOD)
    status |= outlook.written
    owned = {key: before.raw[key] for key in OWNED_FIELDS if key in before.raw}
    reason = _reason(snapshot, verdict)
    changed_phase = verdict.phase is not before.phase
    tells_more = status != owned or verdict.insist
    if not tells_more and not outlook.is_news:
        return Decision(
            actions=verdict.actions,
            events=verdict.events,
            requeue_after=verdict.requeue_after,
        )
    # The time of the last write is also that of the last refusal: counts must not move it.
    pause = COUNTS_PERIOD if tells_more else outlook.pause
    wait = max(_until(pause, snapshot, now), until_retry(snapshot, now))
    if wait > 0 and not _is_urgent(snapshot, verdict, asides):
        return Decision(
            actions=verdict.actions,
            events=verdict.events,
            requeue_after=earliest(verdict.requeue_after, wait),
        )
    status = {key: value for key, value in status.items() if key not in outlook.written}
    status |= outlook.present
    _stamp(status, now)
    announced = (
        changed_phase
        or reason != before.reason
        # Where the verdict has events of its own, they tell what was counted.
        or (verdict.restarts + verdict.reschedules > 0 and not verdict.events)
        or verdict.insist
    )
    told = verdict.groups.events if verdict.groups is not None else ()
    # What is announced is no reason that was written before: that one may be anything.
    news = JobEvent(reason=_new_reason(verdict), message=_message(snapshot, verdict))
    return Decision(
        actions=verdict.actions,
        status=status,
        events=(*verdict.events, *((news,) if announced else ()), *warnings, *told),
        requeue_after=verdict.requeue_after,
        from_absence=verdict.from_absence,
    )


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


def _is_suspended(snapshot: Snapshot) -> bool:
    if snapshot.is_frozen:
        return conditions.is_true(snapshot.status.conditions, conditions.SUSPENDED)
    return snapshot.spec is not None and snapshot.spec.suspend


def _status(
    snapshot: Snapshot, verdict: Verdict, asides: Iterable[Aside], now: datetime
) -> dict[str, Any]:
    before = snapshot.status
    finished = verdict.phase.is_finished
    status: dict[str, Any] = {
        "phase": verdict.phase.value,
        "conditions": conditions.advance(
            before.conditions,
            phase=verdict.phase,
            reason=_reason(snapshot, verdict),
            message=_message(snapshot, verdict),
            asides=asides,
            generation=snapshot.generation,
            now=now,
        ),
        "restarts": before.restarts + verdict.restarts,
        "reschedules": before.reschedules + verdict.reschedules,
        **(_kept(before) if snapshot.is_frozen else _counts(snapshot)),
    }
    if finished:
        status["readyReplicas"] = 0
    if snapshot.placement is not None:
        status["placement"] = {task: list(nodes) for task, nodes in snapshot.placement.items()}
        status["allocation"] = allocation_by_rank(snapshot)
        is_new = snapshot.placement != before.placement
        status["placementTime"] = format_time(now if is_new else before.placed_at or now)
        status["replicaSeconds"] = int(before.attained(now) if is_new else before.replica_seconds)
        if (batch := _batch_size(snapshot)) is not None:
            status["batchSize"] = batch
    status |= (verdict.ledger or before.ledger).dump()
    if attempts := _attempts(before, verdict):
        status["restartAttempts"] = attempts
    if regrouped := _replica_attempts(before, verdict):
        status["replicaAttempts"] = regrouped
    if heeded := heeded_requests(snapshot, verdict).dump():
        status["restartedAt"] = heeded
    if losses := remembered(snapshot, verdict.counted, now):
        status["failures"] = losses
    if groups := _groups(snapshot, verdict):
        status["groups"] = groups
    if admitted := admitted_status(snapshot):
        status["admitted"] = dict(admitted)
    if stand_ins := _stand_ins(snapshot, verdict):
        status["standIns"] = stand_ins
    if not _is_suspended(snapshot):
        # As in batch/v1 Job: the clock of activeDeadlineSeconds starts anew after a suspension.
        status["startTime"] = format_time(before.started or now)
    if finished:
        status["completionTimestamp"] = format_time(before.completed or now)
    return status


def _batch_size(snapshot: Snapshot) -> int | None:
    """The allocator's advice; until its first word that which was written."""
    grant = snapshot.grant
    if grant is not None and grant.placement is not None:
        return grant.batch_size
    return snapshot.status.batch_size


def _attempts(before: Status, verdict: Verdict) -> dict[str, int]:
    attempts = dict(before.restart_attempts)
    for task in sorted(verdict.restarted):
        attempts[task] = attempts.get(task, 0) + 1
    return attempts


def _replica_attempts(before: Status, verdict: Verdict) -> dict[str, dict[str, int]]:
    attempts = {task: dict(found) for task, found in before.replica_attempts.items()}
    for task, index in verdict.regrouped:
        found = attempts.setdefault(task, {})
        found[index] = found.get(index, 0) + 1
    return {
        task: {str(index): found[index] for index in sorted(found)}
        for task, found in attempts.items()
    }


def _groups(snapshot: Snapshot, verdict: Verdict) -> Any:
    return snapshot.status.raw.get("groups") if verdict.groups is None else verdict.groups.status


def _stand_ins(snapshot: Snapshot, verdict: Verdict) -> Any:
    if verdict.stand_ins is None:
        return snapshot.status.raw.get("standIns")
    return as_status(verdict.stand_ins)


def _counts(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "replicas": len(snapshot.slots),
        "readyReplicas": len(snapshot.ready),
        "taskStatus": _task_status(snapshot),
    }


def _kept(before: Status) -> dict[str, Any]:
    """What only the spec could tell anew."""
    return {key: before.raw[key] for key in _FROM_SPEC if key in before.raw}


def _task_status(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Count the replicas of each task by the phase of their pod, Pending without one.

    The sums are what the spec asked for; the next reconcile tells a new spec by them.
    """
    counts: dict[str, dict[str, int]] = {task: {} for task in snapshot.desired}
    for slot in snapshot.slots:
        pod = snapshot.held.get(slot.name)
        phases = counts.setdefault(slot.task.name, {})
        phase = pod.phase if pod is not None else "Pending"
        phases[phase] = phases.get(phase, 0) + 1
    return counts


def _is_urgent(snapshot: Snapshot, verdict: Verdict, asides: Iterable[Aside]) -> bool:
    """Whether the status tells more than new counts."""
    before = snapshot.status
    counted = before.counted
    return (
        verdict.insist
        or verdict.phase is not before.phase
        or _reason(snapshot, verdict) != before.reason
        or bool(verdict.restarts or verdict.reschedules or verdict.restarted or verdict.regrouped)
        or any(pod.uid not in counted for pod in verdict.counted)
        or verdict.ledger is not None
        or verdict.stand_ins is not None
        or heeded_requests(snapshot, verdict) != before.heeded
        or any(aside.is_news(before.conditions) for aside in asides)
        or _groups(snapshot, verdict) != before.raw.get("groups")
        or (snapshot.spec is not None and snapshot.desired != before.desired)
        or _is_told_to_allocator(snapshot)
    )


def _is_told_to_allocator(snapshot: Snapshot) -> bool:
    """Whether there is more or less for the allocator to give than the status says."""
    is_sized = snapshot.spec is not None and snapshot.spec.preemptible
    return is_sized and admitted_status(snapshot) != snapshot.status.raw.get("admitted", {})


def _until(pause: float, snapshot: Snapshot, now: datetime) -> float:
    updated = snapshot.status.updated
    if updated is None:
        return 0.0
    passed = (now - updated).total_seconds()
    # A clock that was set back must not silence the status until it has caught up.
    return pause - passed if passed >= 0 else 0.0


def _stamp(status: Mapping[str, Any], now: datetime) -> None:
    """Note the time of the write on the condition that is True."""
    current: Iterable[dict[str, Any]] = status["conditions"]
    for condition in current:
        if condition["type"] == status["phase"]:
            condition["lastUpdateTime"] = format_time(now)
