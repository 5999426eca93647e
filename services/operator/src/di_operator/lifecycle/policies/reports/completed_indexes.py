"""Records the indexes of succeeded pods, which must not run again."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.completed import Completed, dump_completed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import NOTHING, Policy, Report

_FIELD: Final = "completedIndexes"


def report_completed(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the completed indexes, without those that the transition restarts.

    They are written with the counts: the pods of a job end one after the other, and a write for
    each would cost the API server more than the pods did. A new index is only urgent if its pod is
    being deleted, or can lose its place to an allocator or a queue. Nothing but the memory of this
    process has the index then.
    """
    before = snapshot.status
    if snapshot.spec is None:
        return Report(fields={_FIELD: before.raw[_FIELD]}) if _FIELD in before.raw else NOTHING
    completed = _without_restarted(snapshot, verdict)
    fields = {_FIELD: found} if (found := dump_completed(completed)) else {}
    known = before.completed_indexes
    is_more = any(done - known.get(task, frozenset()) for task, done in completed.items())
    is_passing = (
        bool(snapshot.deleted)
        or any(pod.terminating for pod in snapshot.succeeded)
        or snapshot.spec.preemptible
        or snapshot.queueing is not None
    )
    return Report(fields=fields, is_urgent=is_more and is_passing)


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
