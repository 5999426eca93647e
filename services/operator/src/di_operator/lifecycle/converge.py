"""The phase of a job that follows from its plan, if no policy decides on another transition."""

from __future__ import annotations

from di_api.names import nodes_config_map_name
from di_api.phase import Phase
from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, earliest
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason


def converge(snapshot: Snapshot, steps: Plan) -> Verdict:
    """Return the verdict with the next steps towards the pods that the spec requests."""
    phase = snapshot.status.phase
    if steps.pause > 0:
        return Verdict(
            phase=phase or Phase.PENDING,
            actions=steps.removals,
            events=_happened(steps),
            requeue_after=earliest(steps.pause, steps.requeue_after),
        )
    actions = (*steps.removals, *steps.creations)
    if steps.obstacle is not None:
        return Verdict(
            phase=phase or Phase.PENDING,
            reason=Reason.NODE_LISTS_TOO_LONG,
            message=steps.obstacle,
            actions=actions,
            events=_happened(steps),
            requeue_after=steps.requeue_after,
        )
    if phase is not None and phase.is_up:
        return Verdict(
            phase=phase,
            actions=actions,
            events=(*_happened(steps), *_unmade(steps), *_relisted(snapshot, steps)),
            requeue_after=steps.requeue_after,
        )
    if steps.waiting is None:
        return Verdict(
            phase=Phase.STARTING,
            message=_started(snapshot, steps),
            actions=actions,
            events=_happened(steps),
            requeue_after=steps.requeue_after,
        )
    waiting = snapshot.status.is_waiting
    return Verdict(
        phase=phase or Phase.PENDING,
        reason=Reason.JOB_PENDING if waiting else None,
        message=steps.waiting if waiting else None,
        actions=actions,
        events=(*_happened(steps), *_created(steps)),
        requeue_after=steps.requeue_after,
    )


def _started(snapshot: Snapshot, steps: Plan) -> str:
    total = count_of(len(snapshot.slots), "pod")
    if not steps.created:
        return f"{count_of(len(snapshot.held), 'pod')} there"
    created = f"created {count_of(steps.created, 'pod')}"
    return created if steps.created == len(snapshot.slots) else f"{created}, {total} in all"


def _unmade(steps: Plan) -> tuple[JobEvent, ...]:
    if not steps.lacks_template:
        return ()
    message = "aggregators wait for the AggregatorConfig, which does not exist"
    return (JobEvent(reason=Reason.AGGREGATOR_CONFIG_MISSING, message=message),)


def _relisted(snapshot: Snapshot, steps: Plan) -> tuple[JobEvent, ...]:
    if steps.created or not steps.restores_lists:
        return ()
    name = nodes_config_map_name(snapshot.name)
    message = f"ConfigMap {name} was deleted or edited by hand, the node lists are put back"
    return (JobEvent(reason=Reason.NODE_LISTS_RESTORED, message=message),)


def _created(steps: Plan) -> tuple[JobEvent, ...]:
    if not steps.created:
        return ()
    message = f"created {count_of(steps.created, 'pod')}"
    return (JobEvent(reason=Reason.PODS_CREATED, message=message),)


def _happened(steps: Plan) -> tuple[JobEvent, ...]:
    """Return the events that occur in any phase."""
    if not steps.removed:
        return steps.events
    message = f"deleted {count_of(steps.removed, 'pod')}"
    return (*steps.events, JobEvent(reason=Reason.PODS_DELETED, message=message))
