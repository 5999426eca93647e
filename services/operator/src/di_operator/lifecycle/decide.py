"""The one question of the operator: given this job and its objects, what is to be done now?

A ladder: the first policy that has something to say decides. Policies that count (restarts,
reschedules) or end the job only write the status; what follows from it is done in the next
reconcile, which reads that status. So a crash at any point loses nothing and repeats nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from di_api.model import Phase
from di_api.names import nodes_config_map_name
from di_operator.lifecycle import conditions
from di_operator.lifecycle.actions import CreateConfigMap, ReplaceConfigMap
from di_operator.lifecycle.allocation import judge_allocation
from di_operator.lifecycle.backoff import until_retry
from di_operator.lifecycle.cleanup import clean_up
from di_operator.lifecycle.completion import judge_completion
from di_operator.lifecycle.converge import Plan, plan
from di_operator.lifecycle.coordinated import judge_coordinator, lacks_aggregator, plan_replicas
from di_operator.lifecycle.deadline import judge_deadline, time_left
from di_operator.lifecycle.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.frozen import judge_frozen
from di_operator.lifecycle.reclaim import reclaim_seen, restored_events
from di_operator.lifecycle.restart import judge_failures
from di_operator.lifecycle.scale import judge_change, settling
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.suspend import judge_suspension
from di_operator.lifecycle.ttl import expire
from di_operator.lifecycle.verdict import Verdict, conclude, count_of, earliest

__all__ = ["Decision", "JobEvent", "Settings", "decide"]

NEXT_STEP = 1.0
"""Seconds after which a job with more to do is looked at, should the watch stay silent."""


def decide(snapshot: Snapshot, now: datetime, settings: Settings) -> Decision:
    """Return the decision for the job; pure and total. ``now`` is timezone-aware UTC."""
    if snapshot.is_deleted:
        return Decision()  # the garbage collector follows the owner references
    if snapshot.status.phase is not None and snapshot.status.phase.is_finished:
        return _after_the_end(snapshot, now)
    verdict = _judge(snapshot, now)
    if verdict is None:
        verdict = _converge(snapshot, now, settings)
    decision = conclude(snapshot, verdict, now)
    if snapshot.status.denied is not None:
        decision = replace(decision, events=(_denial(snapshot.status.denied), *decision.events))
    if decision.status is None and not decision.actions:
        # Last of all: a cluster that refuses it must not keep anything else from happening.
        marks = reclaim_seen(snapshot)
        events = (*decision.events, *restored_events(marks))
        decision = replace(decision, actions=marks, events=events)
    more = NEXT_STEP if decision.status is not None and _has_more_to_do(verdict) else None
    return replace(
        decision,
        requeue_after=earliest(decision.requeue_after, time_left(snapshot, now), more),
    )


def _judge(snapshot: Snapshot, now: datetime) -> Verdict | None:
    if snapshot.spec is None:
        return judge_frozen(snapshot, now) if snapshot.is_frozen else _refused(snapshot)
    # Before anything is started, counted or waited for: both are the user's last word.
    if verdict := judge_deadline(snapshot, now) or judge_suspension(snapshot):
        return verdict
    if snapshot.is_coordinated:
        return judge_coordinator(snapshot, now)
    if verdict := judge_allocation(snapshot):
        return verdict
    failure, change = judge_failures(snapshot), judge_change(snapshot, now)
    if failure is not None and change is not None and failure.phase is Phase.RESTARTING:
        # Seen together: both are counted, the failure is what the job is said to suffer from.
        return replace(
            failure,
            reschedules=change.reschedules,
            counted=(*failure.counted, *change.counted),
            from_absence=change.from_absence,
        )
    return failure or change or judge_completion(snapshot)


def _refused(snapshot: Snapshot) -> Verdict:
    message = "; ".join(str(error) for error in snapshot.errors)
    return Verdict(phase=Phase.FAILED, reason=conditions.REASON_INVALID_SPEC, message=message)


def _converge(snapshot: Snapshot, now: datetime, settings: Settings) -> Verdict:
    phase = snapshot.status.phase
    if snapshot.is_coordinated:
        # No time to settle: the coordinator asks for others as soon as it has started.
        pause = until_retry(snapshot, now)
        steps = plan_replicas(snapshot, now, settings, may_create=pause <= 0)
    else:
        incomplete = bool(snapshot.missing) or snapshot.service is None
        pause = max(until_retry(snapshot, now), settling(snapshot, now)) if incomplete else 0.0
        steps = plan(snapshot, now, settings, may_create=pause <= 0)
    if pause > 0:
        return Verdict(
            phase=phase or Phase.PENDING,
            actions=steps.removals,
            events=_deleted(steps),
            requeue_after=earliest(pause, steps.requeue_after),
        )
    actions = (*steps.removals, *steps.creations)
    if steps.obstacle is not None:
        return Verdict(
            phase=phase or Phase.PENDING,
            reason=conditions.REASON_NODE_LISTS,
            message=steps.obstacle,
            actions=actions,
            events=_deleted(steps),
            requeue_after=steps.requeue_after,
        )
    if phase in (Phase.STARTING, Phase.RUNNING):
        return Verdict(
            phase=phase,
            actions=actions,
            events=(*_deleted(steps), *_unmade(snapshot), *_relisted(snapshot, steps)),
            requeue_after=steps.requeue_after,
        )
    if steps.waiting is None:
        return Verdict(
            phase=Phase.STARTING,
            message=_started(snapshot, steps),
            actions=actions,
            events=_deleted(steps),
            requeue_after=steps.requeue_after,
        )
    waiting = phase in (None, Phase.PENDING)
    return Verdict(
        phase=phase or Phase.PENDING,
        reason=conditions.phase_reason(Phase.PENDING) if waiting else None,
        message=steps.waiting if waiting else None,
        actions=actions,
        events=(*_deleted(steps), *_created(steps)),
        requeue_after=steps.requeue_after,
    )


def _after_the_end(snapshot: Snapshot, now: datetime) -> Decision:
    expiry = expire(snapshot, now)
    # Deleting the job takes its objects along; cleaning up first would be work for nothing.
    return (
        expiry
        if expiry.actions
        else replace(clean_up(snapshot), requeue_after=expiry.requeue_after)
    )


def _has_more_to_do(verdict: Verdict) -> bool:
    return verdict.phase.is_finished or bool(verdict.restarts or verdict.reschedules)


def _started(snapshot: Snapshot, steps: Plan) -> str:
    total = count_of(len(snapshot.slots), "pod")
    if not steps.created:
        return f"{total} there"
    created = f"created {count_of(steps.created, 'pod')}"
    return created if steps.created == len(snapshot.slots) else f"{created}, {total} in all"


def _unmade(snapshot: Snapshot) -> tuple[JobEvent, ...]:
    if not lacks_aggregator(snapshot):
        return ()
    message = "aggregators wait for the AggregatorConfig, which does not exist"
    return (JobEvent(type="Warning", reason="AggregatorConfigMissing", message=message),)


def _denial(phase: Phase) -> JobEvent:
    message = (
        f"status.phase was {phase.value} and its condition is not True: written by hand; "
        "the status is that of the pods"
    )
    return JobEvent(type="Warning", reason="PhaseNotConfirmed", message=message)


def _relisted(snapshot: Snapshot, steps: Plan) -> tuple[JobEvent, ...]:
    lists = (CreateConfigMap, ReplaceConfigMap)
    if steps.created or not any(isinstance(action, lists) for action in steps.creations):
        return ()
    name = nodes_config_map_name(snapshot.name)
    message = f"ConfigMap {name} was deleted or edited by hand, the node lists are put back"
    return (JobEvent(type="Warning", reason="NodeListsRestored", message=message),)


def _created(steps: Plan) -> tuple[JobEvent, ...]:
    if not steps.created:
        return ()
    message = f"created {count_of(steps.created, 'pod')}"
    return (JobEvent(type="Normal", reason="PodsCreated", message=message),)


def _deleted(steps: Plan) -> tuple[JobEvent, ...]:
    if not steps.removed:
        return ()
    message = f"deleted {count_of(steps.removed, 'pod')}"
    return (JobEvent(type="Normal", reason="PodsDeleted", message=message),)
