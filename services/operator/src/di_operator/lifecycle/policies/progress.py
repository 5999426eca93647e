"""progressPolicy: the response to a job whose reported step no longer grows.

It applies only while the job is Running with the pods that it needs. Each of these starts the
window again: a step, a phase that the program reports, a start of its pods, and the end of a time
in which reports could not arrive. So an outage never restarts a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from di_api.phase import Phase
from di_api.spec import ProgressAction, ProgressPolicy, TaskType
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, restarts_used
from di_operator.lifecycle.policies.pending_timeout import is_short
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import (
    BELOW_MINIMUM,
    SUCCESS_CRITERIA_MET,
    Aside,
    is_true,
    kept,
)
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from di_operator.lifecycle.vocabulary.rules import Part
from di_operator.lifecycle.vocabulary.timestamps import parse_time

AWAY_LOOK = 10.0
"""Seconds until the next reconcile while reports cannot arrive."""
_TAKEN: Final = Aside(
    type=Problem.REPORT_REJECTED,
    value=False,
    reason="ReportTaken",
    message="the last report is valid",
)
_PROGRESSING: Final = Aside(
    type=Problem.HUNG,
    value=False,
    reason="Progressing",
    message="its step grows again, or its pods were restarted",
)
_REPORTING: Final = Aside(
    type=Problem.NO_SIGNAL,
    value=False,
    reason="Reporting",
    message="a step was reported, or its pods were restarted",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time in which the job has to report."""

    problem: Problem
    """The problem if it does not."""
    heard: datetime
    """Time of the last report, which ends an earlier problem."""
    began: datetime
    """Earliest start of the window."""
    limit: int
    """Length in seconds."""
    is_over: bool
    """Whether the job's conditions already show that the window has passed."""

    def left(self, now: datetime) -> float:
        """Return the seconds that are left of the window."""
        return 0.0 if self.is_over else self.limit - (now - self.began).total_seconds()


