"""The form of a framework's declaration, and its input: one pod of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from di_api.spec.process_group import ProcessGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The pods of one task."""

    nodes: tuple[str, ...]
    """DNS names by local index."""
    port: int | None = None
    """Port that the template names for the framework; None: the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a process group."""

    group: ProcessGroup
    index: int
    """Rank in the group: the local index of the pod, or its index in the replica if that has
    several.
    """
    nodes: tuple[str, ...]
    """DNS names of the pods of the group, by rank."""
    bounds: tuple[int, int]
    """Smallest and largest number of replicas of an elastic group."""
    port: int
    """Port of the pod with rank 0."""
    task: str = ""
    """Name of the task."""
    cluster: Mapping[str, Listed] = field(default_factory=dict)
    """Pods by task, of all tasks of the job with this framework."""

    @property
    def master(self) -> str:
        """Return the DNS name of the pod with rank 0."""
        return self.nodes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Tasks of one job that are one cluster together: the name of a task is its role in it."""

    names: tuple[str, ...]
    """Valid names of tasks."""
    single: tuple[str, ...] = ()
    """Roles with one pod."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """The role without which a role does not work."""
    elastic_with: str
    """The role that a cluster with elastic tasks needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Needs of a framework, and its limits.

    The reasons are parts of messages at admission, such as "must be false, jax takes no member in".
    """

    variables: Callable[[Member], Mapping[str, str]]
    """Variables of a pod."""
    single_process: str | None = None
    """Why a pod has one process; None: `processesPerReplica` can be larger."""
    fixed_size: str | None = None
    """Why a group cannot be elastic; None: it can."""
    most_pods: int | None = None
    """Largest number of pods of a task; None: as many as a job can have."""
    roles: Roles | None = None
    """Roles of tasks; None: each task is a group of its own."""
    starts_command: str | None = None
    """Why the main container needs a `command`; None: that of its image is enough."""


MOST_LISTED: Final = 256
"""Largest number of pods of a task, where a variable has the addresses of all of them.

With four tasks of 256 pods the longest addresses still fit into one variable, which Linux limits to
128 KiB.
"""
