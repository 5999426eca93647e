"""Fields of all kinds of Kubeflow's training-operator: `runPolicy`, `restartPolicy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api.field_error import mapping
from di_api.spec.failure import FailureAction
from di_cli.convert.fields import Fields, Object

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never", "ExitCode")
IGNORE_DISRUPTIONS: Final[Object] = {
    "onConditions": ["DisruptionTarget"],
    "action": FailureAction.IGNORE.value,
}
"""The rule that new DIJobs have by default, before all others."""
_OPERATOR: Final = "kubeflow.org/training-operator"
_SCHEDULERS: Final = {
    "volcano": "volcano",
    "scheduler-plugins": "scheduler-plugins",
    "scheduler-plugins-scheduler": "scheduler-plugins",
}
"""Gang schedulers by the name that templates have for them."""


def failure_policy(policies: Mapping[str, tuple[str, bool]]) -> Object:
    """Return the failure policy of a job.

    Args:
        policies: by task its `restartPolicy`, one of RESTART_POLICIES, and whether its pods restart
            together.
    """
    rules: list[Object] = []
    for policy, whole in dict.fromkeys(policies.values()):
        tasks = [task for task, each in policies.items() if each == (policy, whole)]
        rules += _rules(tasks, policy, whole=whole)
    return {"rules": [{**IGNORE_DISRUPTIONS}, *rules]}


def _rules(tasks: Sequence[str], policy: str, *, whole: bool) -> list[Object]:
    again = (FailureAction.RESTART_TASK if whole else FailureAction.RESTART).value
    fails = FailureAction.FAIL_JOB.value
    if policy == "ExitCode":
        return [
            _rule(tasks, fails, onExitCodes={"operator": "In", "values": ["1-127"]}),
            _rule(tasks, again, onExitCodes={"operator": "In", "values": ["128-255"]}),
        ]
    return [_rule(tasks, fails if policy == "Never" else again)]


def restart_policy(replicas: Fields, default: str) -> str:
    """Return the `restartPolicy` of a replica type."""
    found = replicas.choice("restartPolicy", *RESTART_POLICIES)
    if found == "Always":
        replicas.remark(
            "restartPolicy", "a program that ends with exit code 0 is not started again"
        )
    return found or default


def add_run_policy(result: Object, spec: Fields, templates: Sequence[Object], *, pods: int) -> None:
    """Add the fields of a `runPolicy` to the spec of a DIJob with so many pods, and the priority
    class to its templates.
    """
    policy = spec.inner("runPolicy")
    clean = policy.choice("cleanPodPolicy", "", "All", "Running", "None")
    if clean:
        result["cleanPodPolicy"] = clean
    elif clean is not None:
        policy.remark("cleanPodPolicy", "it is empty, and a DIJob has its default, Running")
    for name, least in (
        ("ttlSecondsAfterFinished", 0),
        ("activeDeadlineSeconds", 1),
        ("backoffLimit", 0),
    ):
        if name in policy:
            result[name] = policy.whole(name, least)
    if "suspend" in policy:
        result["suspend"] = policy.take("suspend")
    manager = policy.text("managedBy")
    if manager == _OPERATOR:
        policy.remark("managedBy", "the operator of DIJobs runs the job")
    elif manager is not None:
        result["managedBy"] = manager
    scheduling = policy.inner("schedulingPolicy")
    if scheduling:
        result["scheduling"] = _scheduling(scheduling, templates, pods)
    policy.rest()


def _rule(tasks: Sequence[str], action: str, **fits: Any) -> Object:
    return {"tasks": [*tasks], **fits, "action": action}


def _scheduling(policy: Fields, templates: Sequence[Object], pods: int) -> Object:
    found: Object = {}
    names = {mapping(each["spec"]).get("schedulerName") for each in templates}
    queue = policy.text("queue")
    named = next((_SCHEDULERS[name] for name in sorted(map(str, names)) if name in _SCHEDULERS), "")
    if queue:
        found = {"gangScheduler": "volcano", "queue": queue}
    elif named:
        found = {"gangScheduler": named}
    else:
        found = {"gang": True}
    if queue == "":
        policy.remark("queue", "it is empty")
    least = policy.whole("minAvailable")
    if least is not None and least != pods:
        policy.remark("minAvailable", f"a gang starts with all of its pods, which are {pods}")
    priority = policy.text("priorityClass")
    if priority is not None:
        lacking = [each for each in templates if "priorityClassName" not in each["spec"]]
        for template in lacking:
            template["spec"]["priorityClassName"] = priority
        if len(lacking) < len(templates):
            policy.remark("priorityClass", "priorityClassName of a template precedes it")
    policy.comment("minResources", "a gang needs what its pods request")
    policy.comment(
        "scheduleTimeoutSeconds",
        "a gang waits without limit; spec.pendingTimeoutSeconds ends a job that waits too long",
    )
    policy.rest()
    return found
