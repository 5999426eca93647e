"""Suspended jobs: their pods end with their own grace period, and the job waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from di_api.phase import Phase
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.deletion import delete_pod
from di_operator.lifecycle.policies.drain import departures
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import REASON_RESUMED, SUSPENDED, Aside, is_true
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason

_SUSPENDED: Final = Aside(
    type=SUSPENDED,
    value=True,
    reason=Reason.JOB_SUSPENDED,
    message="suspend is set in the spec",
)
_RESUMED: Final = replace(
    _SUSPENDED, value=False, reason=REASON_RESUMED, message="suspend is no longer set in the spec"
)
_WAITS: Final = frozenset(
    {
        *(Reason.WAITING_FOR_NODES, Reason.UNSCHEDULABLE, Reason.REFUSED_BY_SCHEDULER),
        *(Reason.GRANT_WITHDRAWN, Reason.QUEUE_QUOTA_EXCEEDED, Reason.QUOTA_EXCEEDED),
        Reason.JOB_QUEUED,
    }
)
"""Reasons of jobs without pods that wait for nodes or quota of others."""


def judge_suspension(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """End the pods of a job with ``suspend: true``; finished pods stay.

    The job continues from Pending once ``suspend`` is false; missing pods are then created.
    """
    if snapshot.spec is None or not snapshot.spec.suspend:
        return None
    in_slots = (*snapshot.outdated, *snapshot.live)
    own = [*filter(_runs, (*in_slots, *snapshot.standbys, *snapshot.surplus))]
    old = [*filter(_runs, snapshot.predecessors)]
    leaving = departures(snapshot, own, now)
    ending = (*leaving.due, *old)
    to_end = count_of(len(own) + len(old), "pod")
    what = f"suspended, {to_end} to end" if own or old else "suspended"
    present = snapshot.status
    # The conditions about pods hold until the last one is gone.
    goes_on = bool(own or old or snapshot.terminating)
    waiting = goes_on and present.is_waiting and present.reason == Reason.JOB_SUSPENDED
    return Verdict(
        phase=Phase.PENDING,
        reason=Reason.JOB_SUSPENDED,
        message=None if waiting else what,
        actions=(*leaving.marks, *(delete_pod(pod) for pod in ending)),
        events=(JobEvent(reason=Reason.PODS_DELETED, message=what),) if ending else (),
        requeue_after=leaving.requeue_after,
    )


def report_suspension(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition Suspended, and the time since which the job is active."""
    if _is_suspended(snapshot):
        return Report(conditions=(_SUSPENDED,))
    if _waits_without_pods(snapshot, verdict):
        # Urgent: the deadline is computed from the written status.
        return Report(conditions=(_RESUMED,), is_urgent=snapshot.status.started is not None)
    # As in batch/v1 Job: the clock of activeDeadlineSeconds starts again after a suspension.
    started = format_time(snapshot.status.started or now)
    return Report(conditions=(_RESUMED,), fields={"startTime": started})


def _waits_without_pods(snapshot: Snapshot, verdict: Verdict) -> bool:
    """Return whether a job has no pods and waits for nodes or quota: its clock is stopped."""
    if verdict.phase is not Phase.PENDING or verdict.reason not in _WAITS:
        return False
    pods = (snapshot.outdated, snapshot.live, snapshot.standbys, snapshot.surplus)
    return not any((*pods, snapshot.terminating, snapshot.predecessors))


def _is_suspended(snapshot: Snapshot) -> bool:
    if snapshot.is_frozen:
        return is_true(snapshot.status.conditions, SUSPENDED)
    return snapshot.spec is not None and snapshot.spec.suspend


def _runs(pod: Pod) -> bool:
    return not pod.is_finished and not pod.terminating


SUSPENSION: Final = Policy(judge=judge_suspension, report=report_suspension)
