"""The one question of the operator: given this job and its objects, what is to be done now?

A ladder: the first policy that has something to say decides. Policies that count (restarts,
reschedules) or end the job only write the status; what follows from it is done in the next
reconcile, which reads that status. So a crash at any point loses nothing and repeats nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from di_api.ownership import is_managed_elsewhere
from di_api.phase import Phase
from di_operator.kueue.side import Side
from di_operator.lifecycle.build_status import conclude
from di_operator.lifecycle.converge import converge
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, earliest
from di_operator.lifecycle.policies.blocked_pods import blocked_time_left, tell_blocked
from di_operator.lifecycle.policies.cleanup import clean_up
from di_operator.lifecycle.policies.companions import with_companions
from di_operator.lifecycle.policies.deadline import judge_deadline, time_left
from di_operator.lifecycle.policies.drain import departure_time_left
from di_operator.lifecycle.policies.kueue_admission import judge_queue
from di_operator.lifecycle.policies.kueue_workloads import queue_steps
from di_operator.lifecycle.policies.pending_timeout import judge_pending, pending_time_left
from di_operator.lifecycle.policies.process_groups import tell_groups
from di_operator.lifecycle.policies.progress import judge_progress, progress_time_left
from di_operator.lifecycle.policies.reclaim import reclaim_seen, restored_events
from di_operator.lifecycle.policies.requested_restart import judge_request
from di_operator.lifecycle.policies.scheduling_objects import with_scheduling_objects
from di_operator.lifecycle.policies.server_ca import tell_pods
from di_operator.lifecycle.policies.suspend import judge_suspension
from di_operator.lifecycle.policies.ttl import expire
from di_operator.lifecycle.repairs.services import service_events, service_patches
from di_operator.lifecycle.unreadable_spec import judge_frozen
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Reason

__all__ = ["Decision", "JobEvent", "Settings", "decide"]

NEXT_STEP = 1.0
"""Seconds after which a job with more to do is looked at, should the watch stay silent."""


def decide(snapshot: Snapshot, now: datetime, settings: Settings) -> Decision:
    """Return the decision for the job; pure and total. ``now`` is timezone-aware UTC."""
    is_dispatched = snapshot.queueing is not None and snapshot.queueing.side is Side.MANAGER
    if is_managed_elsewhere(snapshot.job) and not is_dispatched:
        return Decision()
    upkeep = queue_steps(snapshot, now)
    if snapshot.is_deleted:
        return Decision(upkeep=upkeep)  # the garbage collector follows the owner references
    if snapshot.status.is_finished:
        return replace(_after_the_end(snapshot, now), upkeep=upkeep)
    if is_dispatched:
        return replace(_while_dispatched(snapshot, now), upkeep=upkeep)
    job_type = job_type_of(snapshot.job, snapshot.spec)
    step = _judge(job_type, snapshot, now, settings)
    if isinstance(step, Plan):
        step = with_companions(snapshot, step, settings)
        step = with_scheduling_objects(snapshot, step, now, settings)
    verdict = converge(snapshot, step) if isinstance(step, Plan) else step
    verdict = tell_groups(snapshot, tell_blocked(snapshot, verdict, now), now)
    decision = conclude(job_type, snapshot, verdict, now)
    if snapshot.status.denied is not None:
        decision = replace(decision, events=(_denial(snapshot.status.denied), *decision.events))
    if decision.status is None and not decision.actions:
        # Last of all: a cluster that refuses it must not keep anything else from happening.
        marks = reclaim_seen(snapshot)
        events = (*decision.events, *restored_events(marks))
        told = tell_pods(snapshot, settings.server_ca)
        services = service_patches(snapshot, job_type.services(snapshot))
        decision = replace(
            decision,
            actions=(*marks, *told, *services),
            events=(*events, *service_events(services)),
        )
    more = NEXT_STEP if decision.status is not None and _has_more_to_do(verdict) else None
    return replace(
        decision,
        requeue_after=earliest(
            decision.requeue_after,
            time_left(snapshot, now),
            pending_time_left(snapshot, now),
            progress_time_left(snapshot, now),
            blocked_time_left(snapshot, now),
            departure_time_left(snapshot, now),
            more,
        ),
        lacks_template=isinstance(step, Plan) and step.lacks_template,
        lacks_companions=isinstance(step, Plan) and step.lacks_companions,
        looks_for=step.looks_for if isinstance(step, Plan) else (),
        upkeep=upkeep,
    )


def _judge(
    job_type: JobType, snapshot: Snapshot, now: datetime, settings: Settings
) -> Verdict | Plan:
    if snapshot.spec is None:
        return judge_frozen(job_type, snapshot, now) if snapshot.is_frozen else _refused(snapshot)
    # Before anything is started, counted or waited for: the user's last words. But what is over is
    # neither late nor suspended any more.
    step = (
        job_type.judge_end(snapshot, now)
        or judge_deadline(snapshot, now)
        or judge_queue(snapshot, now)
        or judge_suspension(snapshot, now)
        or job_type.judge(snapshot, now, settings)
    )
    if isinstance(step, Verdict):
        return step
    # Whatever pods have done is counted first.
    return (
        judge_pending(snapshot, now)
        or judge_request(snapshot)
        or judge_progress(snapshot, now)
        or step
    )


def _while_dispatched(snapshot: Snapshot, now: datetime) -> Decision:
    """Decide on a job that another cluster is to run.

    While it does, the status is what MultiKueue copies from there; ours while there is no such
    cluster.
    """
    if snapshot.spec is None:
        verdict = None if snapshot.is_frozen else _refused(snapshot)
    else:
        verdict = judge_queue(snapshot, now)
        if verdict is None and snapshot.queueing is not None and snapshot.queueing.is_held:
            verdict = judge_suspension(snapshot, now)
    if verdict is None:
        return Decision()
    return conclude(job_type_of(snapshot.job, snapshot.spec), snapshot, verdict, now)


def _refused(snapshot: Snapshot) -> Verdict:
    message = "; ".join(str(error) for error in snapshot.errors)
    return Verdict(phase=Phase.FAILED, reason=Reason.INVALID_SPEC, message=message)


def _after_the_end(snapshot: Snapshot, now: datetime) -> Decision:
    expiry = expire(snapshot, now)
    # Deleting the job takes its objects along; cleaning up first would be work for nothing.
    return (
        expiry
        if expiry.actions
        else replace(clean_up(snapshot), requeue_after=expiry.requeue_after)
    )


def _has_more_to_do(verdict: Verdict) -> bool:
    return (
        verdict.phase.is_finished
        or bool(verdict.restarts or verdict.reschedules or verdict.restarted or verdict.regrouped)
        or verdict.ledger is not None
        or verdict.stand_ins is not None
    )


def _denial(phase: Phase) -> JobEvent:
    message = (
        f"status.phase was {phase.value} and its condition is not True: written by hand; "
        "the status is that of the pods"
    )
    return JobEvent(reason=Reason.PHASE_NOT_CONFIRMED, message=message)
