"""A job that runs and whose spec cannot be read: left alone until it can, but for its end.

Which pods it is to have, nobody knows, so none is made and none is deleted. It may have come by
this state through a rollback; going on as it was is the best that can be done for it.
"""

from __future__ import annotations

from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.deadline import judge_deadline


def judge_frozen(job_type: JobType, snapshot: Snapshot, now: datetime) -> Verdict:
    """Keep the phase, unless what the status knows of the job says that it has ended."""
    if verdict := judge_deadline(snapshot, now):
        return verdict
    # A wiped status says nothing; with pods there, the job has been started.
    phase = snapshot.status.phase or Phase.STARTING
    end = job_type.end_of_frozen(snapshot)
    if end is not None and phase is Phase.RUNNING:
        return end
    return Verdict(phase=phase)
