"""ttlSecondsAfterFinished: a finished job is deleted after that time (as in batch/v1 Job)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from di_api.timestamps import format_time
from di_kube.resources import DIJOBS
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.deletion import delete
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.decision import Decision


def expire(snapshot: Snapshot, now: datetime) -> Decision:
    """Delete the finished job at the end of its TTL, or return the delay until then."""
    # Read raw: an invalid spec is one of the ways to finish.
    spec = snapshot.job.get("spec")
    ttl = spec.get("ttlSecondsAfterFinished") if isinstance(spec, Mapping) else None
    completed = snapshot.status.completed
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 0 or completed is None:
        return Decision()
    left = ttl - (now - completed).total_seconds()
    if left > 0:
        return Decision(requeue_after=left)
    return Decision(actions=(delete(DIJOBS, snapshot.job),))


def report_end(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the time at which the job finished."""
    if not verdict.phase.is_finished:
        return NOTHING
    return Report(fields={"completionTimestamp": format_time(snapshot.status.completed or now)})


TTL: Final = Policy(report=report_end)
