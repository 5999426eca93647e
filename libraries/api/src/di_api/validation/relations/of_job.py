"""Rules about a whole spec: tasks together, checkpoints and failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_api.base_template import BASE, NOT_MERGED, fault_of_base
from di_api.field_error import ABSENT, FieldError, mapping
from di_api.spec.bounds import MAX_PODS
from di_api.validation.artifacts import (
    wrong_artifact_places,
    wrong_claims,
    wrong_paths,
    wrong_sources,
)
from di_api.validation.checkpoint import (
    wrong_claim,
    wrong_path,
    wrong_places,
    wrong_source,
)
from di_api.validation.code import (
    FILE_DOTS_PATTERN,
    FILE_PATTERN,
    SHA256_PATTERN,
    wrong_code_claim,
    wrong_code_places,
    wrong_config_map,
    wrong_directory,
    wrong_hash,
    wrong_requirements,
)
from di_api.validation.failure import pod_groups_in_place, roles_in_place, wrong_failure_policy
from di_api.validation.mounts import DOTS_PATTERN, OBJECT_NAME_PATTERN, PATH_PATTERN
from di_api.validation.progress import missing_share, wrong_restarts, wrong_scaling, wrong_time_outs
from di_api.validation.relations.row import Relation, Rule, Whole
from di_api.validation.scheduling.gang_scheduler import contended_gangs, queue_of_nobody
from di_api.validation.scheduling.provisioning import MAX_POD_SETS, nodes_of_nobody
from di_api.validation.scheduling.topology import topology_of_nobody, wrong_topology
from di_api.validation.size import total_errors
from di_api.validation.success import wrong_success_policy
from di_api.validation.task.elastic_tier import contended_tiers
from di_api.validation.task.framework import RULES_OF_TASKS, wrong_clusters
from di_api.validation.task.node_check import contended_nodes, taken_names
from di_api.validation.task.pod_groups import shared_pod_names
from di_api.validation.task.ports import confused_variables
from di_api.validation.task.scalable import contended_replicas
from di_api.validation.task.standby import contended_standbys, names_of_standbys
from di_api.validation.task.vacant_indexes import vacant_of_allocator
from di_api.validation.tasks import reused_task_names


def _kind_of_job(whole: Whole) -> Iterator[FieldError]:
    """Yield the error unless there are either tasks or a coordinator, and errors for fields that
    only jobs with tasks can have.
    """
    spec = whole.spec
    tasks, coordinated = spec.get("tasks"), spec.get("coordinated")
    if tasks is None and coordinated is None:
        yield FieldError("spec.tasks", ABSENT, "is required, unless the job has a coordinator")
    if coordinated is None:
        return
    if tasks is not None:
        yield FieldError("spec.tasks", tasks, "a job has tasks or a coordinator, not both")
    if spec.get("preemptible") is True:
        yield FieldError("spec.preemptible", True, "the allocator shares nodes among tasks only")
    if mapping(spec.get("scheduling")).get("gang") is True:
        yield FieldError("spec.scheduling.gang", True, "the pods of a coordinator come one by one")
    if (policy := spec.get("successPolicy")) is not None:
        yield FieldError("spec.successPolicy", policy, "the end of its coordinator ends the job")


def _base_not_merged(whole: Whole) -> Iterator[FieldError]:
    if (base := whole.spec.get(BASE)) is not None:
        path, message = fault_of_base(whole.spec)
        yield FieldError(path, base, message)


_PLACES: Final = "((has(t.replicas) ? t.replicas : 1) + (has(t.vacant) ? t.vacant.size() : 0))"
_PODS: Final = (
    f"map(t, (has(t.maxReplicas) && t.maxReplicas > {_PLACES} ? t.maxReplicas : {_PLACES}) * "
    "(has(t.podsPerReplica) ? t.podsPerReplica : 1) + (has(t.standby) ? t.standby : 0)).sum()"
)
_TOO_MANY: Final = (
    f"a job may have {MAX_PODS} pods, of each task the larger of replicas and maxReplicas "
    "counted; lower some, or make it several jobs"
)

_NO_PROGRESS: Final = "!has(self.progressPolicy)"


def _placed_by_others(field: str, *, but: str) -> tuple[Rule, ...]:
    """Return the policy's rule for `validation.scheduling.placed_together`; `but` is CEL for a
    field that requests nothing.
    """
    return (
        {
            "rule": f"!has(self.scheduling) || !has(self.scheduling.{field}) || {but} || "
            "!(self.preemptible || self.scheduling.gang || has(self.coordinated))",
            "message": f"{field} goes neither with preemptible nor with scheduling.gang nor with a "
            "coordinator",
            "fieldPath": f".scheduling.{field}",
        },
    )


OF_SPEC: Final[tuple[Relation[Whole], ...]] = (
    Relation(
        errors=_kind_of_job,
        rules=(
            {
                "rule": "has(self.tasks) != has(self.coordinated)",
                "message": "exactly one of tasks and coordinated must be given",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=_base_not_merged,
        rules=({"rule": f"!has(self.{BASE})", "message": NOT_MERGED, "fieldPath": f".{BASE}"},),
    ),
    Relation(
        errors=lambda whole: contended_nodes(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!self.preemptible || !has(self.tasks) || self.tasks.all(t, "
                "!has(t.nodeCheck) || t.nodeCheck.action == 'Notify')",
                "message": "the allocator chooses the nodes of a preemptible job, so action of a "
                "nodeCheck must be Notify",
            },
        ),
    ),
    Relation(
        errors=lambda whole: vacant_of_allocator(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!self.preemptible || !has(self.tasks) || self.tasks.all(t, "
                "!has(t.vacant) || t.vacant.size() == 0)",
                "message": "the allocator chooses which replicas a preemptible job has, so none of "
                "its tasks may have vacant indexes",
            },
        ),
    ),
    Relation(
        errors=lambda whole: roles_in_place(whole.spec),
        rules=(
            {
                "rule": "!has(self.coordinated) || !has(self.failurePolicy) || "
                "!has(self.failurePolicy.rules) || self.failurePolicy.rules.all(r, "
                "!has(r.action) || r.action != 'RestartInPlace')",
                "message": "RestartInPlace goes with tasks: the templates of a coordinated job "
                "have a restartPolicy of their own",
                "fieldPath": ".failurePolicy",
            },
        ),
    ),
    Relation(
        errors=lambda whole: pod_groups_in_place(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!has(self.tasks) || !has(self.failurePolicy) || "
                "!has(self.failurePolicy.rules) || self.failurePolicy.rules.all(r, "
                "!has(r.action) || r.action != 'RestartInPlace' || self.tasks.all(t, "
                "!has(t.podsPerReplica) || t.podsPerReplica == 1 || (has(r.tasks) && "
                "r.tasks.size() > 0 && !((has(t.name) ? t.name : t.type) in r.tasks))))",
                "message": "RestartInPlace does not go with podsPerReplica above 1: such replicas "
                "are created again as a whole",
                "fieldPath": ".failurePolicy",
            },
        ),
    ),
    Relation(
        errors=lambda whole: contended_tiers(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!(self.preemptible || has(self.scheduling) && self.scheduling.gang) || "
                "!has(self.tasks) || self.tasks.all(t, !has(t.elastic))",
                "message": "elastic of a task goes neither with preemptible nor with "
                "scheduling.gang",
            },
        ),
    ),
    Relation(
        errors=lambda whole: contended_standbys(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!(self.preemptible || has(self.scheduling) && self.scheduling.gang) || "
                "!has(self.tasks) || self.tasks.all(t, !has(t.standby) || t.standby == 0)",
                "message": "standby of a task goes neither with preemptible nor with "
                "scheduling.gang",
            },
        ),
    ),
    Relation(
        errors=lambda whole: contended_replicas(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!self.preemptible || !has(self.tasks) || self.tasks.all(t, "
                "!has(t.scalable) || !t.scalable)",
                "message": "scalable of a task does not go with preemptible: the allocator chooses "
                "how many replicas there are",
            },
        ),
    ),
    Relation(
        errors=lambda whole: contended_gangs(whole.spec),
        rules=_placed_by_others("gangScheduler", but="self.scheduling.gangScheduler == 'none'"),
    ),
    Relation(
        errors=lambda whole: topology_of_nobody(whole.spec),
        rules=_placed_by_others("topology", but="self.scheduling.topology.size() == 0"),
    ),
    Relation(
        errors=lambda whole: nodes_of_nobody(whole.spec, whole.tasks),
        rules=(
            *_placed_by_others("provisioningClassName", but="false"),
            {
                "rule": "!has(self.scheduling) || "
                "!has(self.scheduling.provisioningClassName) || !has(self.tasks) || "
                f"self.tasks.size() <= {MAX_POD_SETS}",
                "message": f"a ProvisioningRequest has {MAX_POD_SETS} groups of pods at most",
                "fieldPath": ".scheduling.provisioningClassName",
            },
        ),
    ),
    Relation(
        errors=lambda whole: queue_of_nobody(whole.spec),
        rules=(
            {
                "rule": "!has(self.scheduling) || !has(self.scheduling.queue) || "
                "has(self.scheduling.gangScheduler) && "
                "self.scheduling.gangScheduler == 'volcano'",
                "message": "queue goes with gangScheduler volcano",
                "fieldPath": ".scheduling",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_time_outs(whole.spec),
        rules=(
            {
                "rule": f"{_NO_PROGRESS} || !has(self.progressPolicy.firstTimeoutSeconds) || "
                "self.progressPolicy.firstTimeoutSeconds >= self.progressPolicy.timeoutSeconds",
                "message": "firstTimeoutSeconds must be at least timeoutSeconds",
                "fieldPath": ".progressPolicy",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_restarts(whole.spec, whole.tasks),
        rules=(
            {
                "rule": f"{_NO_PROGRESS} || !has(self.coordinated) || "
                "self.progressPolicy.action != 'RestartTask'",
                "message": "a job with a coordinator has no tasks; RestartJob restarts all its "
                "pods",
                "fieldPath": ".progressPolicy.action",
            },
            {
                "rule": f"{_NO_PROGRESS} || !has(self.progressPolicy.tasks) || "
                "self.progressPolicy.action == 'RestartTask'",
                "message": "tasks goes with action RestartTask",
                "fieldPath": ".progressPolicy",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda whole: missing_share(whole.spec),
        rules=(
            {
                "rule": "!has(self.idlePolicy) || has(self.idlePolicy.waitingShare) || "
                "has(self.idlePolicy.gpuIdleShare)",
                "message": "needs waitingShare or gpuIdleShare",
                "fieldPath": ".idlePolicy",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_scaling(whole.spec, whole.tasks),
        rules=(
            {
                "rule": "!has(self.idlePolicy) || self.idlePolicy.action != 'ScaleDown' || "
                "!self.preemptible && has(self.tasks) && self.tasks.exists(t, "
                "t.type == 'learner' && has(t.minReplicas) && !(has(t.scalable) && t.scalable))",
                "message": "ScaleDown needs a task of type learner with minReplicas that is not "
                "scalable, in a job that is not preemptible",
                "fieldPath": ".idlePolicy.action",
            },
        ),
        is_all=False,
    ),
)
OF_TASKS: Final[tuple[Relation[Whole], ...]] = (
    Relation(
        errors=lambda whole: reused_task_names(whole.tasks),
        rules=(
            {
                "rule": "self.all(t, self.exists_one(u, "
                "(has(u.name) ? u.name : u.type) == (has(t.name) ? t.name : t.type)))",
                "message": "names of tasks must be unique",
            },
        ),
    ),
    Relation(errors=lambda whole: wrong_clusters(whole.tasks), rules=RULES_OF_TASKS),
    Relation(errors=lambda whole: shared_pod_names(whole.tasks), is_all=False),
    Relation(errors=lambda whole: names_of_standbys(whole.tasks), is_all=False),
    Relation(errors=lambda whole: wrong_success_policy(whole.spec, whole.tasks), is_all=False),
    Relation(errors=lambda whole: wrong_topology(whole.spec, whole.tasks), is_all=False),
    Relation(errors=lambda whole: taken_names(whole.tasks), is_all=False),
    Relation(errors=lambda whole: confused_variables(whole.tasks), is_all=False),
    Relation(errors=lambda whole: wrong_failure_policy(whole.spec, whole.tasks), is_all=False),
    Relation(
        errors=lambda whole: total_errors(whole.spec),
        rules=(
            {
                "rule": f"self.{_PODS} <= {MAX_PODS}",
                "unless": f"self.{_PODS} <= oldSelf.{_PODS}",
                "message": _TOO_MANY,
            },
        ),
    ),
)
_ONE_SOURCE: Final[Rule] = {
    "rule": "has(self.volume) != has(self.persistentVolumeClaim)",
    "message": "exactly one of volume and persistentVolumeClaim must be given",
}
_CLAIM: Final[Rule] = {
    "rule": "!has(self.persistentVolumeClaim) || "
    f"self.persistentVolumeClaim.matches(r'^{OBJECT_NAME_PATTERN}$')",
    "message": "must be the name of a claim",
    "fieldPath": ".persistentVolumeClaim",
}


def _mount_path(example: str) -> Rule:
    return {
        "rule": f"self.path.matches('^{PATH_PATTERN}$') && !self.path.matches('{DOTS_PATTERN}')",
        "message": f"must be an absolute path such as {example}, without . or .. or a colon",
        "fieldPath": ".path",
    }


OF_CHECKPOINT: Final[tuple[Relation[Whole], ...]] = (
    Relation(errors=lambda whole: wrong_source(whole.spec), rules=(_ONE_SOURCE,)),
    Relation(errors=lambda whole: wrong_claim(whole.spec), rules=(_CLAIM,)),
    Relation(errors=lambda whole: wrong_path(whole.spec), rules=(_mount_path("/checkpoint"),)),
    Relation(errors=lambda whole: wrong_places(whole.spec, whole.tasks), is_all=False),
)
OF_ARTIFACTS: Final[tuple[Relation[Whole], ...]] = (
    Relation(errors=lambda whole: wrong_sources(whole.spec), rules=(_ONE_SOURCE,)),
    Relation(errors=lambda whole: wrong_claims(whole.spec), rules=(_CLAIM,)),
    Relation(errors=lambda whole: wrong_paths(whole.spec), rules=(_mount_path("/results"),)),
    Relation(errors=lambda whole: wrong_artifact_places(whole.spec, whole.tasks), is_all=False),
)
OF_CODE: Final[tuple[Relation[Whole], ...]] = (
    Relation(
        errors=lambda whole: wrong_config_map(whole.spec),
        rules=(
            {
                "rule": f"self.configMap.matches(r'^{OBJECT_NAME_PATTERN}$')",
                "message": "must be the name of a ConfigMap",
                "fieldPath": ".configMap",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_code_claim(whole.spec),
        rules=(
            _CLAIM,
            {
                "rule": "!has(self.parts) || !has(self.persistentVolumeClaim)",
                "message": "is for a bundle in ConfigMaps, and this one is on a claim",
                "fieldPath": ".parts",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_hash(whole.spec),
        rules=(
            {
                "rule": f"self.sha256.matches('^{SHA256_PATTERN}$')",
                "message": "must be 64 hexadecimal digits in lower case",
                "fieldPath": ".sha256",
            },
        ),
    ),
    Relation(errors=lambda whole: wrong_directory(whole.spec), rules=(_mount_path("/code"),)),
    Relation(
        errors=lambda whole: wrong_requirements(whole.spec),
        rules=(
            {
                "rule": "!has(self.requirements) || "
                f"self.requirements.matches('^{FILE_PATTERN}$') && "
                f"!self.requirements.matches('{FILE_DOTS_PATTERN}')",
                "message": "must be the path of a file in the bundle such as requirements.txt, "
                "without . or .. or a colon",
                "fieldPath": ".requirements",
            },
        ),
    ),
    Relation(errors=lambda whole: wrong_code_places(whole.spec, whole.tasks), is_all=False),
)
OF_EXIT_CODES: Final[tuple[Rule, ...]] = (
    {
        "rule": "self.operator != 'In' || "
        "!self.values.exists(v, v == 0 || string(v).startsWith('0-'))",
        "message": "a container that failed has another exit code than 0",
    },
)
OF_FAILURE_RULE: Final[tuple[Rule, ...]] = (
    {
        "rule": "!has(self.action) || !(self.action in ['Ignore', 'FailJob', 'RestartInPlace']) || "
        "!has(self.growMemory) && !(has(self.avoidNode) && self.avoidNode)",
        "message": "growMemory and avoidNode go with actions that count a restart and make another "
        "pod",
    },
)
