"""Job of Volcano."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.spec.failure import FailureAction
from di_api.spec.task import TaskType
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import template_of
from di_cli.convert.volcano_policies import Policies, failure_rules, policies_of

_VOLCANO: Final = "volcano"
_TENSORFLOW: Final = "tensorflow"
_ROLES: Final = ("chief", "worker", "ps", "evaluator")
_PLUGINS: Final = {
    "svc": "pods have DNS names without it, which are in DI_NODES in place of VC_<TASK>_HOSTS",
    "env": "the index of a pod is in DI_TASK_RANK in place of VC_TASK_INDEX",
    "ssh": "pods of a DIJob get no keys",
}
_ONE_GROUP: Final = {
    "pytorch": "its tasks are one process group, which is one task of a DIJob",
    "mpi": "a DIJob has no host file and no keys for MPI",
}
"""Plug-ins without which a program does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    task: Object
    policies: Policies
    default: FailureAction | None
    """Action for failures that no policy decides about; None: a policy decides."""


def volcano_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a Job of Volcano."""
    result: Object = {}
    whole = policies_of(spec, None)
    tasks = [
        each
        for index, fields in enumerate(spec.inners("tasks"))
        if (each := _task(fields, index, whole)) is not None
    ]
    if not tasks:
        raise RefusedManifest(spec.at("tasks"), "has no replicas", "give a task")
    for name, field, least in (
        ("maxRetry", "backoffLimit", 0),
        ("ttlSecondsAfterFinished", "ttlSecondsAfterFinished", 0),
    ):
        if name in spec:
            result[field] = spec.whole(name, least)
    templates = [each.task["template"] for each in tasks]
    _add_volumes(spec, result, templates)
    _add_scheduling(spec, result, [each.task for each in tasks])
    _add_plugins(spec.inner("plugins"), [each.task for each in tasks])
    spec.comment("minSuccess", "a DIJob has succeeded when all pods have")
    spec.comment("runningEstimate", "the expected end of a DIJob comes from its progress")
    spec.comment(
        "networkTopology", "spec.scheduling.topology has a node label in place of mode and tier"
    )
    defaults = [
        {"tasks": [each.task["name"]], "action": each.default.value}
        for each in tasks
        if each.default is not None
    ]
    by_task = {each.task["name"]: each.policies for each in tasks}
    result["failurePolicy"] = failure_rules(whole, by_task, defaults)
    result["tasks"] = [each.task for each in tasks]
    spec.rest()
    return result


def _task(fields: Fields, index: int, job: Policies) -> _Task | None:
    name = fields.text("name") or f"default{index}"
    count = fields.whole("replicas")
    task: Object = {
        "type": TaskType.NONE.value,
        "name": name,
        "replicas": 1 if count is None else count,
    }
    if count == 0:
        fields.remark("", "it has no replicas")
        return None
    least = fields.whole("minAvailable")
    if least:
        task["minReplicas"] = least
    elif least is not None:
        fields.remark("minAvailable", "a task has one replica or more")
    if "maxRetry" in fields:
        task["backoffLimit"] = fields.whole("maxRetry")
    before = fields.inner("dependsOn")
    if before:
        task["dependsOn"] = before.take("name")
        before.comment("iteration", "a task waits for all tasks that it depends on")
        before.rest()
    policies = policies_of(fields, name)
    completion = policies.on_completion or job.on_completion
    if completion is not None:
        task["onCompletion"] = completion
    fields.comment("topologyPolicy", "the kubelet of a node decides about NUMA nodes")
    task["template"], default = _template(fields, is_decided=policies.decides or job.decides)
    fields.rest()
    return _Task(task=task, policies=policies, default=default)


def _template(fields: Fields, *, is_decided: bool) -> tuple[Object, FailureAction | None]:
    """Return the pod template, and what its restartPolicy does after a failure."""
    template = mapping(fields.take("template"))
    spec = mapping(template.get("spec"))
    policy = spec.get("restartPolicy")
    place = fields.at_path(f"{fields.at('template')}.spec")
    if policy is not None and is_decided:
        place.remark("restartPolicy", "the policy on PodFailed decides")
    elif policy == "Never":
        place.remark("restartPolicy", "a pod that fails ends the job at once")
    elif policy == "Always":
        place.remark("restartPolicy", "a program that ends with exit code 0 is not started again")
    others = {name: value for name, value in spec.items() if name != "restartPolicy"}
    holder = Fields({"template": {**template, "spec": others}}, fields.path, fields.comments)
    default = FailureAction.FAIL_JOB if policy == "Never" else FailureAction.RESTART
    return template_of(holder), None if is_decided else default


def _add_volumes(spec: Fields, result: Object, templates: list[Object]) -> None:
    volumes: list[Object] = []
    for index, volume in enumerate(spec.inners("volumes")):
        if "volumeClaim" in volume:
            raise RefusedManifest(
                volume.at("volumeClaim"),
                "a DIJob makes no claims",
                "create the PersistentVolumeClaim, and name it in volumeClaimName",
            )
        name, path = f"volcano-{index}", volume.text("mountPath")
        claim = volume.text("volumeClaimName")
        source: Object = (
            {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        )
        volumes.append({"name": name, **source})
        for template in templates:
            for container in template["spec"]["containers"]:
                mounts: list[Any] = items(container.get("volumeMounts"))
                container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]
        volume.rest()
    if volumes:
        result["volumes"] = volumes


def _add_scheduling(spec: Fields, result: Object, tasks: list[Object]) -> None:
    scheduler, queue = spec.text("schedulerName"), spec.text("queue")
    if scheduler in (None, _VOLCANO):
        result["scheduling"] = {"gangScheduler": _VOLCANO, **({"queue": queue} if queue else {})}
    else:
        result["scheduling"] = {"gang": True}
        if queue is not None:
            spec.remark("queue", f"{scheduler} has no queues of Volcano")
    priority = spec.text("priorityClassName")
    for task in tasks:
        pod = task["template"]["spec"]
        if scheduler not in (None, _VOLCANO):
            pod.setdefault("schedulerName", scheduler)
        if priority is not None:
            pod.setdefault("priorityClassName", priority)
    if priority is not None and any(
        task["template"]["spec"]["priorityClassName"] != priority for task in tasks
    ):
        spec.remark("priorityClassName", "priorityClassName of a template precedes it")
    if scheduler not in (None, _VOLCANO) and any(
        task["template"]["spec"]["schedulerName"] != scheduler for task in tasks
    ):
        spec.remark("schedulerName", "schedulerName of a template precedes it")
    least = spec.whole("minAvailable")
    pods = sum(task["replicas"] for task in tasks)
    if least is not None and least != pods:
        spec.remark("minAvailable", f"a gang starts with all of its pods, which are {pods}")


def _add_plugins(plugins: Fields, tasks: list[Object]) -> None:
    for name in plugins:
        if name in _ONE_GROUP:
            raise RefusedManifest(
                plugins.at(name), _ONE_GROUP[name], "write the job as one task by hand"
            )
        if name == _TENSORFLOW:
            _add_cluster(plugins, tasks)
        else:
            plugins.comment(name, _PLUGINS.get(name, "a DIJob has no such plug-in"))


def _add_cluster(plugins: Fields, tasks: list[Object]) -> None:
    """Make the tasks with the names of its roles a cluster of TensorFlow."""
    arguments = plugins.take(_TENSORFLOW)
    renamed = [
        each
        for each in items(arguments)
        if not str(each).startswith("--port=") and str(each).partition("=")[2] not in _ROLES
    ]
    if renamed:
        raise RefusedManifest(
            plugins.at(_TENSORFLOW),
            "the name of a task is its role in a cluster of tensorflow",
            f"name the tasks {', '.join(_ROLES)}",
        )
    if items(arguments):
        plugins.remark(_TENSORFLOW, "the names of tasks are their roles, and ports are chosen")
    for task in tasks:
        if task["name"] in _ROLES:
            task["processGroup"] = {"framework": _TENSORFLOW}
