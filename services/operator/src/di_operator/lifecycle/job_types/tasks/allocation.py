"""Jobs without nodes: preempted, or never started.

The allocator decides how many replicas fit, and where; this module derives the job's phase. A
changed placement of a running job is a rescheduling (see ``scale``).
"""

from __future__ import annotations

from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.observed.placement import is_placed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.deletion import delete_pod
from di_operator.lifecycle.policies.drain import departures
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason

_WAITING = "waiting for the allocator"


def judge_allocation(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Let a job without nodes wait; its pods, if any, end with their own grace period."""
    grant = snapshot.grant
    reason = (grant.reason if grant else None) or Reason.WAITING_FOR_NODES
    message = (grant.message if grant else "") or _WAITING
    waits = snapshot.status.is_waiting
    if snapshot.placement is None:
        if not snapshot.awaits_grant:
            return None
        return Verdict(phase=Phase.PENDING, reason=reason, message=message)
    if is_placed(snapshot.placement):
        return None
    ending = [pod for pod in snapshot.surplus if not pod.is_finished]
    leaving = departures(snapshot, ending, now)
    what = f"preempted, {count_of(len(ending), 'pod')} to end"
    return Verdict(
        phase=Phase.PENDING,
        reason=reason,
        message=message,
        reschedules=int(not waits),
        actions=(*leaving.marks, *(delete_pod(pod) for pod in leaving.due)),
        events=(JobEvent(reason=Reason.PODS_DELETED, message=what),) if leaving.due else (),
        requeue_after=leaving.requeue_after,
    )
