"""Reports the wanted and the ready replicas of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import mapping
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.status import has_running_pods
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report

_FROM_SPEC: Final = (
    *("replicas", "readyReplicas", "taskStatus", "replicaStatus"),
    *("placement", "allocation", "placementTime", "replicaSeconds", "batchSize", "avoidedNodes"),
)
"""Fields, also of other topics, that are kept while the spec they come from cannot be read."""
_ENDED: Final = ("Succeeded", "Failed")
"""Pod phases that a finished job still counts: all other pods are being deleted."""


def report_counts(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the counts of pods, in total and by task; urgent if the spec requests other counts,
    or if no pod is ready any more, or none runs.
    """
    fields: dict[str, Any]
    slots = snapshot.slots
    if snapshot.awaits_grant:
        # No pod is created before the gang is released, so none is counted as Pending.
        slots = tuple(slot for slot in slots if slot.name in snapshot.done)
    if snapshot.is_frozen:
        written = snapshot.status.raw
        fields = {key: written[key] for key in _FROM_SPEC if key in written}
    else:
        fields = {
            "replicas": len(slots),
            "readyReplicas": len(snapshot.ready),
            "taskStatus": _task_status(snapshot, slots),
        }
    if verdict.phase.is_finished:
        counts = mapping(fields.get("taskStatus"))
        fields |= {"readyReplicas": 0, "taskStatus": _without_active(counts)}
    number = Counter(slot.task.name for slot in slots)
    wanted = {task.name: number[task.name] for task in snapshot.tasks}
    is_other = snapshot.spec is not None and wanted != snapshot.status.desired
    # A suspended or preempted job must not be shown as ready for seconds, and a sweep waits until
    # the pods of a stopped trial have ended.
    was, down = snapshot.status.raw, not fields.get("readyReplicas")
    is_down = down and bool(was.get("readyReplicas"))
    has_ended = (
        down
        and has_running_pods(was.get("taskStatus"))
        and not has_running_pods(fields.get("taskStatus"))
    )
    return Report(fields=fields, is_urgent=is_other or is_down or has_ended)


def _task_status(snapshot: Snapshot, slots: Iterable[Slot]) -> dict[str, dict[str, int]]:
    """Return the replicas of each task by pod phase. One without a pod is Pending, unless it has
    succeeded.

    The sums are the number of pods that the job has now: 0 for a gang that waits for capacity,
    else the requested replicas. The next reconcile compares them with the spec.
    """
    counts: dict[str, dict[str, int]] = {task.name: {} for task in snapshot.tasks}
    for slot in slots:
        pod = snapshot.held.get(slot.name)
        phases = counts.setdefault(slot.task.name, {})
        phase = pod.phase if pod is not None else "Pending"
        if slot.name in snapshot.done:
            phase = "Succeeded"
        phases[phase] = phases.get(phase, 0) + 1
    return counts


def _without_active(counts: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {
        task: {phase: number for phase, number in mapping(found).items() if phase in _ENDED}
        for task, found in counts.items()
    }


REPLICA_COUNTS: Final = Policy(report=report_counts)
