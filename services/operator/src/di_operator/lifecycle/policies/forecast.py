"""The expected start and end of a job, and when a changed forecast is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.phase import Phase
from di_api.spec import Task
from di_operator.lifecycle.observed import expected_start
from di_operator.lifecycle.observed.expected_completion import (
    LONGEST,
    WRITE_PERIOD,
    Run,
    expect,
    has_moved,
    mark_of,
)
from di_operator.lifecycle.observed.placement import is_placed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import Status
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.deadline import time_left
from di_operator.lifecycle.policy import COUNTS_PERIOD, NOTHING, Drift, Policy, Report
from di_operator.lifecycle.vocabulary.conditions import is_true
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.vocabulary.timestamps import parse_time

_OF_END: Final = ("expectedCompletion", "pace")
FIELDS: Final = (*_OF_END, expected_start.FIELD)
_GOES_ON: Final = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESTARTING, Phase.RESCHEDULING})
"""Phases in which an older forecast is kept until there is a new one."""


def report_forecast(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the forecast for a job that is about to be in a phase.

    A first forecast is written as early as new counts.
    """
    status, phase = snapshot.status, verdict.phase
    written = {key: status.raw[key] for key in FIELDS if key in status.raw}
    of_end: dict[str, Any] = {key: written[key] for key in _OF_END if key in written}
    present = {**_present(snapshot, phase, now, of_end), **_start(snapshot, phase, now, written)}
    if present == written:
        return Report(fields=written) if written else NOTHING
    gone_or_new = written.keys() != present.keys() or written.get("pace") != present.get("pace")
    delay = COUNTS_PERIOD if gone_or_new else WRITE_PERIOD
    return Report(fields=written, drift=Drift(fields=present, delay=delay))


def _start(
    snapshot: Snapshot, phase: Phase, now: datetime, written: Mapping[str, Any]
) -> Mapping[str, Any]:
    if phase is not Phase.PENDING or snapshot.spec is None or snapshot.spec.suspend:
        return {}
    grant = snapshot.grant
    found = expected_start.start_field(
        written.get(expected_start.FIELD), grant.expected_start if grant else None, now
    )
    return {expected_start.FIELD: found} if found is not None else {}


def _present(
    snapshot: Snapshot, phase: Phase, now: datetime, written: Mapping[str, Any]
) -> Mapping[str, Any]:
    if phase not in _GOES_ON:
        return {}
    if phase is Phase.RUNNING and snapshot.status.reported.total is None:
        # Most jobs report no total of steps and return here, at low cost.
        return {}
    run = _run_of(snapshot, now) if phase is Phase.RUNNING else None
    if run is None:
        return written
    present: dict[str, Any] = {}
    if (mark := mark_of(run)) is not None:
        present["pace"] = mark.dump()
    if (found := expect(run, now)) is not None:
        is_moved = has_moved(found, run.before, now)
        kept = written.get("expectedCompletion")
        present["expectedCompletion"] = found.dump() if is_moved else kept
    return present


def _run_of(snapshot: Snapshot, now: datetime) -> Run | None:
    """Return the facts about a running job; None if it is unknown whether it goes on."""
    status = snapshot.status
    since, at = status.transitioned, status.reported.reported_at
    if status.phase is not Phase.RUNNING or since is None or snapshot.spec is None:
        return None
    placement, left = status.placement or {}, time_left(snapshot, now)
    replicas = sum(map(len, placement.values()))
    hangs = is_true(status.conditions, Problem.HUNG)
    return Run(
        reported=status.reported,
        since=since,
        mark=status.pace,
        before=None if hangs else status.expectation,
        attained=_worked(status, replicas, since, at) if at is not None else 0.0,
        replicas=replicas,
        resized=is_placed(placement) and any(map(_is_resizable, snapshot.tasks)),
        deadline=now + timedelta(seconds=left) if left is not None and left < LONGEST else None,
        hangs=hangs,
    )


def _worked(status: Status, replicas: int, since: datetime, at: datetime) -> float:
    """Return the replica-seconds up to a report, without the start-up time of a placed job.

    Short jobs report once or twice, and a start-up of half a minute would halve their measured
    rate.
    """
    attained = status.attained(at)
    restarted = status.conditions.get(Phase.RESTARTING.value)
    again = parse_time((restarted or {}).get("lastTransitionTime"))
    reported = status.pace.since if status.pace is not None else None
    if status.placed_at is None or any(
        each is not None and each >= status.placed_at for each in (again, reported)
    ):
        # The job ran on these nodes before; the time of its first start there is not recorded.
        return attained
    starting = max(0.0, (since - status.placed_at).total_seconds())
    return max(0.0, attained - starting * replicas)


def _is_resizable(task: Task) -> bool:
    least, most = task.min_replicas or task.replicas, task.max_replicas or task.replicas
    return least < most


FORECAST: Final = Policy(report=report_forecast)
