"""TFJob of Kubeflow's training-operator: each replica type is a task, whose name is its role."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from di_api.spec.task import TaskType
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.groups import ONE_TEMPLATE
from di_cli.convert.replica_types import JobKind, ReplicaType, replica_types
from di_cli.convert.run_policy import add_run_policy, failure_policy

_CHIEF, _WORKER, _SERVERS, _EVALUATOR = _TYPES = ("Chief", "Worker", "PS", "Evaluator")
_KIND: Final = JobKind(
    kind="TFJob",
    replicas="tfReplicaSpecs",
    types=_TYPES,
    single=(_CHIEF, _EVALUATOR),
    aliases={"master": _CHIEF},
    framework="tensorflow",
    container="tensorflow",
    port="tfjob-port",
    restart_policy="Never",
)
_ALL_WORKERS: Final = "AllWorkers"


def tensorflow_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a TFJob."""
    roles = replica_types(spec, _KIND)
    templates = [role.template for role in roles.values()]
    result: Object = {}
    pods = sum(role.replicas for role in roles.values())
    add_run_policy(result, spec, templates, pods=pods)
    _check_servers(spec, roles)
    if _SERVERS not in roles:
        roles = _without_chief(spec, roles)
    main = next(iter(roles))
    _add_success(spec, result, roles, main)
    dynamic = _dynamic(spec, roles)
    result["failurePolicy"] = failure_policy(
        {
            name.lower(): (role.policy, role.replicas > 1 and not (dynamic and name == _WORKER))
            for name, role in roles.items()
        }
    )
    result["tasks"] = [
        _task(name, role, is_main=name == main, elastic=dynamic and name == _WORKER)
        for name, role in roles.items()
    ]
    spec.rest()
    return result


def _check_servers(spec: Fields, roles: dict[str, ReplicaType]) -> None:
    if _SERVERS in roles and _CHIEF not in roles:
        raise RefusedManifest(
            roles[_SERVERS].place,
            "parameter servers need a Chief, which coordinates them",
            f"add a Chief to {spec.at(_KIND.replicas)}",
        )


def _without_chief(spec: Fields, roles: dict[str, ReplicaType]) -> dict[str, ReplicaType]:
    """Return the roles of a cluster without parameter servers, whose first worker is the chief."""
    chief, worker = roles.get(_CHIEF), roles.get(_WORKER)
    if chief is None:
        return roles
    if worker is not None and worker.template != chief.template:
        raise RefusedManifest(
            f"{chief.place}.template",
            "without parameter servers the first worker is the chief, and the template of the "
            "Worker differs",
            ONE_TEMPLATE,
        )
    if worker is not None and worker.policy != chief.policy:
        spec.at_path(worker.place).remark(
            "restartPolicy", "the workers have one, that of the Chief"
        )
    spec.at_path(chief.place).remark(
        "", "the first worker: TF_CONFIG has the type worker and the index 0 for it"
    )
    pods = chief.replicas + (0 if worker is None else worker.replicas)
    others = {name: role for name, role in roles.items() if name == _EVALUATOR}
    return {_WORKER: replace(chief, replicas=pods), **others}


def _add_success(spec: Fields, result: Object, roles: dict[str, ReplicaType], main: str) -> None:
    policy = spec.choice("successPolicy", "", _ALL_WORKERS)
    if main != _WORKER and policy == _ALL_WORKERS:
        spec.remark("successPolicy", f"the end of the {main} decides about success")
    elif policy == "":
        spec.remark("successPolicy", "it is empty")
    if main == _WORKER and policy != _ALL_WORKERS and roles[_WORKER].replicas > 1:
        spec.at_path(roles[_WORKER].place).remark(
            "", "the job has succeeded when all workers have, not when the first one has"
        )
    result["successPolicy"] = {"tasks": [main.lower()], "operator": "All"}


def _dynamic(spec: Fields, roles: dict[str, ReplicaType]) -> bool:
    """Return whether workers come and go."""
    wanted = spec.take("enableDynamicWorker")
    if wanted is None:
        return False
    is_dynamic = wanted is True and _SERVERS in roles and _WORKER in roles
    if is_dynamic:
        why = "the bounds are 1 and the number of workers: raise maxReplicas to add workers"
    elif wanted is True:
        why = "without parameter servers the workers are a group of fixed size"
    else:
        why = "the workers are a group of fixed size"
    spec.remark("enableDynamicWorker", why)
    return is_dynamic


def _task(name: str, role: ReplicaType, *, is_main: bool, elastic: bool) -> Object:
    kind = TaskType.LEARNER if is_main else TaskType.NONE
    task: Object = {
        "type": (TaskType.EVALUATOR if name == _EVALUATOR else kind).value,
        "name": name.lower(),
        "replicas": role.replicas,
    }
    if elastic:
        task |= {"minReplicas": 1, "maxReplicas": role.replicas}
    task["processGroup"] = {"framework": _KIND.framework, **({"elastic": True} if elastic else {})}
    task["template"] = role.template
    return task
