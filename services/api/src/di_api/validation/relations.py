"""Rules of a DIJob spec that relate fields to each other, for the library and for the CRD.

Each is a row: what the library finds, in its own words, beside what a rule of the CRD can say of it
within the cost that the API server allows. What the CRD refuses the library refuses too.

The library's half and those of `tasks`, `replicas` and `templates` read the raw spec (defaults
applied), not a loaded one, so that a mistyped field elsewhere does not hide them: all errors come
at once. Wherever a shape is wrong a rule looks away; `shape` reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.bounds import MAX_PODS
from di_api.validation.checkpoint import (
    CLAIM_PATTERN,
    DOTS_PATTERN,
    PATH_PATTERN,
    wrong_claim,
    wrong_path,
    wrong_places,
    wrong_source,
)
from di_api.validation.drain import hook_in_the_way, wrong_drain
from di_api.validation.elastic_tier import contended_tiers, wrong_tier
from di_api.validation.failure import pod_groups_in_place, roles_in_place, wrong_failure_policy
from di_api.validation.node_check import contended_nodes, taken_names
from di_api.validation.pod_groups import lonely_leader, shared_pod_names
from di_api.validation.ports import (
    OURS,
    confused_variables,
    ports_of_containers,
    repeated_ports,
)
from di_api.validation.process_group import wrong_process_group
from di_api.validation.progress import wrong_restarts, wrong_time_outs
from di_api.validation.repeated import names_of, repeated_names
from di_api.validation.replicas import replica_errors
from di_api.validation.service import wrong_service
from di_api.validation.size import total_errors
from di_api.validation.standby import contended_standbys, names_of_standbys, wrong_standby
from di_api.validation.success import wrong_success_policy
from di_api.validation.tasks import (
    Tasks,
    circular_tasks,
    replicas_out_of_bounds,
    reused_task_names,
    task_names,
    wrong_dependencies,
)
from di_api.validation.templates import coordinated_templates, unfit_pods
from di_api.validation.vacancies import vacant_core, vacant_members, vacant_of_allocator

Rule: TypeAlias = dict[str, Any]
"""One of `x-kubernetes-validations`."""
Scope = TypeVar("Scope")


class Whole(NamedTuple):
    """What rows about a whole spec read."""

    spec: Mapping[str, Any]
    tasks: Tasks


class One(NamedTuple):
    """What rows about one task read: where it stands, and the names of all tasks."""

    path: str
    task: Mapping[str, Any]
    known: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Generic[Scope]):
    """A row: the errors that the library finds, and the CRD's rules about the same."""

    errors: Callable[[Scope], Iterator[FieldError]]
    rules: tuple[Rule, ...] = ()
    is_all: bool = True
    """Whether the CRD's rules refuse all that the library refuses by the row."""


def _kind_of_job(whole: Whole) -> Iterator[FieldError]:
    """A job has tasks or a coordinator; what only tasks can have is refused beside the latter."""
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


_PLACES: Final = "(t.replicas + (has(t.vacant) ? t.vacant.size() : 0))"
_PODS: Final = (
    f"map(t, (has(t.maxReplicas) && t.maxReplicas > {_PLACES} ? t.maxReplicas : {_PLACES}) * "
    "(has(t.podsPerReplica) ? t.podsPerReplica : 1) + (has(t.standby) ? t.standby : 0)).sum()"
)
_HAS_VACANT: Final = "has(self.vacant) && self.vacant.size() > 0"
_HAS_GROUPS: Final = "has(self.podsPerReplica) && self.podsPerReplica > 1"
_NO_STANDBY: Final = "!has(self.standby) || self.standby == 0"
_TOO_MANY: Final = (
    f"a job may have {MAX_PODS} pods, of each task the larger of replicas and maxReplicas "
    "counted; lower some, or make it several jobs"
)

