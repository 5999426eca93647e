"""pendingTimeoutSeconds: a job fails if its pods are not up for that long.

The condition BelowMinimum has the start time, so a new leader continues from there. A job that
waits for a user, for nodes, or for another of its tasks is not below its minimum.

Without the field there is a default for tasks whose restarts have no limit: otherwise the pods of
a program that always fails would be created again for ever. The default only covers repeated
failures. A replica that failed is up again once it has run for as long as its back-off was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from math import isinf
from typing import Final

from di_api.phase import Phase
from di_api.spec import Task
from di_operator.lifecycle.failure.restart_delay import pause_of
from di_operator.lifecycle.observed.placement import is_placed
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, earliest
from di_operator.lifecycle.policies.blocked_pods import describe_blocked
from di_operator.lifecycle.policies.dependencies import waiting_tasks
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.conditions import BELOW_MINIMUM, Aside
from di_operator.lifecycle.vocabulary.reasons import OF_PHASES, Reason
from di_operator.lifecycle.vocabulary.rules import Part
from di_operator.lifecycle.vocabulary.timestamps import parse_time

FLOOR_SECONDS: Final = 3600
"""Seconds for which a task with unlimited restarts may stay below its minimum because it fails."""
REASON_TOO_FEW: Final = "TooFewReady"
REASON_ENOUGH: Final = "EnoughReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """The first task that has fewer replicas than it needs."""

    task: str
    ready: int
    """Replicas whose pods are all ready or have succeeded."""
    minimum: int
    unit: str
    """Noun for its replicas, in messages."""


def is_short(snapshot: Snapshot) -> bool:
    """Return whether a task has fewer pods than it needs."""
    return _short_of(snapshot, snapshot.tasks) is not None


def judge_pending(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Fail a job that has been below its minimum for too long."""
    left = pending_time_left(snapshot, now)
    if left is None or left > 0 or (short := _shortfall(snapshot, now)) is None:
        return None
    needed = count_of(short.minimum, short.unit)
    what = f"task {short.task} has {short.ready} of at least {needed} ready"
    since = count_of(_limit(snapshot) or 0, "second")
    message = f"{what} for {since}"
    if why := _why(snapshot, now):
        message = f"{message}; {why}"
    return Verdict(phase=Phase.FAILED, reason=Reason.PENDING_TIMEOUT, message=message)


def pending_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the timeout, None if no clock runs."""
    limit = _limit(snapshot)
    since = snapshot.status.conditions.get(BELOW_MINIMUM)
    if limit is None or since is None or since["status"] != "True":
        return None
    began = parse_time(since.get("lastTransitionTime")) or now
    # A clock that was set back must not extend the time.
    return limit - max(0.0, (now - began).total_seconds())


def report_minimum(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition BelowMinimum; nothing for jobs without a timeout that needs it."""
    spec = snapshot.spec
    if spec is None or (_limit(snapshot) is None and spec.progress_policy is None):
        return NOTHING
    return Report(conditions=(_below_minimum(snapshot, now),))


def _below_minimum(snapshot: Snapshot, now: datetime) -> Aside:
    short = _shortfall(snapshot, now)
    if short is None:
        message = "no task has fewer pods ready than its minimum"
        return Aside(type=BELOW_MINIMUM, value=False, reason=REASON_ENOUGH, message=message)
    message = f"task {short.task} has fewer {short.unit}s ready than its minimum, {short.minimum}"
    return Aside(type=BELOW_MINIMUM, value=True, reason=REASON_TOO_FEW, message=message)


def _limit(snapshot: Snapshot) -> int | None:
    spec = snapshot.spec
    if spec is None:
        return None
    if spec.pending_timeout_seconds is not None:
        return spec.pending_timeout_seconds
    return FLOOR_SECONDS if any(map(_is_unlimited, spec.tasks)) else None


def _is_unlimited(task: Task) -> bool:
    return task.backoff_limit is not None and isinf(task.backoff_limit)


