"""A suspended job: its pods end with their own grace period, and it waits."""

from __future__ import annotations

from di_api.phase import Phase
from di_operator.lifecycle.decision import JobEvent
from di_operator.lifecycle.deletion import delete_pod
from di_operator.lifecycle.reasons import Reason
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_suspension(snapshot: Snapshot) -> Verdict | None:
    """End the pods of a job with ``suspend: true``; those that have finished stay.

    The job goes on from Pending once ``suspend`` is false: whatever is missing then is created.
    """
    if snapshot.spec is None or not snapshot.spec.suspend:
        return None
    ending = [
        pod
        for pod in (*snapshot.outdated, *snapshot.live, *snapshot.surplus, *snapshot.predecessors)
        if not pod.is_finished and not pod.terminating
    ]
    what = f"suspended, {count_of(len(ending), 'pod')} to end"
    present = snapshot.status
    waiting = present.is_waiting and present.reason == Reason.JOB_SUSPENDED
    return Verdict(
        phase=Phase.PENDING,
        reason=Reason.JOB_SUSPENDED,
        message=None if waiting else what,
        actions=tuple(delete_pod(pod) for pod in ending),
        events=(JobEvent(reason=Reason.PODS_DELETED, message=what),) if ending else (),
    )