_NO_PROGRESS: Final = "!has(self.progressPolicy)"

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
                "are made anew as a whole",
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
)
# Of all tasks a rule takes one value, so it does not ratchet within them: a bound that older jobs
# may pass is asked of new jobs (`optionalOldSelf`) and of those that grow.
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
    Relation(errors=lambda whole: shared_pod_names(whole.tasks), is_all=False),
    Relation(errors=lambda whole: names_of_standbys(whole.tasks), is_all=False),
    Relation(errors=lambda whole: wrong_success_policy(whole.spec, whole.tasks), is_all=False),
    Relation(errors=lambda whole: taken_names(whole.tasks), is_all=False),
    Relation(errors=lambda whole: confused_variables(whole.tasks), is_all=False),
    Relation(errors=lambda whole: wrong_failure_policy(whole.spec, whole.tasks), is_all=False),
    Relation(
        errors=lambda whole: total_errors(whole.spec),
        rules=(
            {
                "rule": f"oldSelf.hasValue() || self.{_PODS} <= {MAX_PODS}",
                "optionalOldSelf": True,
                "message": _TOO_MANY,
            },
            {
                "rule": f"self.{_PODS} <= {MAX_PODS} || self.{_PODS} <= oldSelf.{_PODS}",
                "message": _TOO_MANY,
            },
        ),
    ),
)
OF_CHECKPOINT: Final[tuple[Relation[Whole], ...]] = (
    Relation(
        errors=lambda whole: wrong_source(whole.spec),
        rules=(
            {
                "rule": "has(self.volume) != has(self.persistentVolumeClaim)",
                "message": "exactly one of volume and persistentVolumeClaim must be given",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_claim(whole.spec),
        rules=(
            {
                "rule": "!has(self.persistentVolumeClaim) || "
                f"self.persistentVolumeClaim.matches(r'^{CLAIM_PATTERN}$')",
                "message": "must be the name of a claim",
                "fieldPath": ".persistentVolumeClaim",
            },
        ),
    ),
    Relation(
        errors=lambda whole: wrong_path(whole.spec),
        rules=(
            {
                "rule": f"self.path.matches('^{PATH_PATTERN}$') && "
                f"!self.path.matches('{DOTS_PATTERN}')",
                "message": "must be an absolute path such as /checkpoint, without . or .. or a "
                "colon",
                "fieldPath": ".path",
            },
        ),
    ),
    Relation(errors=lambda whole: wrong_places(whole.spec, whole.tasks), is_all=False),
)
OF_EXIT_CODES: Final[tuple[Rule, ...]] = (
    {
        "rule": "self.operator != 'In' || !(0 in self.values)",
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
"""What `wrong_failure_policy` finds in one rule, as far as a rule of the CRD can say it."""
OF_TASK: Final[tuple[Relation[One], ...]] = (
    Relation(
        errors=lambda _: iter(()),  # `shape` finds it: no default for the name
        rules=(
            {
                "rule": "self.type != 'none' || has(self.name)",
                "message": "a task of type none needs a name",
                "fieldPath": ".name",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: replicas_out_of_bounds(one.path, one.task),
        rules=(
            {
                "rule": "(!has(self.minReplicas) || self.minReplicas <= self.replicas) && "
                "(!has(self.maxReplicas) || self.replicas <= self.maxReplicas)",
                "message": "must be between minReplicas and maxReplicas",
                "fieldPath": ".replicas",
            },
        ),
    ),
    Relation(
        errors=lambda one: lonely_leader(one.path, one.task),
        rules=(
            {
                "rule": f"!has(self.leaderTemplatePatch) || {_HAS_GROUPS}",
                "message": "needs podsPerReplica above 1; change the template of the task",
                "fieldPath": ".leaderTemplatePatch",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_tier(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.elastic) || has(self.minReplicas) && "
                "(!has(self.maxReplicas) || self.minReplicas < self.maxReplicas)",
                "message": "elastic needs minReplicas, below maxReplicas",
                "fieldPath": ".elastic",
            },
            {
                "rule": "!has(self.elastic) || !has(self.processGroup) || "
                f"self.processGroup.elastic || {_HAS_GROUPS}",
                "message": "does not go with a process group of fixed size",
                "fieldPath": ".elastic",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: wrong_standby(one.path, one.task),
        rules=(
            {
                "rule": f"{_NO_STANDBY} || !({_HAS_GROUPS}) && !has(self.elastic) && "
                "!has(self.nodeCheck)",
                "message": "goes neither with podsPerReplica above 1 nor with elastic nor with "
                "nodeCheck",
                "fieldPath": ".standby",
            },
            {
                "rule": f"{_NO_STANDBY} || !has(self.processGroup) || "
                "self.processGroup.elastic && self.processGroup.framework == 'none'",
                "message": "needs a processGroup that is elastic and of framework none, or none "
                "at all",
                "fieldPath": ".standby",
            },
            {
                "rule": f"{_NO_STANDBY} || !has(self.ports) || self.ports.all(p, p.scope == 'Job')",
                "message": "the ports of a task with standby must be of scope Job",
                "fieldPath": ".standby",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_dependencies(one.path, one.task, one.known),
        rules=(
            {
                "rule": "!has(self.dependsOn) || "
                "!((has(self.name) ? self.name : self.type) in self.dependsOn)",
                "message": "a task cannot wait for itself",
                "fieldPath": ".dependsOn",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: wrong_service(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.service) || self.service.ports.all(p, "
                "self.service.ports.exists_one(q, q.name == p.name) && "
                "self.service.ports.exists_one(q, q.port == p.port && q.protocol == p.protocol))",
                "message": "names of ports must be unique, and numbers with their protocol",
                "fieldPath": ".service.ports",
            },
        ),
    ),
    Relation(
        errors=lambda one: vacant_members(one.path, one.task),
        rules=(
            {
                "rule": f"!({_HAS_VACANT}) || !has(self.processGroup) || "
                f"self.processGroup.elastic || {_HAS_GROUPS}",
                "message": "the ranks of a process group that is not elastic are its indexes, with "
                "no gap",
                "fieldPath": ".vacant",
            },
        ),
    ),
    Relation(
        errors=lambda one: vacant_core(one.path, one.task),
        rules=(
            {
                "rule": f"!({_HAS_VACANT}) || !has(self.elastic) || !has(self.minReplicas) || "
                "self.vacant.all(i, i >= self.minReplicas)",
                "message": "the core of a task with an elastic tier has the indexes below "
                "minReplicas, with no gap",
                "fieldPath": ".vacant",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_drain(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.drain) || has(self.drain.path) != "
                "(has(self.drain.command) && self.drain.command.size() > 0)",
                "message": "exactly one of path and command must be given",
                "fieldPath": ".drain",
            },
            {
                "rule": "!has(self.drain) || has(self.drain.path) == has(self.drain.port)",
                "message": "port goes with path",
                "fieldPath": ".drain",
            },
            {
                "rule": "!has(self.drain) || !has(self.drain.path) || "
                "self.drain.path.startsWith('/')",
                "message": "must begin with a slash",
                "fieldPath": ".drain.path",
            },
        ),
    ),
    Relation(errors=lambda one: hook_in_the_way(one.path, one.task), is_all=False),
    Relation(
        errors=lambda one: repeated_ports(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.ports) || self.ports.all(p, "
                "self.ports.exists_one(q, q.name == p.name) && "
                f"!(p.name in [{', '.join(map(repr, OURS))}]))",
                "message": f"names of ports must be unique, and not {' or '.join(OURS)}",
                "fieldPath": ".ports",
            },
        ),
    ),
    Relation(errors=lambda one: ports_of_containers(one.path, one.task), is_all=False),
    Relation(
        errors=lambda one: wrong_process_group(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.processGroup) || self.processGroup.framework != 'jax' || "
                "self.processGroup.processesPerReplica == 1",
                "message": "must be 1, jax has one process in each pod",
                "fieldPath": ".processGroup.processesPerReplica",
            },
            {
                "rule": "!has(self.processGroup) || self.processGroup.framework != 'jax' || "
                "!self.processGroup.elastic",
                "message": "must be false, jax takes no member in",
                "fieldPath": ".processGroup.elastic",
            },
            {
                "rule": "!has(self.processGroup) || !self.processGroup.elastic || "
                "has(self.minReplicas) && has(self.maxReplicas)",
                "message": "an elastic group needs minReplicas and maxReplicas",
                "fieldPath": ".processGroup.elastic",
            },
            {
                "rule": "!has(self.processGroup) || !self.processGroup.elastic || "
                f"!({_HAS_GROUPS})",
                "message": "must be false with podsPerReplica above 1, each replica is a group of "
                "its own",
                "fieldPath": ".processGroup.elastic",
            },
            {
                "rule": "!has(self.processGroup) || "
                "self.processGroup.lastCallSeconds <= self.processGroup.deadlineSeconds",
                "message": "must be at most deadlineSeconds",
                "fieldPath": ".processGroup.lastCallSeconds",
            },
        ),
    ),
)


def broken_rules(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors of a raw spec, defaults applied, in the order of its fields; linear in its size."""
    volumes = names_of(spec.get("volumes"))
    volume_names = {*volumes.values()}
    yield from repeated_names(volumes, "spec.volumes", "another volume of the job")
    whole = whole_of(spec)
    for row in (*OF_SPEC, *OF_TASKS, *OF_CHECKPOINT):
        yield from row.errors(whole)
    for one in ones_of(whole):
        for each in OF_TASK:
            yield from each.errors(one)
        yield from unfit_pods(f"{one.path}.template", one.task.get("template"), volume_names)
    yield from circular_tasks(whole.tasks)
    yield from replica_errors(mapping(spec.get("coordinated")).get("replicas"))
    for path, template in coordinated_templates(spec):
        yield from unfit_pods(path, template, volume_names)


def whole_of(spec: Mapping[str, Any]) -> Whole:
    """A raw spec with its tasks and where they stand."""
    raw_tasks = enumerate(items(spec.get("tasks")))
    return Whole(spec, [(f"spec.tasks[{index}]", mapping(task)) for index, task in raw_tasks])


def ones_of(whole: Whole) -> Iterator[One]:
    """Its tasks, one by one."""
    known = task_names(whole.tasks)
    for path, task in whole.tasks:
        yield One(path, task, known)
