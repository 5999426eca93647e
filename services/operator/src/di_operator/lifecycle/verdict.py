"""What a policy says about a job, and the status that follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from di_api.model import Phase
from di_operator.lifecycle import conditions
from di_operator.lifecycle.actions import Action
from di_operator.lifecycle.backoff import until_retry
from di_operator.lifecycle.conditions import Aside, phase_reason
from di_operator.lifecycle.decision import Decision, JobEvent
from di_operator.lifecycle.phases import check_transition
from di_operator.lifecycle.pods import Pod, loss_record
from di_operator.lifecycle.problems import announcements, asides_of, problems_of
from di_operator.lifecycle.ranks import allocation_by_rank
from di_operator.lifecycle.replica_status import replica_status
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.status import OWNED_FIELDS, Status
from di_operator.lifecycle.timestamps import format_time

COUNTS_PERIOD = 10.0
"""Seconds between two status writes that tell nothing but new counts of pods.

A write for every pod that becomes ready would cost the API server more than the pods do; a change
of phase carries the counts anyhow.
"""

MAX_LOSSES = 1024
"""Most entries the CRD allows in ``status.failures``."""

MAX_GONE = 64
"""Counted pods remembered after they are gone, for a snapshot that still shows them."""

_FROM_SPEC = (
    *("replicas", "readyReplicas", "taskStatus", "replicaStatus"),
    *("placement", "allocation", "placementTime", "replicaSeconds"),
)

# Phases that somebody may have to act on.
_WARNINGS = frozenset({Phase.FAILED, Phase.RESTARTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The phase a job is in from now on, why, and what is to be done.

    ``message`` None keeps reason and message of the present phase. ``counted`` are the pods
    whose end ``restarts`` and ``reschedules`` (added to the present counts) account for.
    ``from_absence`` says that some were lost without a trace. ``insist`` writes status and event
    also when they say the same as before: it happened again.
    """

    phase: Phase
    reason: str | None = None
    message: str | None = None
    restarts: int = 0
    reschedules: int = 0
    counted: tuple[Pod, ...] = ()
    actions: tuple[Action, ...] = ()
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None
    insist: bool = False
    from_absence: bool = False


