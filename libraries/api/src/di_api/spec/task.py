"""`spec.tasks[]`: a group of equal pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from di_api.names import task_of_pod
from di_api.spec.bounds import (
    MAX_INT64,
    MAX_PODS,
    MAX_PODS_PER_REPLICA,
    MAX_RESTARTED_AT,
    MAX_STANDBY,
    MAX_TASKS,
    MAX_VACANT,
)
from di_api.spec.declared import Declared
from di_api.spec.drain import Drain
from di_api.spec.elastic_tier import ElasticTier
from di_api.spec.kinds import (
    Flag,
    Label,
    Labels,
    Limit,
    OneOf,
    PodTemplate,
    Struct,
    Structs,
    TemplatePatch,
    Text,
    Values,
    Whole,
)
from di_api.spec.node_check import NodeCheck
from di_api.spec.process_group import ProcessGroup
from di_api.spec.task_service import MAX_TASK_PORTS, Selected, TaskPort, TaskService
from di_api.spec.template import Template
from di_api.template_patch import patched


class TaskType(StrEnum):
    """Role of a task. A job can have several of each."""

    LEARNER = "learner"
    COLLECTOR = "collector"
    EVALUATOR = "evaluator"
    NONE = "none"


class CompletionAction(StrEnum):
    """Action for the whole job when every pod of a task has succeeded."""

    COMPLETE_JOB = "CompleteJob"
    FAIL_JOB = "FailJob"
    RESTART_TASK = "RestartTask"
    RESTART_JOB = "RestartJob"


# Without slots: the template of leaders is computed once, and only if there is one.
@dataclass(frozen=True, kw_only=True)
class Task:
    """One group of equal pods, or of equal replicas of several pods each."""

    name: Annotated[
        str,
        Declared(
            kind=Label(),
            about="Name of the task, part of the names of its pods; unique in the job. Defaults to "
            "the type; required when the type is `none`.",
            default_from="type",
            missing="is required unless the type is learner, collector or evaluator",
            absent="the type",
        ),
    ]
    type: Annotated[
        TaskType,
        Declared(
            kind=OneOf(TaskType),
            about="Role of the task. A job can have several tasks of a type.",
            more="[Effects](../how-to/roles.md#several-tasks-of-a-type).",
        ),
    ]
    replicas: Annotated[
        int,
        Declared(
            kind=Whole(1, readable_from=0),
            about="Number of replicas. Can change while the job runs; applying a file without it "
            "keeps the present number.",
            more="Each is one pod, or `podsPerReplica`; "
            "[at most 4,096 pods](#how-large-a-job-may-be) in all tasks together.",
            may_change=True,
            is_in_schema=False,
        ),
    ] = 1
    min_replicas: Annotated[
        int | None,
        Declared(
            kind=Whole(1, readable_from=0),
            about="Lower bound of scaling. Absent means `replicas` for the allocator and 1 for "
            "scaling by REST.",
            may_change=True,
        ),
    ] = None
    max_replicas: Annotated[
        int | None,
        Declared(
            kind=Whole(1, readable_from=0),
            about="Upper bound of scaling. Absent means `replicas` for the allocator and "
            "di-server's own default for scaling by REST.",
            more="di-server's default is 32, a [setting of di-server](rest.md#scaling-tasks); "
            "`kubectl` is not bound by it. `minReplicas <= replicas <= maxReplicas`.",
            may_change=True,
        ),
    ] = None
    scalable: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="Creates an object for the task, DIJobTask <job>-<task>, that kubectl scale and "
            "autoscalers can scale.",
            more="Needs `maxReplicas`. [How](../how-to/teams-autoscalers.md).",
            may_change=True,
            is_filled_in=False,
            absent="`false`",
        ),
    ] = False
    max_unavailable: Annotated[
        int | None,
        Declared(
            kind=Whole(0, MAX_PODS),
            about="Maximum number of pods of the task that evictions, such as the drain of a node, "
            "can remove at a time. Absent: no limit.",
            more="A PodDisruptionBudget, `<job>-<task>`. [What it "
            "delays](../how-to/operations.md#drains-of-nodes).",
        ),
    ] = None
    vacant: Annotated[
        tuple[int, ...],
        Declared(
            kind=Values(Whole(0, MAX_PODS - 1), "index", MAX_VACANT),
            about="Indexes without a replica: the replicas have the lowest other indexes.",
            more="Removing replicas [by name](rest.md#scaling-tasks) writes it. "
            "[Effects](../how-to/roles.md#who-goes).",
            may_change=True,
        ),
    ] = ()
    pods_per_replica: Annotated[
        int,
        Declared(
            kind=Whole(1, MAX_PODS_PER_REPLICA),
            about="Pods of each replica, which are scaled and replaced together.",
            more="[Effects](../how-to/roles.md#a-replica-of-several-pods).",
            is_filled_in=False,
            absent="`1`",
        ),
    ] = 1
    leader_template_patch: Annotated[
        Mapping[str, Any] | None,
        Declared(
            kind=TemplatePatch(),
            may_change_before_start=True,
            about="Changes of the template for the first pod of each replica, a JSON merge patch; "
            "containers, volumes and variables are merged by name.",
            more="Needs `podsPerReplica` above 1. "
            "[How](../how-to/roles.md#a-leader-that-is-different).",
        ),
    ] = None
    elastic: Annotated[
        ElasticTier | None,
        Declared(
            kind=Struct(ElasticTier),
            about="Makes the replicas from index `minReplicas` an elastic tier: losing one is "
            "neither a failure nor a reschedule, and the job runs without them.",
        ),
    ] = None
    standby: Annotated[
        int,
        Declared(
            kind=Whole(0, MAX_STANDBY),
            about="Number of standby pods that are kept ready beside the replicas, without a rank. "
            "One is promoted when a replica fails or is lost, and replaced by a new one.",
            more="[Which tasks can have them](../how-to/roles.md#warm-stand-by).",
            is_filled_in=False,
            absent="`0`",
        ),
    ] = 0
    backoff_limit: Annotated[
        float | None,
        Declared(
            kind=Limit(),
            about="Restarts of this task's pods allowed before the job is Failed. They no longer "
            "count for the job.",
            more="New collectors and evaluators get `Unlimited`. A replica that failed again has a "
            "[backoff](lifecycle.md#failure).",
            absent="they count for the job",
            may_change=True,
        ),
    ] = None
    """Restart limit of the task, infinite if unlimited."""
    depends_on: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of tasks to wait for. The pods of this task are created once every pod of "
            "those tasks is ready or has succeeded.",
            more="Circles are refused.",
        ),
    ] = ()
    on_completion: Annotated[
        CompletionAction | None,
        Declared(
            kind=OneOf(CompletionAction),
            about="Action when every pod of the task has succeeded. CompleteJob and FailJob end "
            "the job as Succeeded and Failed. RestartTask and RestartJob run all pods of the task "
            "or the job again, and count as a restart of the job.",
            more="[Details](lifecycle.md#completed-tasks).",
            absent="the other tasks run on",
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1, MAX_INT64),
            about="Seconds from the job's start after which the job is Failed, unless every pod of "
            "this task has succeeded.",
            may_change=True,
        ),
    ] = None
    restarted_at: Annotated[
        str | None,
        Declared(
            kind=Text(longest=MAX_RESTARTED_AT),
            about="A changed text replaces all pods of the task, without counting a restart.",
            may_change=True,
        ),
    ] = None
    process_group: Annotated[
        ProcessGroup | None,
        Declared(
            kind=Struct(ProcessGroup),
            about="How the programs of the pods find each other, if they form one process group.",
        ),
    ] = None
    node_check: Annotated[
        NodeCheck | None,
        Declared(
            kind=Struct(NodeCheck),
            about="A check of the nodes of the task, which each pod runs before its program.",
        ),
    ] = None
    service: Annotated[
        TaskService | None,
        Declared(
            kind=Struct(TaskService),
            about="A Service <job>-<task> for the ready pods of the task.",
        ),
    ] = None
    drain: Annotated[
        Drain | None,
        Declared(
            kind=Struct(Drain),
            about="How each pod is asked to finish its work before it is terminated.",
            more="[How replicas leave](../how-to/roles.md#leaving-well).",
        ),
    ] = None
    ports: Annotated[
        tuple[TaskPort, ...],
        Declared(
            kind=Structs(TaskPort, "port", MAX_TASK_PORTS),
            about="Ports whose numbers the operator chooses, passed in `DI_PORT_<NAME>`.",
        ),
    ] = ()
    template: Annotated[
        Template,
        Declared(
            kind=PodTemplate(),
            may_change_before_start=True,
            about="The pods of the task. `restartPolicy` is `Never`, because the operator replaces "
            "failed pods, or `OnFailure` if a failure rule restarts in place. Keys of "
            "`diengine/` in labels and annotations are reserved.",
            more="`metadata` supports labels and annotations.",
            absent="required, unless the job has `spec.template`",
        ),
    ]

    @property
    def pods(self) -> int:
        """Return the number of pods in all its replicas."""
        return self.replicas * self.pods_per_replica

    @property
    def has_pod_groups(self) -> bool:
        """Return whether its replicas have several pods."""
        return self.pods_per_replica > 1

    @cached_property
    def leader_template(self) -> Template:
        """Return the template for the first pod of each replica."""
        patch = self.leader_template_patch
        found: Template = self.template if patch is None else patched(self.template, patch)
        return found

    @cached_property
    def elastic_templates(self) -> tuple[Template, Template]:
        """Return the templates of the elastic tier: for the first pod of each replica, and for the
        others.
        """
        both = self.leader_template, self.template
        leader, other = both if self.elastic is None else map(self.elastic.applied_to, both)
        return leader, other

    def template_of(self, index: int) -> Template:
        """Return the template for the pod at a local index."""
        leader, other = (
            (self.leader_template, self.template) if self.is_core(index) else self.elastic_templates
        )
        return leader if self.is_leader(index) else other

    def is_leader(self, index: int) -> bool:
        """Return whether the pod at a local index is the first of its replica."""
        return index % self.pods_per_replica == 0

    def is_core(self, index: int) -> bool:
        """Return whether the pod at a local index is outside of the elastic tier, so that the job
        needs it.
        """
        if self.elastic is None:
            return True
        return index // self.pods_per_replica < (self.min_replicas or self.replicas)

    @property
    def has_elastic_group(self) -> bool:
        """Return whether its pods form an elastic process group, which members can join and
        leave.
        """
        return self.process_group is not None and self.process_group.elastic

    @property
    def drains_leaders(self) -> bool:
        """Return whether only the first pod of each replica is asked to drain, because the task's
        Service lists only leaders.
        """
        return self.service is not None and self.service.select is Selected.LEADERS


def tasks_by_pod(job: str, tasks: Iterable[Task]) -> Callable[[str], str]:
    """Return a function from a pod's name to its task; the name is the only part of a pod that
    cannot change.
    """
    groups, standbys = set(), set()
    for task in tasks:
        if task.has_pod_groups:
            groups.add(task.name)
        if task.standby:
            standbys.add(task.name)
    return lambda pod: task_of_pod(job, pod, groups, standbys)
