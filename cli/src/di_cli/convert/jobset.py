"""JobSet: each replicated job is a task, and each of its Jobs a replica."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from di_api.spec.failure import FailureAction
from di_api.spec.task import TaskType
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import template_of
from di_cli.convert.run_policy import IGNORE_DISRUPTIONS

_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
_UNCOUNTED: Final = "AndIgnoreMaxRestarts"
_PODS_FAILED: Final = "BackoffLimitExceeded"
_OF_A_JOB: Final = "a task has no Job of its own"


def jobset_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a JobSet."""
    result: Object = {}
    failure = spec.inner("failurePolicy") if "failurePolicy" in spec else None
    tasks = [_task(each, restarts=failure is not None) for each in spec.inners("replicatedJobs")]
    tasks = [each for each in tasks if each]
    if not tasks:
        raise RefusedManifest(spec.at("replicatedJobs"), "has no replicas", "give a replicated job")
    _add_order(spec, tasks)
    if "suspend" in spec:
        result["suspend"] = spec.take("suspend")
    if "ttlSecondsAfterFinished" in spec:
        result["ttlSecondsAfterFinished"] = spec.whole("ttlSecondsAfterFinished")
    manager = spec.text("managedBy")
    if manager == _CONTROLLER:
        spec.remark("managedBy", "the operator of DIJobs runs the job")
    elif manager is not None:
        result["managedBy"] = manager
    _add_success(spec, result, tasks)
    _add_failures(failure, result, tasks)
    if "volumeClaimPolicies" in spec:
        raise RefusedManifest(
            spec.at("volumeClaimPolicies"),
            "a DIJob makes no claims",
            "create the PersistentVolumeClaims, and name them in the volumes of the templates",
        )
    network = spec.inner("network")
    network.rest("pods of a DIJob have DNS names below that of the job, before they are ready")
    spec.comment("coordinator", "a process group has the address of its first pod in MASTER_ADDR")
    result["tasks"] = tasks
    spec.rest()
    return result


def _task(fields: Fields, *, restarts: bool) -> Object:
    """Return the task of a replicated job; empty if it has no pods."""
    name = fields.text("name")
    given = fields.whole("replicas")
    count = 1 if given is None else given
    template = fields.inner("template")
    template.comment("metadata", _OF_A_JOB)
    job = template.inner("spec")
    pods = _pods(job)
    task: Object = {"type": TaskType.NONE.value, "name": name}
    if count == 1:
        task["replicas"] = pods
    else:
        task |= {"replicas": count, **({"podsPerReplica": pods} if pods > 1 else {})}
    limit = job.whole("backoffLimit")
    if limit is not None and restarts:
        job.remark("backoffLimit", "each failure of a pod counts for maxRestarts of the JobSet")
    elif limit is not None:
        task["backoffLimit"] = limit
    if "activeDeadlineSeconds" in job:
        task["activeDeadlineSeconds"] = job.whole("activeDeadlineSeconds", 1)
    job.comment("podFailurePolicy", "write its rules into spec.failurePolicy of the DIJob")
    job.comment(
        "completionMode",
        "the index of a pod is in DI_TASK_RANK, and in DI_REPLICA_RANK if replicas have several "
        "pods, in place of JOB_COMPLETION_INDEX",
    )
    before = [_dependency(each) for each in fields.inners("dependsOn")]
    if before:
        task["dependsOn"] = before
    task["template"] = template_of(job)
    job.rest(_OF_A_JOB)
    template.rest()
    fields.comment("groupName", "tasks have no groups")
    fields.rest()
    if count and pods:
        return task
    fields.remark("", "it has no pods")
    return {}


def _pods(job: Fields) -> int:
    """Return the pods of each Job."""
    given = job.whole("parallelism")
    at_once = 1 if given is None else given
    completions = job.whole("completions")
    if completions is None:
        return at_once
    if completions > at_once:
        raise RefusedManifest(
            job.at("completions"),
            f"all pods of a task run at once, and of these {completions} only {at_once} would",
            f"set parallelism to {completions}",
        )
    if completions < at_once:
        job.remark("parallelism", f"no more than {completions} pods run, the completions")
    return completions


