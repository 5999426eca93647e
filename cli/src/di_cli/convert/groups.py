"""A master and its workers as one process group: PyTorchJob, XGBoostJob and PaddleJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import patch_between, template_of
from di_cli.convert.run_policy import (
    IGNORE_DISRUPTIONS,
    add_run_policy,
    failure_rules,
    restart_policy,
)

TASK: Final = "learner"
MASTER, WORKER = ROLES = ("Master", "Worker")
_ONE_TEMPLATE: Final = (
    "give Master and Worker the same template, and let the program decide by its RANK"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """A kind of the training-operator whose replicas are one process group.

    Attributes:
        kind: as in manifests.
        replicas: field of the spec with the replica types.
        framework: that of the process group.
        container: name of the container with the program.
        port: name of the port at which the group meets.
        restart_policy: default of a replica type.
    """

    kind: str
    replicas: str
    framework: str
    container: str
    port: str
    restart_policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    place: str
    replicas: int
    policy: str
    template: Object


def group_spec(spec: Fields, kind: GroupKind, *, elastic: bool = False) -> Object:
    """Return the spec of a DIJob whose only task is the group.

    `elastic` groups have one template. The fields of `spec` that all kinds have are taken.
    """
    roles = _roles(spec.inner(kind.replicas), kind)
    if not roles:
        raise RefusedManifest(
            spec.at(kind.replicas), "has no replicas", f"give a {MASTER} or a {WORKER}"
        )
    task: Object = {"type": TASK, **_pods(roles, elastic=elastic)}
    task["processGroup"] = {"framework": kind.framework}
    task["template"] = roles[-1].template
    rules = failure_rules(TASK, roles[0].policy, whole=not elastic)
    result: Object = {}
    pods = sum(role.replicas for role in roles)
    templates = [role.template for role in roles]
    add_run_policy(result, spec.inner("runPolicy"), templates, pods=pods)
    if "podsPerReplica" in task:
        task["leaderTemplatePatch"] = _leader_patch(roles[0], roles[1])
    result["failurePolicy"] = {"rules": [{**IGNORE_DISRUPTIONS}, *rules]}
    result["tasks"] = [task]
    return result


def _roles(specs: Fields, kind: GroupKind) -> list[_Role]:
    """Return the master, if there is one, and the workers."""
    found: dict[str, _Role] = {}
    for name in specs:
        role = next((each for each in ROLES if each.lower() == name.lower()), None)
        if role is None or role in found:
            raise RefusedManifest(
                specs.at(name),
                f"the replica types of a {kind.kind} are {MASTER} and {WORKER}, each once",
                "correct the name",
            )
        replicas = specs.inner(name)
        given = replicas.whole("replicas")
        count = 1 if given is None else given
        policy = restart_policy(replicas, kind.restart_policy)
        template = template_of(replicas, main=kind.container, port=kind.port)
        replicas.rest()
        if role == MASTER and count > 1:
            raise RefusedManifest(
                replicas.at("replicas"), "a group has one master", "make the others workers"
            )
        if count:
            found[role] = _Role(
                place=replicas.path, replicas=count, policy=policy, template=template
            )
        else:
            specs.remark(name, "it has no replicas")
    master, worker = found.get(MASTER), found.get(WORKER)
    if master and worker:
        if master.policy != worker.policy:
            at = Fields({}, worker.place, specs.comments)
            at.remark("restartPolicy", f"the group has one, that of the {MASTER}")
        at = Fields({}, specs.path, specs.comments)
        at.remark(
            MASTER,
            "the first pod of the group; the job has succeeded when all pods of the group have",
        )
    return [found[role] for role in ROLES if role in found]


def _pods(roles: list[_Role], *, elastic: bool) -> Object:
    pods = sum(role.replicas for role in roles)
    if len(roles) == 1 or roles[0].template == roles[1].template:
        return {"replicas": pods}
    if elastic:
        raise RefusedManifest(
            f"{roles[0].place}.template",
            "the members of an elastic group have one template, and that of the Worker differs",
            _ONE_TEMPLATE,
        )
    return {"podsPerReplica": pods}


def _leader_patch(master: _Role, worker: _Role) -> Object:
    patch = patch_between(worker.template, master.template)
    if patch is None:
        raise RefusedManifest(
            f"{master.place}.template",
            "it lacks containers, volumes or variables of the Worker, or has them in another "
            "order, which leaderTemplatePatch cannot express",
            _ONE_TEMPLATE,
        )
    return patch
