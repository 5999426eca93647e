"""A suspended job: its pods end with their own grace period, and it waits."""

from __future__ import annotations

from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.deletion import delete_pod
from di_operator.lifecycle.policies.drain import departures
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason


def judge_suspension(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """End the pods of a job with ``suspend: true``; those that have finished stay.

    The job goes on from Pending once ``suspend`` is false: whatever is missing then is created.
    """
    if snapshot.spec is None or not snapshot.spec.suspend:
        return None
    in_slots = (*snapshot.outdated, *snapshot.live)
    own = [*filter(_runs, (*in_slots, *snapshot.standbys, *snapshot.surplus))]
    old = [*filter(_runs, snapshot.predecessors)]
    leaving = departures(snapshot, own, now)
    ending = (*leaving.due, *old)
    what = f"suspended, {count_of(len(own) + len(old), 'pod')} to end"
    present = snapshot.status
    waiting = present.is_waiting and present.reason == Reason.JOB_SUSPENDED
    return Verdict(
        phase=Phase.PENDING,
        reason=Reason.JOB_SUSPENDED,
        message=None if waiting else what,
        actions=(*leaving.marks, *(delete_pod(pod) for pod in ending)),
        events=(JobEvent(reason=Reason.PODS_DELETED, message=what),) if ending else (),
        requeue_after=leaving.requeue_after,
    )


def _runs(pod: Pod) -> bool:
    return not pod.is_finished and not pod.terminating
