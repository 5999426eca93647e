"""`spec` of a DIJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from di_api.spec.bounds import MAX_COMPANIONS, MAX_INT64, MAX_RESTARTED_AT, MAX_TASKS
from di_api.spec.checkpoint import Checkpoint
from di_api.spec.coordinated import Coordinated
from di_api.spec.declared import Declared
from di_api.spec.failure import FailurePolicy
from di_api.spec.kinds import (
    Companions,
    Flag,
    Label,
    Labels,
    OneOf,
    Struct,
    Structs,
    Text,
    Volumes,
    Whole,
)
from di_api.spec.progress import ProgressPolicy
from di_api.spec.task import Task
from di_api.spec.topology import Topology


class Priority(StrEnum):
    """Precedence of a job over the others that wait for capacity."""

    NORMAL = "normal"
    HIGH = "high"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class SuccessOperator(StrEnum):
    """How many of the tasks of a success policy have to succeed."""

    ALL = "All"
    ANY = "Any"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessPolicy:
    """When a job with tasks has succeeded although some of its pods still run."""

    tasks: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of tasks. The job is over when every pod of each has succeeded.",
        ),
    ]
    operator: Annotated[
        SuccessOperator,
        Declared(
            kind=OneOf(SuccessOperator),
            about="`Any` ends the job when one of the tasks has succeeded.",
        ),
    ] = SuccessOperator.ALL
    grace_period_seconds: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="Seconds that the other pods have from their SIGTERM to end by themselves. With "
            "0 the job has succeeded at once, and `cleanPodPolicy` decides about them.",
        ),
    ] = 30


class GangScheduler(StrEnum):
    """Scheduler for gang scheduling, besides our own allocator."""

    NONE = "none"
    SCHEDULER_PLUGINS = "scheduler-plugins"
    VOLCANO = "volcano"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How a job gets its first nodes."""

    gang: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="True creates no pod before all of them fit at once. A preemptible job starts "
            "with `minReplicas` of each task at least.",
        ),
    ] = False
    gang_scheduler: Annotated[
        GangScheduler,
        Declared(
            kind=OneOf(GangScheduler),
            about="The scheduler that binds the pods all together or not at all: the job gets a "
            "PodGroup of its kind, and its pods name that scheduler; `kubernetes` is the cluster's "
            "own one, from Kubernetes 1.37 on.",
            more="[What has to be installed](../how-to/teams-gangs.md).",
            # An operator from before the field refuses a new job that has it.
            is_filled_in=False,
            absent="`none`",
        ),
    ] = GangScheduler.NONE
    queue: Annotated[
        str | None,
        Declared(
            kind=Label("queue"),
            about="The queue of Volcano that the PodGroup is in.",
            absent="Volcano's own default",
        ),
    ] = None
    provisioning_class_name: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="The class of the ProvisioningRequest by which nodes are asked for, before there "
            "is any pod.",
            more="[What has to be installed](../how-to/teams-autoscalers.md#nodes).",
            absent="pods are made at once",
        ),
    ] = None
    topology: Annotated[
        tuple[Topology, ...],
        Declared(
            kind=Structs(Topology, "constraint", MAX_TASKS),
            about="Pods that run near each other, in one zone or rack.",
            more="[How](../how-to/teams.md#topology).",
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The spec of a job, with defaults.

    Kubernetes objects inside (pod templates, volumes) stay raw mappings and must not be modified.
    """

    priority: Annotated[
        Priority,
        Declared(
            kind=OneOf(Priority),
            about="Precedence over other jobs that wait for capacity.",
            may_change=True,
        ),
    ] = Priority.NORMAL
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Declared(
            kind=OneOf(CleanPodPolicy),
            about="Which pods are deleted when the job ends. `Running` deletes those that still "
            "run, so that the logs of the others stay; `All` deletes every pod; `None` deletes "
            "none.",
            more="The job's Service always goes.",
            may_change=True,
        ),
    ] = CleanPodPolicy.RUNNING
    preemptible: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="False means a fixed number of replicas, placed by the cluster's scheduler. "
            "True lets the allocator choose how many, between `minReplicas` and `maxReplicas`, "
            "and where.",
        ),
    ] = False
    backoff_limit: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="Restarts allowed before the job is Failed. Pods lost with their node or evicted "
            "do not count.",
            more="Failures seen together count once.",
            may_change=True,
        ),
    ] = 3
    group: Annotated[
        str | None,
        Declared(kind=Text(), about="Free text, kept and shown, without any meaning."),
    ] = None
    volumes: Annotated[
        tuple[Mapping[str, Any], ...],
        Declared(
            kind=Volumes(most=128),
            about="Volumes added to every pod of the job, as in a pod's `spec.volumes`.",
            more="Names may not repeat those of a template's own volumes.",
        ),
    ] = ()
    tasks: Annotated[
        tuple[Task, ...],
        Declared(
            kind=Structs(Task, "task", MAX_TASKS, least=1),
            about="The groups of pods the job consists of.",
            absent="required without `coordinated`",
        ),
    ] = ()
    """Empty in coordinated jobs only."""
    coordinated: Annotated[
        Coordinated | None,
        Declared(
            kind=Struct(Coordinated),
            about="A job whose coordinator asks for collectors and learners while it trains; in "
            "place of `tasks`.",
        ),
    ] = None
    companions: Annotated[
        tuple[Mapping[str, Any], ...],
        Declared(
            kind=Companions(MAX_COMPANIONS),
            about="Objects made before the pods and deleted with the job, of kinds that the "
            "cluster allows. In all their texts `$(JOB)` stands for the job's name.",
            more="[Which ones, and how they are called](../how-to/roles.md#companions).",
        ),
    ] = ()
    scheduling: Annotated[
        Scheduling,
        Declared(kind=Struct(Scheduling), about="How the job gets its first nodes."),
    ] = Scheduling()
    success_policy: Annotated[
        SuccessPolicy | None,
        Declared(
            kind=Struct(SuccessPolicy),
            about="When the job is over although some of its pods run on. New jobs with "
            "learners get one that names all tasks of that type.",
            more="That is the webhook's doing. [How such a job ends](lifecycle.md#success).",
            absent="every pod has to succeed",
        ),
    ] = None
    checkpoint: Annotated[
        Checkpoint | None,
        Declared(
            kind=Struct(Checkpoint),
            about="Where learners keep their checkpoints, and the time they have to write the "
            "last.",
        ),
    ] = None
    failure_policy: Annotated[
        FailurePolicy | None,
        Declared(
            kind=Struct(FailurePolicy),
            about="What is done about pods that fail. New jobs with tasks get rules.",
            more="[Which ones](lifecycle.md#failure).",
            absent="pods are replaced",
            may_change=True,
        ),
    ] = None
    progress_policy: Annotated[
        ProgressPolicy | None,
        Declared(
            kind=Struct(ProgressPolicy),
            about="When a job hangs, by the steps that it reports, and what is done then.",
            may_change=True,
            absent="progress is not checked",
        ),
    ] = None
    suspend: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="True ends the pods gracefully and keeps the job waiting; false again resumes "
            "it.",
            may_change=True,
        ),
    ] = False
    managed_by: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Which controller runs the job. Any other than "
            "`diengine.opendilab.org/di-operator` has the operator leave it alone; "
            "`kueue.x-k8s.io/multikueue` has MultiKueue run it in another cluster.",
            more="[What goes with that](../how-to/teams-clusters.md).",
            absent="the operator",
        ),
    ] = None
    restarted_at: Annotated[
        str | None,
        Declared(
            kind=Text(longest=MAX_RESTARTED_AT),
            about="Another text than before replaces all pods of the job, without counting a "
            "restart.",
            more="`di restart` writes the time. [What happens then]"
            "(lifecycle.md#restarting-when-asked-to).",
            may_change=True,
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1, MAX_INT64),
            about="Seconds the job may be active, counted from its start, before it is Failed.",
            may_change=True,
        ),
    ] = None
    pending_timeout_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1),
            about="Seconds that a task may have fewer pods ready than its `minReplicas` (absent: "
            "`replicas`) before the job is Failed. Of a coordinated job it is the coordinator.",
            more="Pods that have succeeded count as ready. "
            "[What does not count](lifecycle.md#time).",
            may_change=True,
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        Declared(
            kind=Whole(0),
            about="Seconds after its end when the job is deleted with its pods. Absent means "
            "never.",
            may_change=True,
        ),
    ] = None

    @property
    def replicas(self) -> int:
        """Return the number of pods of the whole job, R."""
        if self.coordinated is not None:
            return 1 + len(self.coordinated.replicas)
        return sum(task.pods for task in self.tasks)
