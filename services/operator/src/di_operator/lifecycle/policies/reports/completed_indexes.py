"""Records the indexes of succeeded pods as soon as they have succeeded."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from di_operator.lifecycle.observed.completed import Completed, dump_completed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import NOTHING, Policy, Report

_FIELD: Final = "completedIndexes"


def report_completed(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the completed indexes, without those that the transition restarts.

    A new index is urgent: its pod may be gone with the next drain of a node.
    """
    written: dict[str, Any] = {}
    if snapshot.spec is None:
        if _FIELD in snapshot.status.raw:
            written[_FIELD] = snapshot.status.raw[_FIELD]
        return Report(fields=written) if written else NOTHING
    completed = _without_restarted(snapshot, verdict)
    if fields := dump_completed(completed):
        written[_FIELD] = fields
    before = snapshot.status.completed_indexes
    is_more = any(done - before.get(task, frozenset()) for task, done in completed.items())
    return Report(fields=written, is_urgent=is_more)


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
