"""Records the indexes of succeeded pods within seconds of their end."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.completed import Completed, dump_completed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import NOTHING, Drift, Policy, Report

_FIELD: Final = "completedIndexes"
GATHER_PERIOD: Final = 2.0
"""Seconds from the last status write to one for new indexes alone.

The pods of a job end one after the other, and a write for each would cost the API server more than
the pods did. A pod whose deletion has begun does not wait: it may be gone at once.
"""


def report_completed(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the completed indexes, without those that the transition restarts."""
    before = snapshot.status
    written = {_FIELD: before.raw[_FIELD]} if _FIELD in before.raw else {}
    if snapshot.spec is None:
        return Report(fields=written) if written else NOTHING
    completed = _without_restarted(snapshot, verdict)
    fields = {_FIELD: found} if (found := dump_completed(completed)) else {}
    known = before.completed_indexes
    is_more = any(done - known.get(task, frozenset()) for task, done in completed.items())
    is_leaving = any(pod.terminating for pod in snapshot.succeeded)
    if not is_more or is_leaving:
        return Report(fields=fields, is_urgent=is_more)
    return Report(fields=written, drift=Drift(fields=fields, delay=GATHER_PERIOD))


def _without_restarted(snapshot: Snapshot, verdict: Verdict) -> Completed:
    """A task, or a replica of several pods, restarts with all of its pods."""
    sizes = {task.name: task.pods_per_replica for task in snapshot.tasks}
    return {
        task: frozenset(
            index for index in done if (task, index // sizes.get(task, 1)) not in verdict.regrouped
        )
        for task, done in snapshot.completed_indexes.items()
        if task not in verdict.restarted
    }


COMPLETED_INDEXES: Final = Policy(report=report_completed)