def _shortfall(snapshot: Snapshot, now: datetime) -> Shortfall | None:
    spec = snapshot.spec
    if spec is None or spec.pending_timeout_seconds is not None or spec.progress_policy is not None:
        return _short_of(snapshot, snapshot.tasks)
    recorded = snapshot.status.ledger.replicas
    tasks = {task.name for task in spec.tasks if _is_unlimited(task) and task.name in recorded}
    if not tasks:
        return None
    ours = (slot for slot in snapshot.slots if slot.task.name in tasks)
    unsteady = [slot for slot in ours if _is_unsteady(snapshot, slot, now)]
    failing = {slot.task.name for slot in unsteady}
    down = {slot.name for slot in unsteady}
    return _short_of(snapshot, [task for task in spec.tasks if task.name in failing], down=down)


def _short_of(
    snapshot: Snapshot, tasks: Iterable[Task], *, down: Set[str] = frozenset()
) -> Shortfall | None:
    """Return the first of the tasks with too few replicas up, not counting the pods in `down`."""
    if snapshot.spec is None or snapshot.spec.suspend or _waits_for_nodes(snapshot):
        return None
    waits = waiting_tasks(snapshot)
    up = ({pod.name for pod in snapshot.ready} | snapshot.done) - down
    # In a coordinated job only the coordinator counts: it requests and releases the others.
    # Replicas of an elastic tier do not count either.
    counted = [slot for slot in snapshot.slots if slot.part is not Part.REPLICA and slot.is_core]
    wanted = Counter(slot.task.name for slot in counted)
    missing = Counter(task for task, _ in {s.replica for s in counted if s.name not in up})
    for task in tasks:
        replicas = wanted[task.name] // task.pods_per_replica
        least, ready = task.min_replicas or task.replicas, replicas - missing[task.name]
        minimum = least if _is_withdrawn(snapshot) else min(replicas, least)
        if ready < minimum and task.name not in waits:
            unit = "replica" if task.has_pod_groups else "pod"
            return Shortfall(task=task.name, ready=ready, minimum=minimum, unit=unit)
    return None


def _is_unsteady(snapshot: Snapshot, slot: Slot, now: datetime) -> bool:
    return _until_steady(snapshot, slot, now) > 0


def _until_steady(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    """Return the seconds until a replica that failed counts as up if it runs; 0 or less: now."""
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    if record.last_failure is None:
        return 0.0
    return 2 * pause_of(record) - (now - record.last_failure).total_seconds()


def _due(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the timeout, or until the condition BelowMinimum has to change."""
    left = pending_time_left(snapshot, now)
    if left is None or _shortfall(snapshot, now) is None:
        return left
    ready = {pod.name for pod in snapshot.ready}
    waits = (_until_steady(snapshot, slot, now) for slot in snapshot.slots if slot.name in ready)
    return earliest(left, *(wait for wait in waits if wait > 0))


def _waits_for_nodes(snapshot: Snapshot) -> bool:
    if _is_withdrawn(snapshot):
        return False
    if snapshot.placement is not None:
        return not is_placed(snapshot.placement)
    grant = snapshot.grant
    return grant is not None and bool(grant.message) and not snapshot.held


def _is_withdrawn(snapshot: Snapshot) -> bool:
    """Return whether the job lost its nodes because its pods were refused."""
    return snapshot.grant is not None and snapshot.grant.reason is Reason.GRANT_WITHDRAWN


def _why(snapshot: Snapshot, now: datetime) -> str:
    """Return why pods do not run or cannot be created, in the words of the component that reports
    it.
    """
    if (blocked := describe_blocked(snapshot, now)) is not None:
        return blocked.message
    phase, said = snapshot.status.phase, snapshot.status.condition
    if phase is None or said is None or said["reason"] == OF_PHASES[phase]:
        return ""
    return str(said["message"])


PENDING_TIMEOUT: Final = Policy(judge=judge_pending, report=report_minimum, due=_due)
