"""`spec` of a DIJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from di_api.spec.artifact import MOST_ARTIFACTS, Artifact
from di_api.spec.bounds import MAX_COMPANIONS, MAX_INT64, MAX_RESTARTED_AT, MAX_TASKS
from di_api.spec.checkpoint import Checkpoint
from di_api.spec.code import Code
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
from di_api.spec.progress import IdlePolicy, ProgressPolicy
from di_api.spec.task import Task
from di_api.spec.topology import Topology


class Priority(StrEnum):
    """Precedence of a job over the others that wait for capacity."""

    NORMAL = "normal"
    HIGH = "high"


class CleanPodPolicy(StrEnum):
    """The pods that are deleted when the job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class SuccessOperator(StrEnum):
    """How many of the tasks of a success policy have to succeed."""

    ALL = "All"
    ANY = "Any"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessPolicy:
    """The rule by which a job with tasks has succeeded although some of its pods still run."""

    tasks: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of tasks. The job has succeeded when every pod of each has succeeded.",
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
            about="Seconds between SIGTERM and SIGKILL for the other pods. With 0 the job has "
            "succeeded at once, and `cleanPodPolicy` decides about them.",
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
            "with at least `minReplicas` of each task.",
        ),
    ] = False
    gang_scheduler: Annotated[
        GangScheduler,
        Declared(
            kind=OneOf(GangScheduler),
            about="The scheduler that binds all pods together or none. The job gets a PodGroup of "
            "that scheduler, which its pods name. `kubernetes` is the cluster's default "
            "scheduler, from Kubernetes 1.37.",
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
            about="Queue of Volcano for the PodGroup.",
            absent="Volcano's own default",
        ),
    ] = None
    provisioning_class_name: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Class of the ProvisioningRequest that requests nodes before there are any pods.",
            more="[What has to be installed](../how-to/teams-autoscalers.md#nodes).",
            absent="pods are created at once",
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
            "run, so that the logs of the others stay; `All` deletes every pod; `None` "
            "deletes none.",
            more="The job's Service is always deleted.",
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
            about="Restarts allowed before the job is Failed. Pods that the cluster ended or "
            "refused do not count.",
            more="Failures seen together count once.",
            may_change=True,
        ),
    ] = 3
    group: Annotated[
        str | None,
        Declared(kind=Text(), about="Free text, stored and shown without any effect."),
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
            about="The groups of pods of the job.",
            absent="required without `coordinated`",
        ),
    ] = ()
    """Empty in coordinated jobs only."""
    coordinated: Annotated[
        Coordinated | None,
        Declared(
            kind=Struct(Coordinated),
            about="A job whose coordinator requests collectors and learners while it trains; in "
            "place of `tasks`.",
        ),
    ] = None
    companions: Annotated[
        tuple[Mapping[str, Any], ...],
        Declared(
            kind=Companions(MAX_COMPANIONS),
            about="Objects that are created before the pods and deleted with the job, of kinds "
            "that the cluster allows. In all their strings `$(JOB)` is replaced by the job's name.",
            more="[Which kinds, and their names](../how-to/roles.md#companions).",
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
            about="When the job has succeeded although some of its pods still run. New jobs with "
            "learners get one that names all tasks of that type.",
            more="The webhook adds it. [How such a job ends](lifecycle.md#success).",
            absent="every pod has to succeed",
        ),
    ] = None
    checkpoint: Annotated[
        Checkpoint | None,
        Declared(
            kind=Struct(Checkpoint),
            about="Where learners store checkpoints, and the time for the last one.",
        ),
    ] = None
    artifacts: Annotated[
        tuple[Artifact, ...],
        Declared(
            kind=Structs(Artifact, "artifact", MOST_ARTIFACTS),
            about="Directories of the pods that outlive them, a folder for each pod on a volume.",
            more="[How](../how-to/artifacts.md).",
        ),
    ] = ()
    code: Annotated[
        Code | None,
        Declared(
            kind=Struct(Code),
            about="Source files that every pod gets before its program starts, so that no image "
            "has to be built.",
        ),
    ] = None
    failure_policy: Annotated[
        FailurePolicy | None,
        Declared(
            kind=Struct(FailurePolicy),
            about="How failed pods are handled. New jobs with tasks get default rules.",
            more="[Which ones](lifecycle.md#failure).",
            absent="pods are replaced",
            may_change=True,
        ),
    ] = None
    progress_policy: Annotated[
        ProgressPolicy | None,
        Declared(
            kind=Struct(ProgressPolicy),
            about="When a job counts as hung, by the steps that it reports, and what follows.",
            may_change=True,
            absent="progress is not checked",
        ),
    ] = None
    idle_policy: Annotated[
        IdlePolicy | None,
        Declared(
            kind=Struct(IdlePolicy),
            about="When a job counts as idle, by the share of the time that its learners wait, and "
            "what follows.",
            may_change=True,
            absent="waiting is not checked",
        ),
    ] = None
    suspend: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="True ends the pods gracefully and keeps the job waiting; false resumes it.",
            may_change=True,
        ),
    ] = False
    managed_by: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Controller of the job. With any other than `diengine.opendilab.org/di-operator` "
            "the operator ignores the job; with `kueue.x-k8s.io/multikueue` MultiKueue runs "
            "it in another cluster.",
            more="[Requirements](../how-to/teams-clusters.md).",
            absent="the operator",
        ),
    ] = None
    restarted_at: Annotated[
        str | None,
        Declared(
            kind=Text(longest=MAX_RESTARTED_AT),
            about="A changed text replaces all pods of the job, without counting a restart.",
            more="`di restart` writes the time. [Effects](lifecycle.md#restarting-when-asked-to).",
            may_change=True,
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1, MAX_INT64),
            about="Seconds from the job's start after which it is Failed.",
            may_change=True,
        ),
    ] = None
    pending_timeout_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1),
            about="Seconds that a task can have fewer ready pods than its `minReplicas` (absent: "
            "`replicas`) before the job is Failed. In a coordinated job this applies to the "
            "coordinator.",
            more="Pods that have succeeded count as ready. [Exceptions](lifecycle.md#time).",
            may_change=True,
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        Declared(
            kind=Whole(0),
            about="Seconds after its end until the job is deleted with its pods. Absent means "
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
