"""A master and its workers as one process group: PyTorchJob, XGBoostJob and PaddleJob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import patch_between
from di_cli.convert.replica_types import JobKind, ReplicaType, replica_types
from di_cli.convert.run_policy import add_run_policy, failure_policy

TASK: Final = "learner"
MASTER, WORKER = ROLES = ("Master", "Worker")
ONE_TEMPLATE: Final = "give all of them the same template, and let the program decide by its rank"


def group_spec(spec: Fields, kind: JobKind, *, elastic: bool = False) -> Object:
    """Return the spec of a DIJob whose only task is the group.

    `elastic` groups have one template. The fields of `spec` that all kinds have are taken.
    """
    roles = [*replica_types(spec, kind).values()]
    if len(roles) > 1:
        _remark_on_roles(spec, *roles)
    result: Object = {}
    pods = sum(role.replicas for role in roles)
    add_run_policy(result, spec, [role.template for role in roles], pods=pods)
    group = pods_of_roles(roles, framework=kind.framework, elastic=elastic)
    result["failurePolicy"] = failure_policy({TASK: (roles[0].policy, not elastic)})
    result["tasks"] = [{"type": TASK, **group}]
    return result


def pods_of_roles(roles: Sequence[ReplicaType], *, framework: str, elastic: bool = False) -> Object:
    """Return the fields of a task whose pods are those of one role, or of a leader and others."""
    task = _pods(roles, elastic=elastic)
    task["processGroup"] = {"framework": framework}
    task["template"] = roles[-1].template
    if "podsPerReplica" in task:
        task["leaderTemplatePatch"] = _leader_patch(*roles)
    return task


def _remark_on_roles(spec: Fields, master: ReplicaType, worker: ReplicaType) -> None:
    if master.policy != worker.policy:
        spec.at_path(worker.place).remark(
            "restartPolicy", f"the group has one, that of the {MASTER}"
        )
    spec.at_path(master.place).remark(
        "", "the first pod of the group; the job has succeeded when all pods of the group have"
    )


def _pods(roles: Sequence[ReplicaType], *, elastic: bool) -> Object:
    pods = sum(role.replicas for role in roles)
    if len(roles) == 1 or roles[0].template == roles[1].template:
        return {"replicas": pods}
    if elastic:
        raise RefusedManifest(
            f"{roles[0].place}.template",
            f"the members of an elastic group have one template, and that of the {WORKER} differs",
            ONE_TEMPLATE,
        )
    return {"podsPerReplica": pods}


def _leader_patch(master: ReplicaType, worker: ReplicaType) -> Object:
    patch = patch_between(worker.template, master.template)
    if patch is None:
        raise RefusedManifest(
            f"{master.place}.template",
            f"it lacks containers, volumes or variables of the {WORKER}, or has them in another "
            "order, which leaderTemplatePatch cannot express",
            ONE_TEMPLATE,
        )
    return patch
