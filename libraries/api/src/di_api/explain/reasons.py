"""The operator's reasons that explain a job without further facts.

Its other reasons are explained by the pods, the scheduler or the waiting tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from di_api.explain.cause import Cause

_AGAIN: Final = (
    "correct what the message names, delete the job (di delete {job}) and submit it again"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Explanation of a reason."""

    cause: Cause
    summary: str
    remedy: str


REASONS: Final[Mapping[str, Row]] = {
    "InvalidSpec": Row(Cause.INVALID_SPEC, "{job} failed: its spec breaks the rules", _AGAIN),
    "InvalidTemplate": Row(
        Cause.INVALID_SPEC, "{job} failed: the API server refuses its pods as invalid", _AGAIN
    ),
    "InvalidCompanion": Row(
        Cause.INVALID_SPEC, "the API server refuses a companion of {job} as invalid", _AGAIN
    ),
    "PodNameConflict": Row(
        Cause.NAME_TAKEN,
        "an object of a name that {job} needs belongs to another owner",
        "delete or rename that object, or submit the job under another name",
    ),
    "CompanionConflict": Row(
        Cause.NAME_TAKEN,
        "an object of the name of a companion of {job} belongs to another owner",
        "delete or rename that object, or submit the job under another name",
    ),
    "CompanionKindMissing": Row(
        Cause.MISSING_KIND,
        "{job} does not start: nobody serves the kind of one of its companions here",
        "have that kind installed, or allowed to the operator; the job tries again by itself",
    ),
    "SchedulingKindMissing": Row(
        Cause.MISSING_KIND,
        "{job} does not start: nothing here serves what its gangScheduler reads",
        "have that scheduler installed, or submit the job without gangScheduler; it tries again "
        "by itself",
    ),
    "SchedulingObjectRefused": Row(
        Cause.MISSING_KIND,
        "{job} does not start: an object for its scheduler is refused",
        "allow it to the operator (scheduling of its chart), or delete what has its name; the job "
        "tries again by itself",
    ),
    "DeadlineExceeded": Row(
        Cause.DEADLINE,
        "{job} failed: it was active for longer than its deadline",
        "raise activeDeadlineSeconds, and submit it again; with a checkpoint it goes on from there",
    ),
    "TaskCompleted": Row(
        Cause.FAILURE_RULE,
        "{job} failed: one of its tasks has succeeded, and onCompletion ends the job",
        "nothing, if that was intended; else change onCompletion of the task or backoffLimit, and "
        "submit the job again",
    ),
    "NodeListsTooLong": Row(
        Cause.INVALID_SPEC,
        "{job} gets no pods: its lists of nodes would not fit their ConfigMap",
        "scale it to fewer replicas: di scale --help",
    ),
    "JobQueued": Row(
        Cause.QUEUE,
        "{job} waits for its queue to admit it",
        "kubectl describe dijob {job} has Kueue's own words in the condition Queued",
    ),
    "RestartRequested": Row(
        Cause.RESTARTED,
        "{job} starts again: a restart was requested",
        "nothing: its pods have their grace period to end, then new ones start (di watch {job})",
    ),
    "QueueQuotaExceeded": Row(
        Cause.QUOTA,
        "{job} waits: its namespace has what the allocator's quota allows it",
        "it starts by itself when a job of its namespace ends or gives room back (di queue); "
        "sooner with fewer minReplicas, or a higher quota from who runs the cluster",
    ),
    "NotAllocatable": Row(
        Cause.OPERATOR_FAILED,
        "{job} gets no nodes: the allocator cannot read it",
        "correct what the message names; else report it with the job's manifest",
    ),
}
