"""Marks a decision as the last one if the next one is known to find nothing to do.

A reconcile that wrote is followed by another one, since many decisions come in steps. For a plain
job that has started, runs or has been cleaned up, that one would only cost time.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import MISSING, fields, replace
from datetime import datetime
from typing import Any, Final

from di_api.names import ANNOTATION_TRACE
from di_api.phase import Phase
from di_api.spec import JobSpec, Task
from di_kube.resources import DIJOBS, PODS
from di_operator.lifecycle.failure.absent_nodes import on_absent_nodes
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import Status, with_owned
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.policy_order import POLICIES
from di_operator.lifecycle.vocabulary.actions import Create, Delete
from di_operator.lifecycle.vocabulary.decision import Decision, Settings

_PLAIN_STATUS: Final = frozenset(
    {
        *("observedGeneration", "phase", "conditions", "startTime"),
        *("replicas", "readyReplicas", "taskStatus", "restarts", "reschedules"),
        "completedIndexes",
    }
)
"""Fields of the status that every job has. A topic that adds another one may act in steps."""


def _set_apart(kind: type, plain: Set[str]) -> tuple[tuple[str, Any], ...]:
    """Return the other fields of a part of the spec, with their defaults."""
    found = []
    for each in fields(kind):
        if each.name not in plain:
            factory = each.default_factory
            found.append((each.name, each.default if factory is MISSING else factory()))
    return tuple(found)


# A job that has any other field may act in steps, until it is known that the field causes none.
_OTHERS_OF_JOB: Final = _set_apart(
    JobSpec,
    {
        *("tasks", "priority", "clean_pod_policy", "preemptible", "group", "volumes", "code"),
        *("backoff_limit", "checkpoint", "active_deadline_seconds", "pending_timeout_seconds"),
        "ttl_seconds_after_finished",
    },
)
_OTHERS_OF_TASK: Final = _set_apart(
    Task,
    {
        *("name", "type", "template", "ports", "replicas", "min_replicas", "max_replicas"),
        *("scalable", "max_unavailable", "backoff_limit", "depends_on"),
        "active_deadline_seconds",
    },
)


def as_last(snapshot: Snapshot, decision: Decision, now: datetime, settings: Settings) -> Decision:
    """Return the decision, marked as the last one if the next one would find nothing to do.

    Its `requeue_after` is then that of the next one, which is not made.
    """
    if decision.late_actions or decision.from_absence or not _is_alone(snapshot):
        return decision
    if snapshot.status.is_finished:
        # Whether the job expires depends on time alone, and is in the delay already.
        return replace(decision, is_last=True) if _is_clean_up(decision) else decision
    gets_up = _gets_up(snapshot, decision)
    is_step = gets_up or _starts(snapshot, decision) or _counts(snapshot, decision)
    if decision.requeue_after is not None or not is_step or not _is_plain(snapshot, now):
        return decision
    after = _after(snapshot, decision)
    is_repaired = any(
        policy.repair(after, settings).actions for policy in POLICIES if policy.repair
    )
    if is_repaired or (gets_up and _lacks_objects(after, now, settings)):
        return decision
    dues = (policy.due(after, now) for policy in POLICIES if policy.due is not None)
    return replace(decision, is_last=True, requeue_after=earliest(*dues))


def _is_alone(snapshot: Snapshot) -> bool:
    """Return whether no queue, allocator or other controller has a part in the job."""
    others = (
        *(snapshot.queueing, snapshot.grant, snapshot.placement),
        *(snapshot.companions, snapshot.scheduling_objects),
    )
    return all(each is None for each in others)


def _is_plain(snapshot: Snapshot, now: datetime) -> bool:
    """Return whether the job's spec has only fields that cause no further steps."""
    spec = snapshot.spec
    notes = snapshot.job["metadata"].get("annotations") or {}
    return (
        spec is not None
        and not snapshot.errors
        # The trace of a scale request ends with the first decision that finds all pods ready.
        and ANNOTATION_TRACE not in notes
        and _is_default(spec, _OTHERS_OF_JOB)
        and all(_is_default(task, _OTHERS_OF_TASK) for task in spec.tasks)
        # A pod that is bound to an absent node is known to be blocked before it exists.
        and not on_absent_nodes(snapshot, now)
    )


def _is_default(part: object, others: tuple[tuple[str, Any], ...]) -> bool:
    return all(getattr(part, name) == default for name, default in others)


def _is_clean_up(decision: Decision) -> bool:
    """Return whether a finished job only loses objects, and not itself."""
    return decision.status is None and all(
        isinstance(each, Delete) and each.resource != DIJOBS for each in decision.actions
    )


def _starts(snapshot: Snapshot, decision: Decision) -> bool:
    """Return whether a new job gets all of its pods."""
    if snapshot.has_started or snapshot.status.phase is not None:
        return False
    creates = [each for each in decision.actions if isinstance(each, Create)]
    pods = sum(each.resource == PODS for each in creates)
    return (
        _phase(decision) == Phase.STARTING
        and len(creates) == len(decision.actions)
        and pods == len(snapshot.slots)
    )


def _gets_up(snapshot: Snapshot, decision: Decision) -> bool:
    """Return whether a job becomes Running for the first time, with its wanted pods and no
    others.
    """
    if snapshot.status.phase is not Phase.STARTING or _phase(decision) != Phase.RUNNING:
        return False
    counts = {len(snapshot.slots), len(snapshot.ready), len(snapshot.live), len(snapshot.pods)}
    return (
        not decision.actions
        and len(counts) == 1
        and not (snapshot.predecessors or snapshot.renewed)
        and not (snapshot.status.restarts or snapshot.status.reschedules)
    )


def _lacks_objects(snapshot: Snapshot, now: datetime, settings: Settings) -> bool:
    """Return whether a job that becomes Running has lost an object other than a pod, such as its
    Service, which no decision about its phase reads.
    """
    steps = job_type_of(snapshot.job, snapshot.spec).plan(snapshot, now, settings)
    return bool(steps.removals or steps.creations)


def _counts(snapshot: Snapshot, decision: Decision) -> bool:
    """Return whether nothing but a status is written, and the phase stays."""
    return (
        not (decision.actions or decision.events)
        and snapshot.status.phase in (Phase.STARTING, Phase.RUNNING)
        and _phase(decision) == snapshot.status.phase
    )


def _phase(decision: Decision) -> str | None:
    """Return the phase that a decision writes; None if its status has a field of its own topic."""
    status = decision.status
    return status["phase"] if status is not None and status.keys() <= _PLAIN_STATUS else None


def _after(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """Return the snapshot with the status that the decision writes."""
    written = with_owned(snapshot.job.get("status") or {}, decision.status or {})
    job = {**snapshot.job, "status": written}
    return replace(snapshot, job=job, status=Status.read(written))