def _dependency(fields: Fields) -> str | None:
    if fields.choice("status", "Ready", "Complete") == "Complete":
        raise RefusedManifest(
            fields.at("status"),
            "a task starts when the pods of another are ready, not when they are complete",
            "make them two jobs, one after the other",
        )
    name = fields.text("name")
    fields.rest()
    return name


def _add_order(spec: Fields, tasks: list[Object]) -> None:
    startup = spec.inner("startupPolicy")
    order = startup.choice("startupPolicyOrder", "AnyOrder", "InOrder")
    if order == "InOrder":
        for before, task in pairwise(tasks):
            task["dependsOn"] = [before["name"]]
    if order is not None:
        why = (
            "it is in dependsOn of the tasks" if order == "InOrder" else "tasks start in any order"
        )
        startup.remark("startupPolicyOrder", why)
    startup.rest()


def _add_success(spec: Fields, result: Object, tasks: list[Object]) -> None:
    policy = spec.inner("successPolicy")
    operator = policy.choice("operator", "All", "Any")
    targets = policy.take("targetReplicatedJobs")
    policy.rest()
    if operator is None and not targets:
        return
    if operator == "Any":
        policy.remark("operator", "a task has succeeded when all of its pods have")
    names = targets or [task["name"] for task in tasks]
    result["successPolicy"] = {"tasks": names, "operator": operator or "All"}


def _add_failures(policy: Fields | None, result: Object, tasks: list[Object]) -> None:
    if policy is None:
        names = [task["name"] for task in tasks]
        rules: list[Object] = [{"tasks": names, "action": FailureAction.RESTART.value}]
    else:
        result["backoffLimit"] = policy.whole("maxRestarts") or 0
        policy.comment("restartStrategy", "pods are created again; see the action RestartInPlace")
        rules = _rules(policy.inners("rules"), tasks)
        policy.rest()
    result["failurePolicy"] = {"rules": [{**IGNORE_DISRUPTIONS}, *rules]}


def _rules(policies: list[Fields], tasks: list[Object]) -> list[Object]:
    """Return the rules, and after them that of a JobSet for all other failures."""
    rules: list[Object] = []
    for each in policies:
        if rules and "tasks" not in rules[-1]:
            each.remark("", "the rule before it decides about all failures")
        elif (rule := _rule(each, tasks)) is not None:
            rules.append(rule)
    if not rules or "tasks" in rules[-1]:
        rules.append({"action": FailureAction.RESTART_JOB.value})
    return rules


def _rule(fields: Fields, tasks: list[Object]) -> Object | None:
    reasons = fields.take("onJobFailureReasons")
    patterns = fields.take("onJobFailureMessagePatterns")
    if patterns or (reasons and _PODS_FAILED not in reasons):
        fields.remark("", "failure rules are about failed pods, not about reasons of a Job")
        return None
    if reasons:
        fields.remark("onJobFailureReasons", "the rule is about failed pods")
    fields.comment("name", "failure rules have no names")
    action = fields.text("action") or ""
    targets = fields.take("targetReplicatedJobs")
    chosen = [task for task in tasks if not targets or task["name"] in targets]
    whole = all(task["replicas"] > 1 and "podsPerReplica" not in task for task in chosen)
    one_job = FailureAction.RESTART_TASK if whole else FailureAction.RESTART
    found = {
        "FailJobSet": FailureAction.FAIL_JOB,
        "RestartJobSet": FailureAction.RESTART_JOB,
        "RestartJob": one_job,
    }.get(action.removesuffix(_UNCOUNTED))
    if found is None:
        raise RefusedManifest(fields.at("action"), "is no action of a JobSet", "correct the field")
    if action.endswith(_UNCOUNTED):
        fields.remark("action", "the restart counts for backoffLimit")
    fields.rest()
    return {**({"tasks": targets} if targets else {}), "action": found.value}
