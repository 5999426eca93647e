"""How many replicas a job is to have, and how many are ready."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import mapping
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report

_FROM_SPEC: Final = (
    *("replicas", "readyReplicas", "taskStatus", "replicaStatus"),
    *("placement", "allocation", "placementTime", "replicaSeconds", "batchSize", "avoidedNodes"),
)
"""Fields that are kept while the spec they are made from cannot be read, also other topics'."""
_ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that a job which has ended still counts: the others are on their way out."""


def report_counts(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """The counts of pods, in all and by task; urgent if the spec asks for others, or if
    no pod is ready any more."""
    fields: dict[str, Any]
    desired = snapshot.desired
    if snapshot.is_frozen:
        written = snapshot.status.raw
        fields = {key: written[key] for key in _FROM_SPEC if key in written}
    else:
        fields = {
            "replicas": len(snapshot.slots),
            "readyReplicas": len(snapshot.ready),
            "taskStatus": _task_status(snapshot, desired),
        }
    if verdict.phase.is_finished:
        counts = mapping(fields.get("taskStatus"))
        fields |= {"readyReplicas": 0, "taskStatus": _without_active(counts)}
    is_other = snapshot.spec is not None and desired != snapshot.status.desired
    # A job that is suspended or preempted must not be shown as ready for seconds.
    is_down = not fields.get("readyReplicas") and bool(snapshot.status.raw.get("readyReplicas"))
    return Report(fields=fields, is_urgent=is_other or is_down)


def _task_status(snapshot: Snapshot, desired: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Count the replicas of each task by the phase of their pod: without one Pending, unless they
    have succeeded.

    The sums are what the spec asked for; the next reconcile sees a new spec by them.
    """
    counts: dict[str, dict[str, int]] = {task: {} for task in desired}
    for slot in snapshot.slots:
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
