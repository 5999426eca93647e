"""Jobs with an unreadable spec: a running one is left as it is, except that its end is detected.

The wanted pods of such a job are unknown, so none is created and none deleted. A rollback of the
operator may have caused this state; the job can still finish.
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
    """Return the transition of a job whose spec cannot be read."""
    return _judge_frozen(snapshot, now) if snapshot.is_frozen else judge_refused(snapshot)


def judge_refused(snapshot: Snapshot) -> Verdict:
    """Return the failure of a job that never started, because of the errors in its spec."""
    message = "; ".join(str(error) for error in snapshot.errors)
    return Verdict(phase=Phase.FAILED, reason=Reason.INVALID_SPEC, message=message)


def _judge_frozen(snapshot: Snapshot, now: datetime) -> Verdict:
    """Keep the phase, unless the status shows that the job has ended."""
    if verdict := judge_deadline(snapshot, now):
        return verdict
    # A wiped status has no phase; a job that has pods has been started.
    phase = snapshot.status.phase or Phase.STARTING
    end = job_type_of(snapshot.job, None).end_of_frozen(snapshot)
    if end is not None and phase is Phase.RUNNING:
        return end
    return Verdict(phase=phase)
