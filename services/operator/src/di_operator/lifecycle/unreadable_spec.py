"""A job whose spec cannot be read: one that runs is left alone until it can, but for its end.

Which pods such a job is to have is unknown, so none is made and none is deleted. It may have come
by this state through a rollback; going on as it was is the best that can be done for it.
"""

from __future__ import annotations

from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.deadline import judge_deadline
from di_operator.lifecycle.vocabulary.reasons import Reason


def judge_unreadable(snapshot: Snapshot, now: datetime) -> Verdict:
    """The transition of a job without a spec that can be read."""
    return _judge_frozen(snapshot, now) if snapshot.is_frozen else judge_refused(snapshot)


def judge_refused(snapshot: Snapshot) -> Verdict:
    """End a job that was never started for the errors in its spec."""
    message = "; ".join(str(error) for error in snapshot.errors)
    return Verdict(phase=Phase.FAILED, reason=Reason.INVALID_SPEC, message=message)


def _judge_frozen(snapshot: Snapshot, now: datetime) -> Verdict:
    """Keep the phase, unless what the status knows of the job says that it has ended."""
    if verdict := judge_deadline(snapshot, now):
        return verdict
    # A wiped status says nothing; with pods there, the job has been started.
    phase = snapshot.status.phase or Phase.STARTING
    end = job_type_of(snapshot.job, None).end_of_frozen(snapshot)
    if end is not None and phase is Phase.RUNNING:
        return end
    return Verdict(phase=phase)