def conclude(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Decision:
    """Turn a verdict into a decision: the whole new status, once, and an event for a new phase.

    Raises IllegalTransition if the verdict breaks the table of phases.
    """
    before = snapshot.status
    check_transition(before.phase, verdict.phase)
    problems = problems_of(snapshot)
    asides = (_suspension(snapshot), *asides_of(problems))
    status = _status(snapshot, verdict, asides, now)
    owned = {key: before.raw[key] for key in OWNED_FIELDS if key in before.raw}
    news = JobEvent(
        type="Warning" if _is_warning(verdict) else "Normal",
        reason=_reason(snapshot, verdict),
        message=_message(snapshot, verdict),
    )
    changed_phase = verdict.phase is not before.phase
    if status == owned and not verdict.insist:
        return Decision(
            actions=verdict.actions,
            events=verdict.events,
            requeue_after=verdict.requeue_after,
        )
    # The time of the last write is also that of the last refusal: counts must not move it.
    wait = max(_until_counts(snapshot, now), until_retry(snapshot, now))
    if wait > 0 and not _is_urgent(snapshot, verdict, asides):
        return Decision(
            actions=verdict.actions,
            events=verdict.events,
            requeue_after=earliest(verdict.requeue_after, wait),
        )
    _stamp(status, now)
    warnings = announcements(before.conditions, problems)
    announced = (
        changed_phase
        or news.reason != before.reason
        # Where the verdict has events of its own, they tell what was counted.
        or (verdict.restarts + verdict.reschedules > 0 and not verdict.events)
        or verdict.insist
    )
    return Decision(
        actions=verdict.actions,
        status=status,
        events=(*verdict.events, *((news,) if announced else ()), *warnings),
        requeue_after=verdict.requeue_after,
        from_absence=verdict.from_absence,
    )


def countable(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods whose end is not counted yet, as many as the status has room for.

    Counted pods that exist take room. Once they are deleted it is the turn of the others.
    """
    counted = snapshot.status.counted
    room = max(0, MAX_LOSSES - len(counted & _present(snapshot)))
    return list(islice((pod for pod in pods if pod.uid not in counted), room))


def is_counting(snapshot: Snapshot) -> bool:
    """Whether more pods ended at one time than the status has room for.

    Those that are counted now are then the rest of them, and no further restart.
    """
    moving = snapshot.status.phase in (Phase.RESTARTING, Phase.RESCHEDULING)
    return moving and len(snapshot.status.losses) >= MAX_LOSSES


def earliest(*delays: float | None) -> float | None:
    """Return the shortest of the delays, None if there is none."""
    return min((delay for delay in delays if delay is not None), default=None)


def count_of(number: int, noun: str) -> str:
    """Write ``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _reason(snapshot: Snapshot, verdict: Verdict) -> str:
    if verdict.message is None and verdict.phase is snapshot.status.phase:
        return snapshot.status.reason or phase_reason(verdict.phase)
    return verdict.reason or phase_reason(verdict.phase)


def _message(snapshot: Snapshot, verdict: Verdict) -> str:
    if verdict.message is not None:
        return verdict.message
    present = snapshot.status.condition
    return present["message"] if present is not None else ""


def _is_warning(verdict: Verdict) -> bool:
    return verdict.phase in _WARNINGS or verdict.reason in (
        conditions.REASON_QUOTA,
        conditions.REASON_FORBIDDEN,
        conditions.REASON_NODE_LISTS,
        conditions.REASON_NAME_CONFLICT,
    )


def _is_suspended(snapshot: Snapshot) -> bool:
    if snapshot.is_frozen:
        return conditions.is_true(snapshot.status.conditions, conditions.SUSPENDED)
    return snapshot.spec is not None and snapshot.spec.suspend


def _suspension(snapshot: Snapshot) -> Aside:
    suspended = _is_suspended(snapshot)
    return Aside(
        type=conditions.SUSPENDED,
        value=suspended,
        reason=conditions.REASON_SUSPENDED if suspended else conditions.REASON_RESUMED,
        message=f"suspend is {'set' if suspended else 'no longer set'} in the spec",
    )


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
    if snapshot.is_coordinated:
        status["replicaStatus"] = replica_status(snapshot, verdict.phase)
    if snapshot.placement is not None:
        status["placement"] = {task: list(nodes) for task, nodes in snapshot.placement.items()}
        status["allocation"] = allocation_by_rank(snapshot)
        is_new = snapshot.placement != before.placement
        status["placementTime"] = format_time(now if is_new else before.placed_at or now)
        status["replicaSeconds"] = int(before.attained(now) if is_new else before.replica_seconds)
    if losses := _losses(snapshot, verdict, now):
        status["failures"] = losses
    if not _is_suspended(snapshot):
        # As in batch/v1 Job: the clock of activeDeadlineSeconds starts anew after a suspension.
        status["startTime"] = format_time(before.started or now)
    if finished:
        status["completionTimestamp"] = format_time(before.completed or now)
    return status


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
    counts: dict[str, dict[str, int]] = {task: {} for task in desired(snapshot)}
    for slot in snapshot.slots:
        pod = snapshot.held.get(slot.name)
        phases = counts.setdefault(slot.task.name, {})
        phase = pod.phase if pod is not None else "Pending"
        phases[phase] = phases.get(phase, 0) + 1
    return counts


def _losses(snapshot: Snapshot, verdict: Verdict, now: datetime) -> list[Mapping[str, Any]]:
    """Add the newly counted pods; forget the oldest of those that are long gone."""
    known = snapshot.status.counted
    added = [loss_record(pod, now) for pod in verdict.counted if pod.uid not in known]
    losses = [*snapshot.status.losses, *added]
    present = _present(snapshot)
    gone = [loss["uid"] for loss in losses if loss["uid"] not in present]
    room = min(MAX_GONE, max(0, MAX_LOSSES - (len(losses) - len(gone))))
    forgotten = set(gone[: max(0, len(gone) - room)])
    return [loss for loss in losses if loss["uid"] not in forgotten][:MAX_LOSSES]


def _present(snapshot: Snapshot) -> set[str]:
    pods = (*snapshot.held.values(), *snapshot.surplus, *snapshot.leaving)
    return {pod.uid for pod in pods}


def _is_urgent(snapshot: Snapshot, verdict: Verdict, asides: Iterable[Aside]) -> bool:
    """Whether the status tells more than new counts."""
    before = snapshot.status
    counted = before.counted
    return (
        verdict.insist
        or verdict.phase is not before.phase
        or _reason(snapshot, verdict) != before.reason
        or bool(verdict.restarts or verdict.reschedules)
        or any(pod.uid not in counted for pod in verdict.counted)
        or any(aside.is_news(before.conditions) for aside in asides)
        or (snapshot.spec is not None and desired(snapshot) != before.desired)
    )


def desired(snapshot: Snapshot) -> Mapping[str, int]:
    """Return the replicas of each task that the spec asks for."""
    if snapshot.spec is None:
        return {}
    counts = Counter(slot.task.name for slot in snapshot.slots)
    return {task.name: counts[task.name] for task in snapshot.tasks}


def _until_counts(snapshot: Snapshot, now: datetime) -> float:
    updated = snapshot.status.updated
    if updated is None:
        return 0.0
    passed = (now - updated).total_seconds()
    # A clock that was set back must not silence the status until it has caught up.
    return COUNTS_PERIOD - passed if passed >= 0 else 0.0


def _stamp(status: Mapping[str, Any], now: datetime) -> None:
    """Note the time of the write on the condition that is True."""
    current: Iterable[dict[str, Any]] = status["conditions"]
    for condition in current:
        if condition["type"] == status["phase"]:
            condition["lastUpdateTime"] = format_time(now)
