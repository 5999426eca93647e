"""Jobs without pods of this operator: ended, run by another cluster through Kueue, or managed by
another controller.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from di_operator.lifecycle.build_status import conclude
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.cleanup import clean_up
from di_operator.lifecycle.policies.kueue_admission import judge_queue
from di_operator.lifecycle.policies.suspend import judge_suspension
from di_operator.lifecycle.policies.ttl import expire
from di_operator.lifecycle.unreadable_spec import judge_refused
from di_operator.lifecycle.vocabulary.decision import Decision


def decide_ended_or_elsewhere(snapshot: Snapshot, now: datetime) -> Decision | None:
    """Return the decision for a job that gets no pods here; None if it is active."""
    if snapshot.is_left_alone:
        return Decision()
    if snapshot.is_deleted:
        return Decision()  # The garbage collector follows the owner references.
    if snapshot.status.is_finished:
        return _after_the_end(snapshot, now)
    return _while_dispatched(snapshot, now) if snapshot.is_dispatched else None


def _while_dispatched(snapshot: Snapshot, now: datetime) -> Decision:
    """Return the decision for a job that another cluster is to run.

    Once that cluster runs it, MultiKueue copies the status from there. Until then this operator
    writes it.
    """
    if snapshot.spec is None:
        verdict = None if snapshot.is_frozen else judge_refused(snapshot)
    else:
        verdict = judge_queue(snapshot, now)
        if verdict is None and snapshot.queueing is not None and snapshot.queueing.is_held:
            verdict = judge_suspension(snapshot, now)
    return Decision() if verdict is None else conclude(snapshot, verdict, now)


def _after_the_end(snapshot: Snapshot, now: datetime) -> Decision:
    expiry = expire(snapshot, now)
    # Deleting the job deletes its objects too, so a clean-up first would be wasted.
    return (
        expiry
        if expiry.actions
        else replace(clean_up(snapshot), requeue_after=expiry.requeue_after)
    )
