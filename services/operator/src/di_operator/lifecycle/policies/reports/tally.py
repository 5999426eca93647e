"""Records the counts of a transition: restarts, reschedules, and the pods that they include.

All of it is one write: failed pods are deleted only after they were counted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from di_api.stand_ins import as_status
from di_operator.lifecycle.failure.losses import remembered
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import Status
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report


def report_tally(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the counts, attempts and losses, with those of the transition added."""
    before = snapshot.status
    fields: dict[str, Any] = {
        "restarts": before.restarts + verdict.restarts,
        "reschedules": before.reschedules + verdict.reschedules,
        **(verdict.ledger or before.ledger).dump(),
    }
    if attempts := _attempts(before, verdict):
        fields["restartAttempts"] = attempts
    if regrouped := _replica_attempts(before, verdict):
        fields["replicaAttempts"] = regrouped
    if losses := remembered(snapshot, verdict.counted, now):
        fields["failures"] = losses
    if stand_ins := _stand_ins(before, verdict):
        fields["standIns"] = stand_ins
    return Report(fields=fields, is_urgent=_is_urgent(before, verdict))


def _is_urgent(before: Status, verdict: Verdict) -> bool:
    return (
        bool(verdict.restarts or verdict.reschedules or verdict.restarted or verdict.regrouped)
        or verdict.ledger is not None
        or verdict.stand_ins is not None
        or not before.counted.issuperset(pod.uid for pod in verdict.counted)
    )


def _attempts(before: Status, verdict: Verdict) -> dict[str, int]:
    attempts = dict(before.restart_attempts)
    for task in sorted(verdict.restarted):
        attempts[task] = attempts.get(task, 0) + 1
    return attempts


def _replica_attempts(before: Status, verdict: Verdict) -> dict[str, dict[str, int]]:
    attempts = {task: dict(found) for task, found in before.replica_attempts.items()}
    for task, index in verdict.regrouped:
        found = attempts.setdefault(task, {})
        found[index] = found.get(index, 0) + 1
    return {
        task: {str(index): found[index] for index in sorted(found)}
        for task, found in attempts.items()
    }


def _stand_ins(before: Status, verdict: Verdict) -> Any:
    if verdict.stand_ins is None:
        return before.raw.get("standIns")
    return as_status(verdict.stand_ins)


TALLY: Final = Policy(report=report_tally)
