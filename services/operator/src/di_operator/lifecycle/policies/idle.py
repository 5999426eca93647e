"""idlePolicy: the response to a job whose learners wait, or whose GPUs are idle, most of the time.

Both shares are the job's own reports (`learnerWaitFrac`, `gpuIdleFrac`). The window lies between
two reports, and every report in it has such a share: nothing is assumed for a time without reports.
It begins again with a start of the job's pods, with a changed spec, and after a time in which
reports could not arrive.

The condition is written first, and the suspension or the step of `ScaleDown` follows from what was
written. A step changes the spec, so the next one needs a whole new window; the policy never adds
replicas. Its condition stays True until the next report, so that others can read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.spec import IdlePolicy
from di_api.timestamps import format_time
from di_kube.resources import DIJOBS
from di_operator.lifecycle.observed.reported import read_number
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.idle_response import (
    REASON_SCALED,
    REASON_SUSPENDED,
    response_to_idle,
    step_message,
)
from di_operator.lifecycle.policies.pending_timeout import is_short
from di_operator.lifecycle.policies.progress import AWAY_LOOK
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.actions import Patch
from di_operator.lifecycle.vocabulary.conditions import Aside, is_true, kept
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.vocabulary.timestamps import parse_time

SINCE: Final = "idleSince"
"""The field of the status with the time at which the window began."""
_NOT_IDLE: Final = Aside(
    type=Problem.IDLE,
    value=False,
    reason="LearnersBusy",
    message="its learners or GPUs work more, it was scaled or started again, or its reports "
    "stopped",
)
_BUSY: Final = Report(conditions=(_NOT_IDLE,))
"""The report of most jobs: they have no policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The time in which every report had the share of the policy."""

    policy: IdlePolicy
    since: datetime
    """Time at which the window began."""
    is_over: bool
    """Whether the window is as long as the policy requires."""


class _Share(NamedTuple):
    """A share that the job has reported.

    Attributes:
        is_reached: whether it is that of the policy or more.
    """

    at: datetime
    is_reached: bool


def report_idle(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition Idle, and the start of the window.

    A window that begins or ends is urgent: a later report could otherwise hide it. So a report
    causes one more write at most.
    """
    conditions, written = snapshot.status.conditions, snapshot.status.raw.get(SINCE)
    policy = _policy(snapshot)
    if policy is None and written is None and not is_true(conditions, Problem.IDLE):
        return _BUSY
    present = tuple(kept(conditions, Problem.IDLE))
    if _is_suspended_by_policy(snapshot):
        return Report(conditions=present)
    if policy is not None and _is_scaled_by_policy(snapshot, policy, now):
        return Report(conditions=present, is_urgent=written is not None)
    if snapshot.is_frozen or (policy is not None and _awaits_reports(snapshot, policy, now)):
        return Report(conditions=present, fields={} if written is None else {SINCE: written})
    window = _window(snapshot, now) if verdict.phase is Phase.RUNNING else None
    if window is None:
        return Report(conditions=(_NOT_IDLE,), is_urgent=written is not None)
    told = _told(snapshot, window) if window.is_over else _NOT_IDLE
    since = format_time(window.since)
    return Report(conditions=(told,), fields={SINCE: since}, is_urgent=since != written)


