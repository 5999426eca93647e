"""The DIJob spec as typed, immutable values; what decisions are made on.

Built by `di_api.schema.load_spec`, which guarantees the rules of `di_api.validation`.
Kubernetes objects inside (pod templates, volumes) stay raw mappings and must not be modified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from di_api.coordinated import Coordinated


class TaskType(StrEnum):
    """Role of a task. The named roles occur at most once in a job, NONE any number of times."""

    LEARNER = "learner"
    COLLECTOR = "collector"
    EVALUATOR = "evaluator"
    NONE = "none"


class Priority(StrEnum):
    """Precedence of a job over the others that wait for capacity."""

    NORMAL = "normal"
    HIGH = "high"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class Phase(StrEnum):
    """Where a job stands; written by the operator to `status.phase`."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESCHEDULING = "Rescheduling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended and will never run again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One group of equal pods."""

    name: str
    type: TaskType
    replicas: int
    min_replicas: int | None = None
    """Lower bound of scaling; None: `replicas` for the allocator, 1 for REST."""
    max_replicas: int | None = None
    """Upper bound of scaling; None: `replicas` for the allocator, di-server's default for REST."""
    depends_on: tuple[str, ...] = ()
    """Names of the tasks whose pods must all be ready or succeeded before this one's start."""
    template: Mapping[str, Any]
    """A core/v1 PodTemplateSpec as the user wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How a job gets its first nodes."""

    gang: bool = False
    """Whether no pod is created before there is room for all of them at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the user asks for, defaults applied."""

    priority: Priority
    clean_pod_policy: CleanPodPolicy
    preemptible: bool
    backoff_limit: int
    """Restarts allowed before the job is Failed."""
    group: str | None = None
    volumes: tuple[Mapping[str, Any], ...] = ()
    """core/v1 Volumes added to every pod."""
    tasks: tuple[Task, ...] = ()
    """Empty in a coordinated job, and in no other."""
    coordinated: Coordinated | None = None
    scheduling: Scheduling = Scheduling()
    suspend: bool = False
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None

    @property
    def replicas(self) -> int:
        """R, the number of pods of the whole job."""
        if self.coordinated is not None:
            return 1 + len(self.coordinated.replicas)
        return sum(task.replicas for task in self.tasks)
