"""Policies of a Volcano Job, by event and exit code, as failure rules and `onCompletion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from di_api.spec.failure import FailureAction
from di_api.spec.task import CompletionAction
from di_cli.convert.fields import Fields, Object
from di_cli.convert.run_policy import IGNORE_DISRUPTIONS

_FAILED, _EVICTED, _COMPLETED, _ANY = "PodFailed", "PodEvicted", "TaskCompleted", "*"
_DECIDED: Final = "a policy before it decides about all failures"
_AFTER_FAILURE: Final[Mapping[str, FailureAction]] = {
    "RestartJob": FailureAction.RESTART_JOB,
    "RestartTask": FailureAction.RESTART_TASK,
    "RestartPod": FailureAction.RESTART,
    "TerminateJob": FailureAction.FAIL_JOB,
    "AbortJob": FailureAction.FAIL_JOB,
}
_AFTER_COMPLETION: Final[Mapping[str, CompletionAction]] = {
    "CompleteJob": CompletionAction.COMPLETE_JOB,
    "RestartJob": CompletionAction.RESTART_JOB,
    "RestartTask": CompletionAction.RESTART_TASK,
    "TerminateJob": CompletionAction.FAIL_JOB,
    "AbortJob": CompletionAction.FAIL_JOB,
}


@dataclass(slots=True)
class Policies:
    """Rules and completion action from the policies of the job or of one task.

    Attributes:
        evictions: rules about pods that the cluster ends.
        failures: rules about pods that fail.
        decides: whether the rules decide about any failure.
        on_completion: action when a task has completed; None if no policy is about that.
    """

    evictions: list[Object] = field(default_factory=list)
    failures: list[Object] = field(default_factory=list)
    decides: bool = False
    on_completion: str | None = None


def policies_of(owner: Fields, task: str | None) -> Policies:
    """Return the `policies` of a job or, with its name, of a task."""
    result = Policies()
    scope: Object = {} if task is None else {"tasks": [task]}
    for policy in owner.inners("policies"):
        _add(result, policy, scope)
        policy.comment("timeout", "the action is taken at once")
        policy.rest()
    return result


def failure_rules(job: Policies, tasks: Mapping[str, Policies], defaults: list[Object]) -> Object:
    """Return the failure policy: rules of tasks precede those of the job, and `defaults` come
    last.
    """
    each = [*tasks.values(), job]
    evictions = [rule for policies in each for rule in policies.evictions]
    failures = [rule for policies in each for rule in policies.failures]
    return {"rules": [*evictions, {**IGNORE_DISRUPTIONS}, *failures, *defaults]}


def _add(result: Policies, policy: Fields, scope: Object) -> None:
    action = policy.text("action") or ""
    code = policy.whole("exitCode", 1)
    events = [*_events(policy)]
    found = _AFTER_FAILURE.get(action)
    if code is not None:
        if found is None:
            policy.remark("", f"no failure rule does what {action} does")
            return
        if result.decides:
            policy.remark("", _DECIDED)
            return
        fits = {"onExitCodes": {"operator": "In", "values": [code]}}
        result.failures.append({**scope, **fits, "action": found.value})
    for event in events:
        _add_event(result, policy, scope, event, action)
    if action == "AbortJob":
        policy.remark("action", "the job fails; one that was aborted could be resumed")
    elif action == "TerminateJob":
        policy.remark("action", "the job fails")


def _add_event(result: Policies, policy: Fields, scope: Object, event: str, action: str) -> None:
    if event == _COMPLETED:
        completion = _AFTER_COMPLETION.get(action)
        if completion is None:
            policy.remark("", f"no onCompletion does what {action} does")
        elif result.on_completion is not None:
            policy.remark("", "a policy before it decides what a completed task does")
        else:
            result.on_completion = completion.value
        return
    found = _AFTER_FAILURE.get(action)
    if found is None or event not in (_FAILED, _EVICTED, _ANY):
        policy.remark("", f"no failure rule does what {action} does on {event}")
        return
    if event in (_EVICTED, _ANY):
        fits = {"onConditions": ["DisruptionTarget"]}
        result.evictions.append({**scope, **fits, "action": found.value})
    if event in (_FAILED, _ANY) and result.decides:
        policy.remark("", _DECIDED)
    elif event in (_FAILED, _ANY):
        result.failures.append({**scope, "action": found.value})
        result.decides = True
    if event == _ANY:
        policy.remark("", "it is about pods that failed or were evicted, and no other event")


def _events(policy: Fields) -> Iterator[str]:
    single = policy.text("event")
    if single is not None:
        yield single
    for each in policy.take("events") or ():
        yield str(each)
