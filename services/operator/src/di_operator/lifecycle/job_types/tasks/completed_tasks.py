"""Tasks of which every pod has succeeded, and what follows for the job: the policies of success,
and tasks[].onCompletion.

A restart counts for the job's backoffLimit, so that a program that ends at once cannot restart for
ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from di_api.phase import Phase
from di_api.spec import CompletionAction, SuccessOperator, SuccessPolicy
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, replaced, restarts_used
from di_operator.lifecycle.vocabulary.reasons import Reason


def success_policies(snapshot: Snapshot) -> tuple[SuccessPolicy, ...]:
    """Return the job's success policy, and one for the tasks that complete the job.

    They have the same grace period. The job has succeeded when one of them is met.
    """
    if snapshot.spec is None:
        return ()
    policy = snapshot.spec.success_policy
    own = () if policy is None else (policy,)
    enders = _tasks_with(snapshot, CompletionAction.COMPLETE_JOB)
    if not enders:
        return own
    base = policy or SuccessPolicy(tasks=enders)
    return (*own, replace(base, tasks=enders, operator=SuccessOperator.ANY))


def met(snapshot: Snapshot, policies: Sequence[SuccessPolicy]) -> tuple[SuccessPolicy, list[str]]:
    """Return the first policy that is met with the tasks that meet it, or the first one without
    tasks if none is.
    """
    completed = _completed(snapshot)
    for policy in policies if completed else ():
        done = [name for name in policy.tasks if name in completed]
        if done and (policy.operator is SuccessOperator.ANY or len(done) == len(policy.tasks)):
            return policy, done
    return policies[0], []


def judge_failing_completion(snapshot: Snapshot) -> Verdict | None:
    """Fail a job if a task with FailJob has succeeded, and the job as a whole has not."""
    name = _first(snapshot, CompletionAction.FAIL_JOB)
    if not name:
        return None
    message = f"task {name} succeeded, and its onCompletion is FailJob"
    return Verdict(phase=Phase.FAILED, reason=Reason.TASK_COMPLETED, message=message)


def judge_repeating_completion(snapshot: Snapshot) -> Verdict | None:
    """Restart a task that has succeeded, or the whole job, if its action is a restart."""
    action = CompletionAction.RESTART_JOB
    name = _first(snapshot, action)
    if not name:
        action = CompletionAction.RESTART_TASK
        name = _first(snapshot, action)
    if not name or snapshot.spec is None:
        return None
    what = f"task {name} succeeded, and its onCompletion is {action.value}"
    used, limit = snapshot.status.job_restarts, snapshot.spec.backoff_limit
    if used >= limit:
        message = f"{what}; {restarts_used(used, limit)}"
        return Verdict(phase=Phase.FAILED, reason=Reason.TASK_COMPLETED, message=message)
    is_job = action is CompletionAction.RESTART_JOB
    restarted = frozenset(task.name for task in snapshot.tasks) if is_job else frozenset({name})
    return Verdict(
        phase=Phase.RESTARTING,
        message=f"{what}; {replaced(restarted)}; restart {used + 1} of {limit}",
        restarts=1,
        restarted=restarted,
        ledger=snapshot.status.ledger.with_restart_of_job(),
    )


def _first(snapshot: Snapshot, action: CompletionAction) -> str:
    """Return the first task with this action that has succeeded; empty if there is none, or if the
    job has succeeded.
    """
    wanted = _tasks_with(snapshot, action)
    if not wanted or snapshot.status.phase is None:
        return ""
    completed = _completed(snapshot)
    found = next((name for name in wanted if name in completed), "")
    policies = success_policies(snapshot) if found else ()
    return "" if policies and met(snapshot, policies)[1] else found


def _tasks_with(snapshot: Snapshot, action: CompletionAction) -> tuple[str, ...]:
    return tuple(task.name for task in snapshot.tasks if task.on_completion is action)


def _completed(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks of which every pod has succeeded."""
    wanted = Counter(slot.task.name for slot in snapshot.awaited)
    found = Counter(slot.task.name for slot in snapshot.slots if slot.name in snapshot.done)
    return frozenset(name for name, number in wanted.items() if found[name] == number)
