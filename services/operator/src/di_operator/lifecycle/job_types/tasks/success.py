"""successPolicy and CompleteJob: a job succeeds when some of its tasks have, whatever state the
others are in.

| observed | result |
|---|---|
| the tasks have succeeded, other pods have not ended | SuccessCriteriaMet, before any delete |
| SuccessCriteriaMet, within the grace period | the others are deleted with the rest of it |
| all others have ended, or the grace period has | Succeeded |

After SuccessCriteriaMet no pod is counted any more. Its transition time is in the status, so a new
leader continues from there.
"""

from __future__ import annotations

from datetime import datetime
from math import ceil
from typing import Final

from di_api.phase import Phase
from di_api.spec import SuccessPolicy
from di_operator.lifecycle.job_types.tasks.completed_tasks import met, success_policies
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
    """End a job whose success policy is met; None if it has no policy or is not over."""
    if not snapshot.done and SUCCESS_CRITERIA_MET not in snapshot.status.conditions:
        # Most reconciles return here, which is cheap even for a job with thousands of pods.
        return None
    phase = snapshot.status.phase
    policies = success_policies(snapshot)
    if not policies or phase is None:
        return None
    policy, done = met(snapshot, policies)
    left = _time_left(snapshot, policy, now)
    if left is None and (not done or len(snapshot.done) == len(snapshot.awaited)):
        # By default a job succeeds when all of its tasks have.
        return None
    # If its program has ended, only sidecars run: cleanPodPolicy decides about them.
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
    """Return the condition SuccessCriteriaMet once it is written: the grace period starts
    with it.
    """
    conditions = snapshot.status.conditions
    if SUCCESS_CRITERIA_MET not in conditions or not success_policies(snapshot):
        return NOTHING
    return Report(conditions=tuple(kept(conditions, SUCCESS_CRITERIA_MET)))


def _time_left(snapshot: Snapshot, policy: SuccessPolicy, now: datetime) -> float | None:
    """Return the seconds of the grace period that are left, None if it has not begun."""
    met = snapshot.status.conditions.get(SUCCESS_CRITERIA_MET)
    if met is None or met["status"] != "True":
        return None
    began = parse_time(met.get("lastTransitionTime")) or now
    # A clock that was set back must not extend the period.
    passed = max(0.0, (now - began).total_seconds())
    return policy.grace_period_seconds - passed


def _announce(phase: Phase, done: list[str], others: int, policy: SuccessPolicy) -> Verdict:
    seconds = count_of(policy.grace_period_seconds, "second")
    message = f"{_text(done)}; {count_of(others, 'other pod')} to end within {seconds}"
    return Verdict(
        phase=phase,
        asides=(Aside(type=SUCCESS_CRITERIA_MET, value=True, reason=REASON, message=message),),
        events=(JobEvent(reason=Reason.SUCCESS_CRITERIA_MET, message=message),),
        # In case the watch does not show the status that was just written.
        requeue_after=1.0,
    )


def _succeeded(done: list[str]) -> Verdict:
    return Verdict(phase=Phase.SUCCEEDED, message=_text(done))


def _text(done: list[str]) -> str:
    noun = "task" if len(done) == 1 else "tasks"
    return f"{noun} {', '.join(done)} succeeded"


SUCCESS_POLICY: Final = Policy(report=report_criteria)
