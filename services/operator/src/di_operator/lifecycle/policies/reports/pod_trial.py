"""Reports pods that the API server would refuse, while a user or a queue holds the job back.

The rules of core/v1 are checked at admission. Others belong to the cluster: an admission policy,
Pod Security, a LimitRange, a missing PriorityClass. Without a dry run a queued job would fail them
only hours later, when its pods are created.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside, kept
from di_operator.lifecycle.vocabulary.reasons import Problem

_SOLVED: Final = Report(
    conditions=(
        Aside(
            type=Problem.PODS_REFUSED,
            value=False,
            reason="PodsAccepted",
            message="the API server refuses none of the job's pods, or the job no longer waits",
        ),
    )
)


def report_trial(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition PodsRefused; it is unchanged until the answer for this spec is known."""
    if verdict.phase.is_finished or not snapshot.is_held_back:
        return _SOLVED
    trial = snapshot.trial
    if trial is None:
        return Report(conditions=tuple(kept(snapshot.status.conditions, Problem.PODS_REFUSED)))
    if trial.reason is None:
        return _SOLVED
    refused = Aside(
        type=Problem.PODS_REFUSED, value=True, reason=trial.reason, message=trial.message
    )
    return Report(conditions=(refused,))


POD_TRIAL: Final = Policy(report=report_trial)