def judge_progress(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Apply the policy to a job that hangs."""
    window, policy = _window(snapshot), _policy(snapshot)
    if window is None or policy is None or window.problem is not Problem.HUNG:
        return None
    if window.left(now) > 0 or policy.action is ProgressAction.NOTIFY:
        return None
    what = _hung(snapshot, window)
    if policy.action is ProgressAction.FAIL_JOB or snapshot.spec is None:
        return Verdict(phase=Phase.FAILED, reason=Reason.NO_PROGRESS, message=what)
    spent, limit = snapshot.status.job_restarts, snapshot.spec.backoff_limit
    if spent >= limit:
        message = f"{what}; {restarts_used(spent, limit)}"
        return Verdict(phase=Phase.FAILED, reason=Reason.NO_PROGRESS, message=message)
    is_task = policy.action is ProgressAction.RESTART_TASK
    tasks = _watched(snapshot, policy) if is_task else {task.name for task in snapshot.tasks}
    which = f"restarting {', '.join(sorted(tasks))}; restart {spent + 1} of {limit}"
    return Verdict(
        phase=Phase.RESTARTING,
        message=f"{what}; {which}",
        restarts=1,
        restarted=frozenset(tasks),
        ledger=snapshot.status.ledger.with_restart_of_job(),
    )


def progress_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the policy may apply, None without a window."""
    if _policy(snapshot) is None or snapshot.status.phase is not Phase.RUNNING:
        return None
    if snapshot.reports_since is None:
        return AWAY_LOOK
    window = _window(snapshot)
    left = window.left(now) if window is not None else 0.0
    return left if left > 0 else None


_GOES_WELL: Final = Report(conditions=(_PROGRESSING, _REPORTING, _TAKEN))
"""The report of most jobs: they have no policy, and their reports are valid."""


def report_progress(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the conditions Hung, NoSignal and ReportRejected, from the job's reports."""
    if _policy(snapshot) is None and not snapshot.status.reported.rejected:
        return _GOES_WELL
    return Report(conditions=(*_conditions(snapshot, now), _last_report(snapshot)))


def _conditions(snapshot: Snapshot, now: datetime) -> Iterator[Aside]:
    """Yield Hung and NoSignal; they stay as they are while reports cannot arrive."""
    if _policy(snapshot) is not None and snapshot.reports_since is None:
        yield from kept(snapshot.status.conditions, Problem.HUNG, Problem.NO_SIGNAL)
        return
    window = _window(snapshot)
    problem = window.problem if window is not None and window.left(now) <= 0 else None
    if window is not None and problem is Problem.HUNG:
        message = _hung(snapshot, window)
        yield Aside(type=problem, value=True, reason="NoProgress", message=message)
    else:
        yield _PROGRESSING
    if window is not None and problem is Problem.NO_SIGNAL:
        seconds = count_of(window.limit, "second")
        message = f"no step was ever reported, for {seconds} of running"
        yield Aside(type=problem, value=True, reason="NoReport", message=message)
    else:
        yield _REPORTING


def _last_report(snapshot: Snapshot) -> Aside:
    rejected = snapshot.status.reported.rejected
    if not rejected:
        return _TAKEN
    message = f"the report was dropped: {rejected}"
    return Aside(type=Problem.REPORT_REJECTED, value=True, reason="Senseless", message=message)


def _policy(snapshot: Snapshot) -> ProgressPolicy | None:
    return snapshot.spec.progress_policy if snapshot.spec is not None else None


def _window(snapshot: Snapshot) -> Window | None:
    """Return the present window; None if the policy does not apply now."""
    policy, status, reported = _policy(snapshot), snapshot.status, snapshot.status.reported
    running, reports_since = status.transitioned, snapshot.reports_since
    if policy is None or running is None or reports_since is None or not _is_judged(snapshot):
        return None
    began = max(running, reports_since, _enough_since(snapshot) or running)
    first = policy.first_timeout_seconds or policy.timeout_seconds
    if reported.step is None:
        # No step was ever reported, so nothing is known about the job's progress.
        return _window_of(snapshot, Problem.NO_SIGNAL, running, began, first)
    stepped = reported.progressed_at
    has_begun = stepped is not None and stepped > running and not reported.phase
    heard = max(running, stepped or running, reported.phase_at or running)
    limit = policy.timeout_seconds if has_begun else first
    return _window_of(snapshot, Problem.HUNG, heard, max(began, heard), limit)


def _window_of(
    snapshot: Snapshot, problem: Problem, heard: datetime, began: datetime, limit: int
) -> Window:
    told = snapshot.status.conditions.get(problem)
    since = parse_time((told or {}).get("lastTransitionTime"))
    is_told = told is not None and told["status"] == "True" and since is not None and since > heard
    return Window(problem=problem, heard=heard, began=began, limit=limit, is_over=is_told)


def _is_judged(snapshot: Snapshot) -> bool:
    status, policy = snapshot.status, _policy(snapshot)
    if policy is None or snapshot.spec is None or snapshot.spec.suspend:
        return False
    if status.phase is not Phase.RUNNING or is_true(status.conditions, SUCCESS_CRITERIA_MET):
        return False
    # Both are checked: either one may have changed before the other. The condition has the time.
    if is_true(status.conditions, BELOW_MINIMUM) or is_short(snapshot):
        return False
    # A pod that has finished reports no more.
    watched = _watched(snapshot, policy)
    done = snapshot.done
    return any(slot.task.name in watched and slot.name not in done for slot in snapshot.slots)


def _enough_since(snapshot: Snapshot) -> datetime | None:
    told = snapshot.status.conditions.get(BELOW_MINIMUM)
    return parse_time((told or {}).get("lastTransitionTime"))


def _watched(snapshot: Snapshot, policy: ProgressPolicy) -> set[str]:
    """Return the tasks whose pods report the steps: those named, the learners, or all without
    learners.
    """
    tasks = {slot.task.name: slot.task.type for slot in snapshot.slots if slot.part is Part.TASK}
    learners = {name for name, kind in tasks.items() if kind is TaskType.LEARNER}
    return set(policy.tasks) or learners or {task.name for task in snapshot.tasks}


def _hung(snapshot: Snapshot, window: Window) -> str:
    reported = snapshot.status.reported
    where = f"in phase {reported.phase} " if reported.phase else ""
    step = f"{reported.step:g}" if reported.step is not None else "none"
    seconds = count_of(window.limit, "second")
    since = format_time(window.heard)
    return f"the reported step is {step} {where}since {since}, for longer than {seconds}"


PROGRESS: Final = Policy(judge=judge_progress, report=report_progress, due=progress_time_left)
