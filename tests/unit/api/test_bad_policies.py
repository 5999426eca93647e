"""Ends, failures, progress and restarts: what is refused, and in which words."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, of_spec, task, template

RULES = "spec.failurePolicy.rules"
COORDINATED = {"coordinated": {"coordinator": {"template": template()}}}


def failing(*rules: Job, memory: str | None = None) -> Job:
    """A job of a learner, whose container has that memory limit, and collectors."""
    result = job(task(), task("collector"), failurePolicy={"rules": [*rules]})
    (container,) = result["spec"]["tasks"][0]["template"]["spec"]["containers"]
    if memory is not None:
        container["resources"] = {"limits": {"memory": memory}}
    return result


BAD = {
    "a success policy of an unknown task": (
        job(task(), successPolicy={"tasks": ["learner", "critic"]}),
        'spec.successPolicy.tasks[1]: "critic": no task of this job has that name',
    ),
    "a success policy that names a task twice": (
        job(task(), successPolicy={"tasks": ["learner", "learner"]}),
        'spec.successPolicy.tasks[1]: "learner": is listed already',
    ),
    "a success policy of no task": (
        job(task(), successPolicy={"tasks": []}),
        "spec.successPolicy.tasks: []: must name a task",
    ),
    "a success policy without tasks": (
        job(task(), successPolicy={}),
        "spec.successPolicy.tasks: is required",
    ),
    "a success policy with time running backwards": (
        job(task(), successPolicy={"tasks": ["learner"], "gracePeriodSeconds": -1}),
        "spec.successPolicy.gracePeriodSeconds: -1: must be 0 or more",
    ),
    "a success policy with another operator": (
        job(task(), successPolicy={"tasks": ["learner"], "operator": "Most"}),
        'spec.successPolicy.operator: "Most": must be one of All, Any',
    ),
    "a failure policy of an unknown task": (
        failing({"tasks": ["learner", "critic"]}),
        f'{RULES}[0].tasks[1]: "critic": no task of this job has that name',
    ),
    "a failure policy of an unknown role": (
        of_spec(COORDINATED | {"failurePolicy": {"rules": [{"tasks": ["evaluator"]}]}}),
        f'{RULES}[0].tasks[0]: "evaluator": no task of this job has that name',
    ),
    "a rule that hides those after it": (
        failing({"action": "FailJob"}, {"onReasons": ["Evicted"]}),
        f"{RULES}[0]: an object: every failure fits this rule, so those after it are never reached",
    ),
    "a rule with another action": (
        failing({"action": "Explode"}),
        f'{RULES}[0].action: "Explode": must be one of Restart, Ignore, FailJob, RestartTask, '
        "RestartJob, RestartInPlace",
    ),
    "a container that goes on with more memory": (
        failing(
            {"action": "RestartInPlace", "growMemory": {}},
            {"onReasons": ["Evicted"], "action": "Ignore"},
            memory="1Gi",
        ),
        f"{RULES}[0].growMemory: {{}}: goes with actions that make another pod, not with "
        "RestartInPlace",
    ),
    "a container that goes on elsewhere": (
        failing({"action": "RestartInPlace", "avoidNode": True}),
        f"{RULES}[0].avoidNode: true: goes with actions that make another pod, not with "
        "RestartInPlace",
    ),
    "a coordinated job that restarts in place": (
        of_spec(COORDINATED | {"failurePolicy": {"rules": [{"action": "RestartInPlace"}]}}),
        f'{RULES}[0].action: "RestartInPlace": the templates of a coordinated job have a '
        "restartPolicy of their own",
    ),
    "replicas of several pods that restart in place": (
        job(
            task(),
            task("collector", podsPerReplica=2),
            failurePolicy={
                "rules": [
                    {"tasks": ["learner"], "action": "RestartInPlace"},
                    {"tasks": ["collector"], "action": "RestartInPlace"},
                ]
            },
        ),
        f'{RULES}[1].action: "RestartInPlace": replicas of task collector are of several pods, and '
        "made anew as a whole; name the tasks that the rule is about, without it",
    ),
    "all replicas that restart in place, some of several pods": (
        job(task(podsPerReplica=2), failurePolicy={"rules": [{"action": "RestartInPlace"}]}),
        f'{RULES}[0].action: "RestartInPlace": replicas of task learner are of several pods, and '
        "made anew as a whole; name the tasks that the rule is about, without it",
    ),
    "a rule about exit code 0": (
        failing({"onExitCodes": {"operator": "In", "values": [0, 3]}}),
        f"{RULES}[0].onExitCodes.values: a list of 2: a container that failed has another exit "
        "code",
    ),
    "a rule about no exit code": (
        failing({"onExitCodes": {"operator": "NotIn", "values": []}}),
        f"{RULES}[0].onExitCodes.values: []: must hold at least one exit code",
    ),
    "a rule about one exit code twice": (
        failing({"onExitCodes": {"operator": "NotIn", "values": [3, 3]}}),
        f"{RULES}[0].onExitCodes.values: a list of 2: must hold no exit code twice",
    ),
    "a rule about an exit code that there is not": (
        failing({"onExitCodes": {"operator": "In", "values": [256]}}),
        f"{RULES}[0].onExitCodes.values[0]: 256: must be 255 or less",
    ),
    "a rule about exit codes without an operator": (
        failing({"onExitCodes": {"values": [1]}}),
        f"{RULES}[0].onExitCodes.operator: is required",
    ),
    "growth in a job without memory limits": (
        failing({"growMemory": {}}),
        f"{RULES}[0].growMemory: {{}}: no container of any task has a memory limit, so there is "
        "nothing to grow",
    ),
    "growth of a task without a memory limit": (
        failing({"tasks": ["collector"], "growMemory": {}}, memory="4Gi"),
        f"{RULES}[0].growMemory: {{}}: no container of task collector has a memory limit, so there "
        "is nothing to grow",
    ),
    "growth to less than there is": (
        failing({"tasks": ["learner"], "growMemory": {"limit": "2Gi"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "2Gi": is less than the memory limit that a container of '
        "task learner has",
    ),
    "growth by a factor that shrinks": (
        failing({"growMemory": {"factor": 1}}, memory="4Gi"),
        f"{RULES}[0].growMemory.factor: 1: must be 2 or more",
    ),
    "growth by steps of nothing": (
        failing({"growMemory": {"maxStep": "0"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.maxStep: "0": must be more than 0',
    ),
    "growth to what is no amount": (
        failing({"growMemory": {"limit": "lots"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "lots": must be a quantity, such as 2, 500m or 1.5Gi',
    ),
    "growth to less than nothing": (
        failing({"growMemory": {"limit": "-1Gi"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "-1Gi": must not be negative',
    ),
    "growth of a pod that ends the job": (
        failing({"action": "FailJob", "growMemory": {}}, memory="4Gi"),
        f"{RULES}[0].growMemory: {{}}: goes with actions that count a restart, not with FailJob",
    ),
    "an avoided node of a failure that is none": (
        failing({"action": "Ignore", "avoidNode": True}),
        f"{RULES}[0].avoidNode: true: goes with actions that count a restart, not with Ignore",
    ),
    "a negative number of restarts of a replica": (
        job(task(), failurePolicy={"replicaBackoffLimit": -1}),
        "spec.failurePolicy.replicaBackoffLimit: -1: must be 0 or more",
    ),
    "a reset after no time": (
        job(task(), failurePolicy={"resetAfterSeconds": 0}),
        "spec.failurePolicy.resetAfterSeconds: 0: must be 1 or more",
    ),
    "more rules than there may be": (
        job(task(), failurePolicy={"rules": [{"tasks": ["learner"]}] * 33}),
        f"{RULES}: a list of 33: must hold at most 32 rules",
    ),
    "a negative limit of a task": (
        job(task(backoffLimit=-1)),
        "spec.tasks[0].backoffLimit: -1: must be 0 or more",
    ),
    "a limit of a task in another word": (
        job(task(backoffLimit="unlimited")),
        'spec.tasks[0].backoffLimit: "unlimited": must be Unlimited, or a number',
    ),
    "a limit of a task that is no number": (
        job(task(backoffLimit=True)),
        "spec.tasks[0].backoffLimit: true: must be a whole number, 0 or more",
    ),
    "a job that may never come up": (
        job(pendingTimeoutSeconds=0),
        "spec.pendingTimeoutSeconds: 0: must be 1 or more",
    ),
    "a task without any time": (
        job(task(activeDeadlineSeconds=-1)),
        "spec.tasks[0].activeDeadlineSeconds: -1: must be 1 or more",
    ),
    "a progress policy without a time": (
        job(progressPolicy={"action": "Notify"}),
        "spec.progressPolicy.timeoutSeconds: is required",
    ),
    "a progress policy that hangs at once": (
        job(progressPolicy={"timeoutSeconds": 0}),
        "spec.progressPolicy.timeoutSeconds: 0: must be 1 or more",
    ),
    "a first time-out that is the shorter one": (
        job(progressPolicy={"timeoutSeconds": 600, "firstTimeoutSeconds": 599}),
        "spec.progressPolicy.firstTimeoutSeconds: 599: must be at least timeoutSeconds, 600",
    ),
    "an unknown action": (
        job(progressPolicy={"timeoutSeconds": 600, "action": "Restart"}),
        'spec.progressPolicy.action: "Restart": must be one of Notify, RestartTask, RestartJob, '
        "FailJob",
    ),
    "a restart of an unknown task": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartTask", "tasks": ["critic"]}),
        'spec.progressPolicy.tasks[0]: "critic": no task of this job has that name',
    ),
    "a restart of no task": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartTask", "tasks": []}),
        "spec.progressPolicy.tasks: []: must name a task, or be left out",
    ),
    "tasks to restart, and nothing that restarts them": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartJob", "tasks": ["learner"]}),
        "spec.progressPolicy.tasks: a list of 1: goes with action RestartTask",
    ),
    "a restart of a task in a job with a coordinator": (
        of_spec(
            {
                "coordinated": {
                    "coordinator": {"template": template()},
                    "collector": {"template": template()},
                },
                "progressPolicy": {"timeoutSeconds": 9, "action": "RestartTask"},
            }
        ),
        'spec.progressPolicy.action: "RestartTask": a job with a coordinator has no tasks; '
        "RestartJob restarts all its pods",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
