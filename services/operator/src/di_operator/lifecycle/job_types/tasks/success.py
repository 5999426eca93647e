"""successPolicy: a job is over when some of its tasks have succeeded, whatever the others do.

| seen | what is done |
|---|---|
| the tasks have succeeded, other pods have not ended | SuccessCriteriaMet, before any delete |
| SuccessCriteriaMet, within the grace period | the others are deleted with what is left of it |
| they have all ended, or the time is up, or there is none | Succeeded |

From SuccessCriteriaMet on nothing about a pod counts any more. Its time of transition is in the
status, so whoever decides next goes on from there.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from math import ceil
from typing import Final

from di_api.phase import Phase
from di_api.spec import SuccessOperator, SuccessPolicy
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.deletion import delete_pod
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.conditions import SUCCESS_CRITERIA_MET, Aside, kept
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.timestamps import parse_time

REASON: Final = "TasksSucceeded"


def judge_success(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """End a job whose success policy is fulfilled; None: it has none, or is not over."""
    policy = snapshot.spec.success_policy if snapshot.spec is not None else None
    phase = snapshot.status.phase
    if policy is None or phase is None:
        return None
    left, done = _time_left(snapshot, policy, now), _succeeded_tasks(snapshot, policy)
    if left is None and (not done or len(snapshot.done) == len(snapshot.awaited)):
        # All of them: that has always been the end.
        return None
    # Of a pod whose program has ended only sidecars run on: cleanPodPolicy rules over it.
    others = [pod for pod in snapshot.pods if not pod.is_over]
    if left is None and others and policy.grace_period_seconds:
        return _announce(phase, done, len(others), policy)
    if left is None or left <= 0 or not others:
        return _succeeded(done or list(policy.tasks))
    # Zero would delete them without their kubelet.
    grace = max(1, ceil(left))
    return Verdict(
        phase=phase,
        actions=tuple(
            delete_pod(pod, grace_period_seconds=grace) for pod in others if not pod.terminating
        ),
        requeue_after=left,
    )


def report_criteria(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """The condition SuccessCriteriaMet, once it was written: the grace period counts from it."""
    if snapshot.spec is None or snapshot.spec.success_policy is None:
        return NOTHING
    return Report(conditions=tuple(kept(snapshot.status.conditions, SUCCESS_CRITERIA_MET)))


def _time_left(snapshot: Snapshot, policy: SuccessPolicy, now: datetime) -> float | None:
    """Seconds of the grace period, None if it has not begun."""
    met = snapshot.status.conditions.get(SUCCESS_CRITERIA_MET)
    if met is None or met["status"] != "True":
        return None
    began = parse_time(met.get("lastTransitionTime")) or now
    # A clock that was set back does not make the period longer.
    passed = max(0.0, (now - began).total_seconds())
    return policy.grace_period_seconds - passed


def _succeeded_tasks(snapshot: Snapshot, policy: SuccessPolicy) -> list[str]:
    """The tasks that have made the job succeed; none: it has not."""
    if not snapshot.done:
        # So it is at most looks, and a job may have thousands of pods.
        return []
    wanted = Counter(slot.task.name for slot in snapshot.awaited)
    found = Counter(slot.task.name for slot in snapshot.slots if slot.name in snapshot.done)
    done = [name for name in policy.tasks if wanted[name] and found[name] == wanted[name]]
    enough = policy.operator is SuccessOperator.ANY or len(done) == len(policy.tasks)
    return done if enough else []


def _announce(phase: Phase, done: list[str], others: int, policy: SuccessPolicy) -> Verdict:
    seconds = count_of(policy.grace_period_seconds, "second")
    message = f"{_text(done)}; {count_of(others, 'other pod')} to end within {seconds}"
    return Verdict(
        phase=phase,
        asides=(Aside(type=SUCCESS_CRITERIA_MET, value=True, reason=REASON, message=message),),
        events=(JobEvent(reason=Reason.SUCCESS_CRITERIA_MET, message=message),),
        # Should the watch not show the status that was just written.
        requeue_after=1.0,
    )


def _succeeded(done: list[str]) -> Verdict:
    return Verdict(phase=Phase.SUCCEEDED, message=_text(done))


def _text(done: list[str]) -> str:
    noun = "task" if len(done) == 1 else "tasks"
    return f"{noun} {', '.join(done)} succeeded"


SUCCESS_POLICY: Final = Policy(report=report_criteria)