def act_on_idle(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Suspend or scale down a job whose written condition announces that."""
    window = _window(snapshot, now) if verdict.phase is Phase.RUNNING else None
    if window is None or not window.is_over:
        return verdict
    response = response_to_idle(snapshot, window.policy)
    told = snapshot.status.conditions.get(Problem.IDLE)
    announced = (told["status"], told["reason"]) if told is not None else None
    if response.patch is None or announced != ("True", response.reason):
        return verdict
    patch = Patch(
        resource=DIJOBS,
        namespace=snapshot.namespace,
        name=snapshot.name,
        uid=snapshot.uid,
        resource_version=snapshot.job["metadata"]["resourceVersion"],
        patch=response.patch,
    )
    return replace(verdict, actions=(*verdict.actions, patch))


def idle_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the last report is too old; None without a window.

    A window becomes longer by reports alone.
    """
    policy = _policy(snapshot)
    if policy is None or not _is_judged(snapshot):
        return None
    if snapshot.reports_since is None:
        return AWAY_LOOK
    at = _reported_at(snapshot, policy)
    left = policy.seconds - (now - at).total_seconds() if at is not None else 0.0
    return left if left > 0 else None


def _policy(snapshot: Snapshot) -> IdlePolicy | None:
    return snapshot.spec.idle_policy if snapshot.spec is not None else None


def _window(snapshot: Snapshot, now: datetime) -> _Window | None:
    """Return the present window; None if the policy does not apply, or the last report has a lower
    share, or is too old.
    """
    policy, status = _policy(snapshot), snapshot.status
    running, arriving = status.transitioned, snapshot.reports_since
    at = _reported_at(snapshot, policy) if policy is not None else None
    if policy is None or running is None or arriving is None or at is None:
        return None
    began = max(running, status.reported.phase_at or running)
    if not _is_judged(snapshot) or at <= max(began, arriving) or _is_old(policy, at, now):
        return None
    if not any(each.at == at and each.is_reached for each in _shares(snapshot, policy)):
        return None
    is_same_spec = status.raw.get("observedGeneration") == snapshot.generation
    since = parse_time(status.raw.get(SINCE))
    if since is None or since <= began or not is_same_spec:
        # Not the time of the report: pods may have started or ended since then.
        return _Window(policy=policy, since=now, is_over=False)
    if is_true(status.conditions, Problem.IDLE):
        # A new leader, or an outage, does not take back what was reported.
        return _Window(policy=policy, since=since, is_over=True)
    since = since if since > arriving else now
    is_over = (at - since).total_seconds() >= policy.seconds
    return _Window(policy=policy, since=since, is_over=is_over)


def _shares(snapshot: Snapshot, policy: IdlePolicy) -> Iterator[_Share]:
    """Yield the shares of the policy that the job has reported."""
    reported = snapshot.status.reported
    numbers = mapping(snapshot.status.raw.get("profilings"))
    for at, least, key in (
        (reported.waiting_at, policy.waiting_share, "learnerWaitFrac"),
        (reported.gpu_idle_at, policy.gpu_idle_share, "gpuIdleFrac"),
    ):
        if at is not None and least is not None:
            share = read_number(numbers.get(key))
            yield _Share(at, is_reached=share is not None and least / 100 <= share <= 1)


def _reported_at(snapshot: Snapshot, policy: IdlePolicy) -> datetime | None:
    """Return the time of the last report with a share of the policy; an older share of the other
    kind does not count.
    """
    return max((each.at for each in _shares(snapshot, policy)), default=None)


def _is_judged(snapshot: Snapshot) -> bool:
    """Return whether the job runs with all that it needs, and no pod of it starts or ends."""
    status = snapshot.status
    if snapshot.spec is None or snapshot.spec.suspend:
        return False
    if status.phase is not Phase.RUNNING or status.reported.phase:
        return False
    # Pods that a drain keeps for a while are surplus or displaced.
    ending = (snapshot.terminating, snapshot.leaving, snapshot.surplus, snapshot.displaced)
    return not any(ending) and not is_short(snapshot)


def _is_old(policy: IdlePolicy, at: datetime, now: datetime) -> bool:
    return (now - at).total_seconds() >= policy.seconds


def _awaits_reports(snapshot: Snapshot, policy: IdlePolicy, now: datetime) -> bool:
    """Return whether reports cannot arrive, or none has since they can: nothing is known yet."""
    at = _reported_at(snapshot, policy)
    if at is None or not _is_judged(snapshot):
        return False
    if snapshot.reports_since is None:
        return True
    return at <= snapshot.reports_since and not _is_old(policy, at, now)


def _is_suspended_by_policy(snapshot: Snapshot) -> bool:
    told = snapshot.status.conditions.get(Problem.IDLE)
    is_by_policy = told is not None and told["reason"] == REASON_SUSPENDED
    return is_by_policy and snapshot.spec is not None and snapshot.spec.suspend


def _is_scaled_by_policy(snapshot: Snapshot, policy: IdlePolicy, now: datetime) -> bool:
    """Return whether the announced step was the last change, and no report has come since."""
    told, at = snapshot.status.conditions.get(Problem.IDLE), _reported_at(snapshot, policy)
    if told is None or (told["status"], told["reason"]) != ("True", REASON_SCALED):
        return False
    since = parse_time(told["lastTransitionTime"])
    if snapshot.spec is None or at is None or since is None:
        return False
    is_done = any(
        told["message"].endswith(step_message(each.name, each.replicas + 1, each.replicas))
        for each in snapshot.spec.tasks
    )
    return is_done and at <= since and not _is_old(policy, at, now)


def _told(snapshot: Snapshot, window: _Window) -> Aside:
    policy = window.policy
    message = (
        f"{_what(policy)} since {format_time(window.since)}, for longer than "
        f"{count_of(policy.seconds, 'second')}"
    )
    response = response_to_idle(snapshot, policy)
    if response.message:
        message = f"{message}; {response.message}"
    return Aside(type=Problem.IDLE, value=True, reason=response.reason, message=message)


def _what(policy: IdlePolicy) -> str:
    shares = (
        ("the learners have waited", policy.waiting_share),
        ("the GPUs have been idle", policy.gpu_idle_share),
    )
    return " or ".join(
        f"{what} for {share} percent of the time or more"
        for what, share in shares
        if share is not None
    )


IDLE: Final = Policy(amend=act_on_idle, report=report_idle, due=idle_time_left)
